"""No number in prose that the notebook did not compute.

Checked are decimals, percentages, fractions and whole numbers from 100 up. Each must agree, to the
precision it is written with, with a number in some output of the notebook or in its code (a
parameter that was set, a value that was asserted). Not checked: mathematics, code, addresses,
years from 1700 to 2030, references such as "chapter 7", exercises, the section of sources, and a
sentence that cites its source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chapter import Chapter, plain_outputs, tree, without_fences

_SPACE = "\u2009\u202f\u00a0"
_INT = rf"\d{{1,3}}(?:[,{_SPACE} ]\d{{3}})+(?!\d)|\d+"
_NUMBER = re.compile(
    rf"""(?<![\w.]) (?P<whole>{_INT}) (?P<decimals>\.\d+)? (?P<exponent>e[-+]?\d+)?
    (?: [{_SPACE}\ ]?/[{_SPACE}\ ]? (?P<below>{_INT})(?![/\d]|\.\d) )?
    (?P<percent> [{_SPACE}\ ]?(?:%|per\ ?cent\b) )?
    (?: [{_SPACE}\ -]? (?P<scale>thousand|million|billion|trillion|[kM]?B\b|GB\b|ms\b|[kM]\b) )?
    (?!\w|\.\d)""",
    re.VERBOSE,
)
_SCALES = {
    **{"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12},
    **{"k": 1e3, "M": 1e6, "kB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1.0, "ms": 1e-3},
}
_SLACK = 1 + 1e-6
# What counts in a prediction, "(0.2 to 0.5 counts)"; the numbers of a wrong answer, "*above 5.*".
_SPAN = r"(?:above |below )?[-−]?[\d.,]+(?:e[-+]?\d+)?(?: to [-−]?[\d.,]+(?:e[-+]?\d+)?)?"
_SPANS = re.compile(rf"\({_SPAN} counts?\)|\A\*{_SPAN}\*")
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|some|over|under|than|approximately)|≈|~)\W{0,3}$"
)
_WORDS = ("thousand", "million", "billion", "trillion")
_REFERENCE = re.compile(
    r"\b(?:chapter|section|exercise|figure|equation|eq\.|table|part|page|pages|pp?\.|version|python"
    r"|volume)s?\s+\d[\d.]*(?:\s?[-–,]\s?\d[\d.]*|\s(?:and|to)\s\d[\d.]*)*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number as written: its possible values, each with half a unit of its last digit."""

    text: str
    values: tuple[tuple[float, float], ...]
    needs_source: bool


def unfounded(chapter: Chapter) -> list[str]:
    """Every number in prose stands in an output of the notebook, or in its code."""
    known = sorted(set(computed(chapter)))
    complaints = []
    for index, sentence in sentences(chapter):
        for number in written(sentence):
            if number.needs_source and not is_founded(number, known):
                complaints.append(
                    f"cell {index}: {number.text!r} was not computed here: {sentence!r}; print it "
                    "in a cell (or set or assert it there), then say it as printed"
                )
    return complaints


def is_founded(number: Number, known: Iterable[tuple[float, float]]) -> bool:
    """Whether a known (value, half a unit) agrees with one of the number's values.

    The known value must lie within the precision written and be at least as precise itself. A
    fraction is exact: it must lie within the known value's own precision, three decimals at least.
    """
    return any(
        abs(value - other) <= 1e-12
        or (abs(value - other) <= half * _SLACK and fine <= half * _SLACK)
        or (not half and fine <= 5e-4 and abs(value - other) <= fine * _SLACK)
        for value, half in number.values
        for other, fine in known
    )


def sentences(chapter: Chapter) -> Iterator[tuple[int, str]]:
    """(cell index, sentence) of the author's prose, without mathematics, code, addresses."""
    in_sources = False
    for index, cell in chapter.prose:
        for block in re.split(
            r"\n\s*\n|\n(?=\s*(?:[-*+>|]|#+|\d+[.)])\s)", without_fences(cell.source)
        ):
            if re.match(r"\s*#{1,2} ", block):
                in_sources = bool(re.match(r"\s*## +Sources", block))
            if not in_sources:
                yield from ((index, s) for s in _sentences_of(block))


