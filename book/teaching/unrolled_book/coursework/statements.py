"""Python's statements, read as syntax trees, and those of them that a name needs.

Nothing runs here. What a cell costs is bounded: the statements of a file, their functions within
functions, and the time for finding what an answer needs, which is in proportion to the code.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MOST_STATEMENTS = 20_000  # of a file, at its top level
_MOST_MAGICS = 300  # in one cell
_MOST_SCOPES = 200_000_000  # of a file: functions in a statement, times its characters
_LONGEST_F_STRING = 10_000  # Python before 3.12 takes its length squared
_MAGIC = re.compile(r"[%!?]|[\w.]+\?{1,2}\s*$|[\w., ]+=\s*[%!]")
_PYTHON_MAGICS = re.compile(r"\s*%%(time|timeit|capture|prun|memit)\b.*")
_LEXEMES = re.compile(  # texts, comments, brackets: what tells where a line of Python ends
    r'(?s)"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:""")?'
    r"|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'{3})?"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"
    r"|#[^\n]*|\\\n|[()\[\]{}\n]"
)
_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")
_MUTATORS = {
    *("add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "remove"),
    *("reverse", "setdefault", "sort", "update"),
}


@dataclass(frozen=True)
class Statement:
    """A statement at the top level: its text, what it binds, changes and uses."""

    text: str
    binds: frozenset[str]
    changes: frozenset[str]  # names whose values it changes: table[key] = …, merges.append(…)
    uses: frozenset[str]  # when it runs: what a function's body uses is `later`
    later: frozenset[str]
    defines: bool  # a function or a class
    partly: bool  # what it binds may have had a value before: x += 1, if …: x = 1
    future: bool
    sets: bool  # how deep everything may go: sys.setrecursionlimit(…)


class StatementReader:
    """Reads cells, and says no where those of one file would take too long together."""

    def __init__(self) -> None:
        self._statements_left = _MOST_STATEMENTS
        self._scopes_left = _MOST_SCOPES

    def statements(self, source: str) -> list[Statement]:
        """The statements of a cell; SyntaxError or ValueError where it cannot be read."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a text that is no raw one
            tree, source = _parse(source)
            lines = [line.encode() for line in source.split("\n")]
            nodes = [node for node in _as_a_script(tree.body) if not _is_idle(node)]
            if len(nodes) > self._statements_left:
                raise ValueError(
                    f"a file may have {_MOST_STATEMENTS:,} statements, and it has more"
                )
            self._statements_left -= len(nodes)
            return [self._statement(node, _whole(node, lines)) for node in nodes]

    def _statement(self, node: ast.stmt, text: str) -> Statement:
        # A table of names copies, for each function, the names that are known around it.
        cost = len(text) * sum(isinstance(inside, _SCOPES) for inside in ast.walk(node))
        if cost > self._scopes_left:
            raise ValueError("it has too many functions within one statement")
        self._scopes_left -= cost
        return _statement(node, text)


def _parse(source: str) -> tuple[ast.Module, str]:
    """The tree of a cell and its text, with the lines for IPython and the shell left out."""
    first, _, rest = source.lstrip("\n").partition("\n")
    if _PYTHON_MAGICS.fullmatch(first):
        source = rest
    elif first.lstrip().startswith("%%"):
        source = ""
    try:
        return _tree(source), source
    except SyntaxError:
        plain = _without_magics(source)
        if plain == source:
            raise
    return _tree(plain), plain


def _tree(source: str) -> ast.Module:
    if len(source) > _LONGEST_F_STRING:
        for found in _LEXEMES.finditer(source):
            start, end = found.span()
            if end - start > _LONGEST_F_STRING and "f" in source[max(0, start - 2) : start].lower():
                raise ValueError(f"an f-string is longer than {_LONGEST_F_STRING:,} characters")
    return ast.parse(source)


def _without_magics(source: str) -> str:
    """The text with `pass` in place of the lines for IPython, which are not Python.

    Only where a statement may begin: a line that begins with % may continue an expression or stand
    in a text of several lines.
    """
    kept, at, magics = [], 0, 0
    while at < len(source):
        end = source.find("\n", at)
        end = len(source) if end < 0 else end
        line = source[at:end]
        if _MAGIC.match(line.lstrip()):
            magics += 1
            if magics >= _MOST_MAGICS:
                raise ValueError("it has too many lines for IPython")
            kept.append(line[: len(line) - len(line.lstrip())] + "pass\n")
            at = end + 1
        else:
            end = _end_of_statement(source, at)
            kept.append(source[at:end])
            at = end
    text = "".join(kept)
    return text if source.endswith("\n") else text.removesuffix("\n")


def _end_of_statement(source: str, at: int) -> int:
    """Where the lines end that belong together with the one that begins here."""
    depth = 0
    for found in _LEXEMES.finditer(source, at):
        lexeme = found[0]
        if lexeme in "([{":
            depth += 1
        elif lexeme in ")]}":
            depth = max(0, depth - 1)
        elif lexeme == "\n" and not depth:
            return found.end()
    return len(source)


def _segment(node: ast.stmt, lines: list[bytes]) -> str:
    """The text of a statement, decorators included; columns count bytes of UTF-8."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    start = 0 if first != node.lineno else node.col_offset
    if first == node.end_lineno:  # there may be thousands on one line
        return lines[first - 1][start : node.end_col_offset].decode()
    last = lines[node.end_lineno - 1][: node.end_col_offset]
    inner = lines[first : node.end_lineno - 1]
    return b"\n".join([lines[first - 1][start:], *inner, last]).decode()


def _as_a_script(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, and those in `if __name__ == "__main__":`, which a cell runs."""
    for node in nodes:
        is_main = isinstance(node, ast.If) and ast.unparse(node.test) in _MAIN
        yield from node.body if is_main else [node]


def _whole(node: ast.stmt, lines: list[bytes]) -> str:
    """The text of a statement as one at the top level, also where it stood within another."""
    text = _segment(node, lines)
    if not node.col_offset or "\n" not in text:
        return text.lstrip()
    decorated = min((d.lineno for d in getattr(node, "decorator_list", [])), default=node.lineno)
    return "if True:\n" + (" " * node.col_offset if decorated == node.lineno else "") + text


def _is_idle(node: ast.stmt) -> bool:
    """A `pass`, or a text that stands alone."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone or isinstance(node, ast.Pass)


def _statement(node: ast.stmt, text: str) -> Statement:
    table = symtable.symtable(text, "<answer>", "exec")
    symbols = table.get_symbols()
    binds = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        binds.add("*")
    uses = {s.get_name() for s in symbols if s.is_referenced()}
    plain = (ast.FunctionDef, ast.AsyncFunctionDef)
    outer = table.get_children()
    later = {n for child in outer for n in _globals(child)}
    defines = isinstance(node, (*plain, ast.ClassDef))
    if not isinstance(node, plain):  # the body of a class, of a comprehension, runs at once
        uses |= {n for child in outer if child.get_type() != "function" for n in _globals(child)}
        uses |= {n for child in outer if _runs_at_once(child) for n in _globals(child)}
    whole = isinstance(node, (*plain, ast.ClassDef, ast.Assign, ast.Import, ast.ImportFrom))
    return Statement(
        text=text,
        binds=frozenset(binds),
        changes=frozenset(_changed(node) - binds) if not defines else frozenset(),
        uses=frozenset(uses),
        later=frozenset(later - uses),
        defines=defines,
        partly=not (whole or isinstance(node, ast.AnnAssign)),
        future=isinstance(node, ast.ImportFrom) and node.module == "__future__",
        sets=_is_setting(node),
    )


def _is_setting(node: ast.stmt) -> bool:
    called = (
        node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else 0
    )
    return isinstance(called, ast.Attribute) and called.attr == "setrecursionlimit"


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """The names from the top level that a function or class, and those inside it, read."""
    open_ = [table]
    while open_:
        table = open_.pop()
        open_ += table.get_children()
        yield from (s.get_name() for s in table.get_symbols() if s.is_global())


def _runs_at_once(table: symtable.SymbolTable) -> bool:
    return table.get_name() in ("listcomp", "setcomp", "dictcomp", "genexpr")


def _changed(node: ast.stmt) -> set[str]:
    """Names of which a part is assigned, or whose list, set or dict is changed by a method."""
    found = set()
    for inside in ast.walk(node):
        target = None
        if isinstance(inside, (ast.Subscript, ast.Attribute)) and isinstance(
            inside.ctx, (ast.Store, ast.Del)
        ):
            target = inside.value
        elif isinstance(inside, ast.Expr) and isinstance(inside.value, ast.Call):
            called = inside.value.func
            if isinstance(called, ast.Attribute) and called.attr in _MUTATORS:
                target = called.value
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found


# ---- what an answer needs ------------------------------------------------------------------------


def needed(statements: list[Statement], name: str) -> str:
    """The statements, in their order, that the last definition of name needs."""
    givers = _Givers(statements)
    keep: set[int] = set()
    open_: list[tuple[str, int, bool]] = [(name, len(statements), False)]
    seen = set(open_)

    def ask(names: Iterable[str], at: int, later: bool) -> None:
        for each in names:
            if (each, at, later) not in seen:
                seen.add((each, at, later))
                open_.append((each, at, later))

    for i, statement in enumerate(statements):
        if statement.sets:
            keep.add(i)
            ask(statement.uses, i, False)
    while open_:
        wanted, at, later = open_.pop()
        for i in givers.of(wanted, at, later):
            statement = statements[i]
            if statement.partly:  # for each name that it changes, also where another brought it in
                ask(statement.binds & {wanted}, i, False)
            if i in keep:
                continue
            keep.add(i)
            ask(statement.uses, i, False)
            ask(statement.later, i, True)
    picked = [s for i, s in enumerate(statements) if i in keep or s.future]
    picked.sort(key=lambda s: not s.future)
    return "\n\n".join(s.text for s in picked) + "\n"


class _Givers:
    """Which statements give a name its value. Each is handed out once for a name and a purpose."""

    def __init__(self, statements: list[Statement]) -> None:
        self._statements = statements
        self._binding: dict[str, list[int]] = defaultdict(list)  # name: places, in their order
        self._changing: dict[str, list[int]] = defaultdict(list)
        for i, statement in enumerate(statements):
            for name in statement.binds:
                self._binding[name].append(i)
            for name in statement.changes:
                self._changing[name].append(i)
        self._given: dict[tuple[str, int], int] = {}  # how many changes after a binding are out

    def of(self, name: str, at: int, later: bool) -> list[int]:
        """The statements that give name its value for one that stands at `at`.

        What a function's body uses is looked up when it is called. So a function or class is taken
        in its last form, wherever it stands. A variable is taken as it was above, where the answer
        was tried out, and from below only where there is none above.
        """
        binds = self._binding.get(name, [])
        above = bisect_left(binds, at)
        if binds and ((later and self._statements[binds[-1]].defines) or not above):
            which = len(binds) - 1
        elif above:
            which = above - 1
        elif hasattr(builtins, name):
            return []
        else:
            return self._binding.pop("*", [])  # from … import *: once is enough
        last = binds[which]
        end = binds[which + 1] if which + 1 < len(binds) else len(self._statements)
        if not later and at < len(self._statements):
            end = min(end, at)
        return [last, *self._changes(name, last, end)]

    def _changes(self, name: str, last: int, end: int) -> list[int]:
        """The changes of name between its binding and the end, but those that were given before."""
        places = self._changing.get(name, [])
        start = self._given.get((name, last), bisect_right(places, last))
        stop = max(start, bisect_left(places, end))
        self._given[name, last] = stop
        return places[start:stop]
