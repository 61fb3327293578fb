"""Rules on what a stored output may hold: it must come out again on another processor.

A sum of floats is added up in another order by another processor, so its last digits differ. Six
significant digits survive; what is exact (a count, a power of two) carries the tag `exact-numbers`.
Of a number that is left where larger ones cancel, no digit survives: tell what it is below. A
product of many factors may be as small and keeps its digits: it carries the tag `tiny-numbers`.
Times differ on every run: they may be printed, in a cell whose output is not compared, and nothing
may depend on them.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator

from book.tools.notebooks import tags
from nbformat import NotebookNode

from chapter import Chapter, plain_outputs, tree

DIGITS = 6
TIMERS = {"perf_counter", "process_time", "monotonic", "thread_time", "time", "timeit"}
_NUMBER = re.compile(
    r"(?<![\w.])(?P<whole>\d{1,3}(?:[,_\u2009\u202f\u00a0]\d{3})+(?!\d)|\d+)"
    r"(?P<decimals>\.\d+)?(?:e[-+]?\d+)?(?![\w])"
)
_SMALL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e-(\d+)(?!\w)")
_BOUND = re.compile(r"(?:<|≤|than|below|under|within|at most|equal to)\s*$")
_DIFFERENCE = re.compile(r"\b(?:differ\w*|off|errors?)\b")
_DATA = re.compile(r'(?s)<script type="application/json"[^>]*>(.*?)</script>')


def numbers_survive_another_processor(chapter: Chapter) -> list[str]:
    """No stored number has more than six significant digits, unless its cell says it is exact."""
    found = []
    for index, cell in chapter.code:
        long = [number for text in _stored_texts(cell) for number in long_numbers(text)]
        if long and not {"exact-numbers", "nbval-ignore-output"} & set(tags(cell)):
            some = ", ".join([*dict.fromkeys(long)][:3])
            found.append(
                f"cell {index} stores {some}: another processor may end it otherwise; print at "
                f"most {DIGITS} digits ('.3g'), or give the cell the tag `exact-numbers`"
            )
    return found


def long_numbers(text: str) -> list[str]:
    """The numbers in a text with more than six significant digits; zeros at an end do not count."""
    return [m[0] for m in _NUMBER.finditer(text) if _significant(m) > DIGITS]


def _significant(match: re.Match[str]) -> int:
    digits = re.sub(r"\D", "", match["whole"]) + (match["decimals"] or "")[1:]
    return len(digits.strip("0"))


def no_number_is_rounding(chapter: Chapter) -> list[str]:
    """No stored number is rounding: a small difference is told as a bound ('below 1e-12')."""
    found = []
    for index, cell in chapter.code:
        tiny = [number for text in _stored_texts(cell) for number in tiny_numbers(text)]
        if tiny and not {"tiny-numbers", "nbval-ignore-output"} & set(tags(cell)):
            some = ", ".join([*dict.fromkeys(tiny)][:3])
            found.append(
                f"cell {index} stores {some}: what is left of larger numbers differs between "
                "processors; assert a bound and print that ('below 1e-12'), or give the cell the "
                "tag `tiny-numbers` if this is a product of many factors"
            )
    return found


def tiny_numbers(text: str) -> list[str]:
    """The numbers below 1e-9, and the differences below 1e-4, that are no bounds."""
    found = []
    for match in _SMALL.finditer(text):
        line = text[: match.start()].rpartition("\n")[2]
        small = 5 if _DIFFERENCE.search(line) else 10
        if int(match[1]) >= small and not _BOUND.search(line):
            found.append(match[0])
    return found


def _stored_texts(cell: NotebookNode) -> Iterator[str]:
    """What the cell printed, its figures' labels and alternative texts, and its embedded data."""
    yield from plain_outputs(cell)
    for output in cell.outputs:
        markup = output.get("data", {}).get("text/html", "")
        for data in _DATA.findall(markup):
            yield from _texts_in(json.loads(data, parse_float=lambda digits: f" {digits} "))
        drawn = _DATA.sub("", markup)
        yield from (html.unescape(t) for t in re.findall(r'(?:aria-label|alt)="([^"]*)"', drawn))
        yield from re.findall(r"(?s)<text\b[^>]*>(.*?)</text>", drawn)


def _texts_in(data: object) -> Iterator[str]:
    """The strings in embedded data, drawings without their markup; floats came as strings."""
    if isinstance(data, str):
        yield re.sub(r"<[^>]*>", " ", data)
    elif isinstance(data, (list, dict)):
        for part in data.values() if isinstance(data, dict) else data:
            yield from _texts_in(part)


def no_assertion_depends_on_time(chapter: Chapter) -> list[str]:
    """No assertion compares what a timer measured: a busy machine would fail it."""
    timed, found = set(), []
    for index, cell in chapter.code:
        found += [
            f"cell {index} asserts on a measured time ({ast.unparse(test)}); a busy machine fails "
            "it: print the time, assert what was computed"
            for test in _timed_assertions(tree(cell).body, timed)
        ]
    return found


def _timed_assertions(body: list[ast.stmt], timed: set[str]) -> list[ast.expr]:
    """The conditions that depend on a timer; the names that do are kept in `timed`."""
    found = []
    for node in body:
        if isinstance(node, ast.Assert) and _depends_on_time(node.test, timed):
            found.append(node.test)
        elif isinstance(node, ast.FunctionDef):
            found += _timed_assertions(node.body, local := set(timed))
            returns = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
            _assign([node.name], any(_depends_on_time(value, local) for value in returns), timed)
        elif isinstance(node, ast.Assign):
            names = [name for target in node.targets for name in _names(target)]
            subscripts = any(isinstance(target, ast.Subscript) for target in node.targets)
            late = _depends_on_time(node.value, timed)
            _assign(names, late or (subscripts and bool(timed & set(names))), timed)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            if node.value and _depends_on_time(node.value, timed):
                timed |= set(_names(node.target))
        elif isinstance(node, ast.Expr):
            _grow(node.value, timed)
        elif isinstance(node, ast.For):
            _assign(_names(node.target), _depends_on_time(node.iter, timed), timed)
        inner = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for part in inner * (2 if isinstance(node, (ast.For, ast.While)) else 1):
                found += _timed_assertions(part, timed)
    return list({ast.unparse(test): test for test in found}.values())


def _depends_on_time(node: ast.AST | None, timed: set[str]) -> bool:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)] if node else []
    attributes = [n for n in ast.walk(node) if isinstance(n, ast.Attribute)] if node else []
    return any(n.id in timed for n in names) or any(
        isinstance(n.value, ast.Name)
        and n.value.id in {"time", "timeit"}
        and n.attr.removesuffix("_ns") in TIMERS
        for n in attributes
    )


def _names(target: ast.AST) -> list[str]:
    """The variables that an assignment to this target changes."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in _names(part)]
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        target = target.value
    return [target.id] if isinstance(target, ast.Name) else []


def _assign(names: list[str], late: bool, timed: set[str]) -> None:
    timed.difference_update(names)
    timed.update(names if late else ())


def _grow(node: ast.expr, timed: set[str]) -> None:
    """`times.append(a measured time)` makes the list one of times."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(_depends_on_time(argument, timed) for argument in arguments):
            timed.update(_names(node.func.value))