def _sentences_of(block: str) -> Iterator[str]:
    text = re.sub(r"^\s*(?:#+\s+(?:\d+(?:\.\d+)*\.?\s)?|(?:>|[-*+]|\d+[.)])\s)", "", block)
    text = re.sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|<!--.*?-->|<[^>]*>", " … ", text)
    text = _SPANS.sub(" ", text)
    text = re.sub(r"[ \t\n]+", " ", text)  # thin spaces stay
    for sentence in re.split(r"(?<=[.!?:;])\s+(?=\S)", text):
        if "](cite:" not in sentence:
            yield re.sub(r"\]\([^)]*\)", "]", sentence).strip()


def written(sentence: str) -> Iterator[Number]:
    """The numbers of a sentence, each with the values it may stand for."""
    text = _REFERENCE.sub(" ", sentence)
    text = re.sub(r"(?<![\w.])\d+(?:\.\d+){2,}", " ", text)  # versions
    for match in _NUMBER.finditer(text):
        yield _read(match)


def _read(match: re.Match[str]) -> Number:
    value, half = _value(match)
    values = [(value, half)]
    percent, scale, below = match["percent"], match["scale"], match["below"]
    whole = not match["decimals"] and not match["exponent"]
    if below:
        values = [(value / (_plain(below) or 1), 0.0)]
    if percent:
        values.append((value / 100, half / 100))
    if scale in _WORDS and whole:
        values = []  # "3 million" is not any 3
    if scale:
        factors = [_SCALES[scale], 2**20] if scale == "MB" else [_SCALES[scale]]
        values += [(value * factor, half * factor) for factor in factors]
    is_year = re.fullmatch(r"\d{4}", match[0].strip()) and 1700 <= value <= 2030
    small = whole and value < 100 and not (percent or below or scale in _WORDS)
    return Number(match[0].strip(), tuple(values), not (small or is_year))


def _plain(digits: str) -> float:
    return float(re.sub(r"\D", "", digits))


def _value(match: re.Match[str]) -> tuple[float, float]:
    """The value and half a unit of its last digit.

    Zeros at the end of a whole number count as digits, save after a word such as "about": then
    430 000 stands for 425 000 to 435 000, and 1000 for 950 to 1050 (two digits always count).
    """
    digits = re.sub(r"\D", "", match["whole"])
    decimals, power = (match["decimals"] or "", int((match["exponent"] or "e0")[1:]))
    value = float(digits + decimals) * 10.0**power
    if decimals or power:
        return value, 0.5 * 10.0 ** (power + 1 - len(decimals or "."))
    if not _ABOUT.search(match.string[: match.start()].lower()):
        return value, 0.5
    zeros = len(digits) - len(digits.rstrip("0"))
    return value, 0.5 * 10.0 ** max(0, min(zeros, len(digits) - 2))


def computed(chapter: Chapter) -> Iterator[tuple[float, float]]:
    """(value, half a unit of its last digit) of every number in the outputs and the code."""
    for _, cell in chapter.code:
        for text in plain_outputs(cell):
            yield from _in_output(text)
        if "exercise" not in cell.metadata.get("tags", []):
            yield from _in_code(tree(cell))


def _in_output(text: str) -> Iterator[tuple[float, float]]:
    text = re.sub(r"(?<=\d)_(?=\d)", "", text).replace("×", " ")
    apart = re.sub(rf"(?<=\d)[,{_SPACE} ](?=\d)", "  ", text)  # columns that look like thousands
    for reading in {text, apart}:
        for match in _NUMBER.finditer(reading):
            value, half = _value(match)
            exact = not match["decimals"] and not match["exponent"]
            yield value, 0.0 if exact else half
            if match["percent"]:
                yield value / 100, half / 100
            if match["below"] and _plain(match["below"]):
                yield value / _plain(match["below"]), 0.0
                yield _plain(match["below"]), 0.0


def _in_code(module: ast.Module) -> Iterator[tuple[float, float]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield abs(float(node.value)), 0.0
        pair = _pair(node)
        if pair and pair[1]:
            yield abs(pair[0] / pair[1]), 0.0
        if pair and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            yield float(pair[0]) ** min(pair[1], 100), 0.0


def _pair(node: ast.AST) -> tuple[float, float] | None:
    """The two numbers of `a / b`, `a ** b` or `Fraction(a, b)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Pow)):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fraction":
        parts = node.args
    else:
        return None
    values = [p.value for p in parts if isinstance(p, ast.Constant)]
    if len(values) == 2 and all(isinstance(v, (int, float)) for v in values):
        return float(values[0]), float(values[1])
    return None
