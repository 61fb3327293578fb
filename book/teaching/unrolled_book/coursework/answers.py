"""Taking a named answer out of what a student handed in: a notebook, a .py file, the page's export.

Nothing runs here. The code is read as syntax trees, cell by cell, so that a cell that Python cannot
read costs only itself. `Answers.program` picks the last definition of the answer and the statements
that it needs, and leaves out the rest: plots, downloads, trainings. What a cell has printed counts
for nothing.

Files come from strangers, so what one costs is bounded: the longest cells of a file with too much
code are left out before any is read, a cell is read twice at most, and finding what an answer needs
takes time in proportion to the code.
"""

from __future__ import annotations

import ast
import builtins
import codecs
import difflib
import json
import re
import symtable
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

EXPORT = "unrolled-answers"
_MOST_CODE = 400_000  # characters of all cells; a long chapter of the course has 50,000
_MOST_CELLS = 5_000
_MOST_STATEMENTS = 20_000  # of a file, at its top level
_MOST_MAGICS = 300  # in one cell
_MOST_SCOPES = 200_000_000  # of a file: functions in a statement, times its characters
_LONGEST_F_STRING = 10_000  # Python before 3.12 takes its length squared
_MOST_NAMES = 2_000  # among which a misspelt one is looked for
_MOST_PROBLEMS = 20  # of a file
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
_PERCENT = re.compile(r"(?m)^# ?%%(.*)$\n?")
_MUTATORS = {
    *("add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "remove"),
    *("reverse", "setdefault", "sort", "update"),
}
_ALPHABETS = ("latin", "iso", "cp12", "windows", "koi8", "gb", "big5", "shift", "euc", "mac")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class _Statement:
    """A statement at the top level: its text, what it binds, changes and uses."""

    text: str
    binds: frozenset[str]
    changes: frozenset[str]  # names whose values it changes: table[key] = …, merges.append(…)
    uses: frozenset[str]  # when it runs: what a function's body uses is `later`
    later: frozenset[str]
    defines: bool  # a function or a class
    partly: bool  # what it binds may have had a value before: x += 1, if …: x = 1
    future: bool


@dataclass(frozen=True)
class Answers:
    """The code of one file. problems: what was left out, in sentences for the student."""

    file: str
    problems: tuple[str, ...] = ()
    kind: str = "notebook"
    _statements: tuple[_Statement, ...] = field(default=(), repr=False)
    _lost: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # unreadable cells, and why
    _export: dict[str, tuple[_Statement, ...]] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the file defines at its top level, or the exercises of an export."""
        if self.kind == "export":
            return tuple(self._export)
        return tuple(dict.fromkeys(n for s in self._statements for n in sorted(s.binds)))

    def defines(self, name: str) -> bool:
        """Whether there is an answer of this name: "shift" or, in an export, "c01…/shift"."""
        if self._exported(name) is not None:
            return True
        name = name.rpartition("/")[2]
        return name in self._export or any(name in s.binds for s in self._statements)

    def program(self, name: str, given: str = "") -> str:
        """The source that defines the answer: its last definition and what that needs.

        given: statements that stand before the student's, such as the imports of the exercise;
        those of them that are needed come along. ValueError says why there is no such answer.
        """
        if self.kind == "export":
            statements = self._exported(name)
            if statements is None:
                raise ValueError(self._missing(name))
        else:
            statements = self._statements
        name = name.rpartition("/")[2]
        if not any(name in s.binds for s in statements):
            raise ValueError(self._missing(name))
        return _slice([*_Reader().statements(given), *statements], name)

    def notes(self, name: str) -> list[str]:
        """What the student should know of how the answer was found."""
        name = name.rpartition("/")[2]
        times = sum(s.defines and name in s.binds for s in self._statements)
        return [f"`{name}` is defined {times} times; the last one counts"] if times > 1 else []

    def _exported(self, name: str) -> tuple[_Statement, ...] | None:
        found = [key for key in self._export if name in (key, key.rpartition("/")[2])]
        return self._export[found[0]] if found else None

    def _missing(self, name: str) -> str:
        what, name = self.kind, name.rpartition("/")[2]
        for source, reason in self._lost:
            if re.search(rf"\b{re.escape(name)}\b", source):
                return f"{reason}; it mentions `{name}`, which is defined nowhere else"
        own = [n for n in self.names if not n.startswith("_") and n.isidentifier()]
        if self.kind == "export":
            own = [key.rpartition("/")[2] for key in self.names]
        close = difflib.get_close_matches(name, own[:_MOST_NAMES], n=1, cutoff=0.6)
        if close:
            return f"the {what} defines no `{name}`; it defines `{close[0]}`"
        functions = [n for s in self._statements if s.defines for n in sorted(s.binds)]
        listed = list(dict.fromkeys(functions or own))[:6]
        shown = f"; it defines {', '.join(f'`{n}`' for n in listed)}" if listed else ""
        return f"the {what} defines no `{name}`{shown or '; there is no code in it'}"


def take(name: str, body: bytes) -> Answers:
    """The code in a file that was handed in; what it is, its content decides, not its ending.

    Raises ValueError with a plain reason for a file that is neither a notebook, nor Python, nor an
    export of the page.
    """
    text, problems = _text(name, body)
    start = text.lstrip()
    if start.startswith("{") and (found := _json(name, text)) is not None:
        if found.get("format") == EXPORT or "answers" in found:
            return _from_export(name, found, problems)
        return _from_notebook(name, found, problems)
    if name.lower().endswith((".ipynb", ".json")):
        what = "is empty" if not start else f"begins with {start[:20]!r}"
        raise ValueError(f"{name} {what}; a notebook is JSON and begins with '{{'")
    return _from_python(name, text, problems)


# ---- the three kinds of file ---------------------------------------------------------------------


def _text(name: str, body: bytes) -> tuple[str, list[str]]:
    """The file's text in whatever encoding it is, and what was odd about it."""
    if body.startswith((b"%PDF", b"\x89PNG", b"PK\x03\x04", b"\xff\xd8\xff", b"\x1f\x8b", b"MZ")):
        raise ValueError(f"{name} is no text; a notebook (.ipynb) or Python (.py) is expected")
    text = _decode(body)
    problems = []
    if "\0" in text:
        problems.append(f"{name} holds null bytes; they were left out")
    return _lines_ended(text.lstrip("\ufeff")), problems


def _decode(body: bytes) -> str:
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body.decode(encoding, errors="replace")
    if b"\0" in body[:400]:  # UTF-16 without its mark: every second byte of plain text is 0
        even, odd = body[:400:2].count(0), body[1:400:2].count(0)
        if max(even, odd) > 4 * min(even, odd) + 20:
            return body.decode("utf-16-be" if even > odd else "utf-16-le", errors="replace")
    declared = re.match(rb"(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", body[:400])
    said = declared[1].decode("ascii").lower() if declared else ""
    for encoding in ("utf-8", said if said.startswith(_ALPHABETS) else "cp1252", "cp1252"):
        try:
            return body.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode("latin-1")


def _json(name: str, text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        if name.lower().endswith(".py"):
            return None
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(
            f"{name} is broken: its JSON cannot be read{where}; open it in Jupyter, save it again"
        ) from None
    return found if isinstance(found, dict) else None


def _from_export(name: str, found: dict[str, Any], problems: list[str]) -> Answers:
    if found.get("version", 1) != 1:
        raise ValueError(f"{name} is an export of version {found['version']!r}; expected 1")
    answers = found.get("answers")
    if not isinstance(answers, dict):
        raise ValueError(f"{name} is an export of the page without answers")
    sources = {}
    for key, answer in list(answers.items())[:_MOST_CELLS]:
        source = answer.get("source") if isinstance(answer, dict) else None
        if isinstance(source, str) and source.strip():
            sources[str(key)] = _lines_ended(source)
    read, lost = _read(sources, "the answer `{}`")
    short = tuple((key.rpartition("/")[2], reason) for key, reason in lost.items())
    return Answers(name, (*problems, *_told(lost)), "export", (), short, read)


def _lines_ended(source: str) -> str:
    """The text with one kind of line end, and without null characters."""
    return source.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def _from_notebook(name: str, found: dict[str, Any], problems: list[str]) -> Answers:
    cells = found.get("cells")
    if not isinstance(cells, list):  # nbformat 3 has sheets
        sheets = found.get("worksheets")
        sheets = [s for s in sheets if isinstance(s, dict)] if isinstance(sheets, list) else []
        lists = [s["cells"] for s in sheets if isinstance(s.get("cells"), list)]
        if not lists:
            raise ValueError(f"{name} is JSON, but not a notebook: it has no cells")
        cells = [cell for each in lists for cell in each]
    sources = {}
    for i, cell in enumerate(cells[:_MOST_CELLS], 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))
            if isinstance(source, list):
                source = "".join(map(str, source))
            if isinstance(source, str):
                sources[f"cell {i}"] = _lines_ended(source)
    return _from_cells(name, "notebook", sources, problems)


def _from_python(name: str, text: str, problems: list[str]) -> Answers:
    head, *parts = _PERCENT.split(text, _MOST_CELLS)
    sources = {"the file": head} if not parts else {"the part above the first cell": head}
    for i, (title, source) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        if "[markdown]" not in title and "[raw]" not in title:
            sources[f"cell {i}"] = source
    return _from_cells(name, "file", sources, problems)


def _from_cells(name: str, kind: str, sources: dict[str, str], problems: list[str]) -> Answers:
    read, lost = _read(sources, "{}")
    statements = tuple(s for each in read.values() for s in each)
    kept = tuple((sources[where], reason) for where, reason in lost.items())
    return Answers(name, (*problems, *_told(lost)), kind, statements, kept)


def _told(lost: dict[str, str]) -> list[str]:
    """What the student reads of the cells that were left out."""
    reasons = list(lost.values())
    if len(reasons) > _MOST_PROBLEMS:
        reasons[_MOST_PROBLEMS:] = [f"and {len(reasons) - _MOST_PROBLEMS} more were left out"]
    return reasons


# ---- cells and statements ------------------------------------------------------------------------


def _read(
    sources: dict[str, str], called: str
) -> tuple[dict[str, tuple[_Statement, ...]], dict[str, str]]:
    """The statements of each cell of one file, and why the others were left out.

    Where there is too much code, the longest cells go, for answers are short. called: the name of a
    cell in a sentence.
    """
    left, fitting = _MOST_CODE, set()
    for where in sorted(sources, key=lambda where: len(sources[where])):
        left -= len(sources[where])
        if left < 0:
            break
        fitting.add(where)
    reader, read, lost = _Reader(), {}, {}
    for where, source in sources.items():
        try:
            if where not in fitting:
                raise ValueError(
                    f"at most {_MOST_CODE:,} characters of code are read of a file, and with this "
                    "it has more; keep data and pictures in files of their own"
                )
            read[where] = tuple(reader.statements(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            lost[where] = f"{called.format(where)} was left out: {_reason(error)}"
    return read, lost


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        at = f", line {error.lineno}" if error.lineno else ""
        return f"Python cannot read it ({error.msg}{at})"
    return str(error) if isinstance(error, ValueError) else "it is nested too deep"


class _Reader:
    """Reads cells, and says no where those of one file would take too long together."""

    def __init__(self) -> None:
        self._statements_left = _MOST_STATEMENTS
        self._scopes_left = _MOST_SCOPES

    def statements(self, source: str) -> list[_Statement]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a text that is no raw one
            tree, source = _parse(source)
            lines = [line.encode() for line in source.split("\n")]
            nodes = [node for node in tree.body if not _is_idle(node)]
            if len(nodes) > self._statements_left:
                raise ValueError(
                    f"a file may have {_MOST_STATEMENTS:,} statements, and it has more"
                )
            self._statements_left -= len(nodes)
            return [self._statement(node, _segment(node, lines)) for node in nodes]

    def _statement(self, node: ast.stmt, text: str) -> _Statement:
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


def _is_idle(node: ast.stmt) -> bool:
    """A `pass`, a text that stands alone, or what runs only as a script."""
    if isinstance(node, ast.If):
        return "__name__" in {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone or isinstance(node, ast.Pass)


def _statement(node: ast.stmt, text: str) -> _Statement:
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
    return _Statement(
        text=text,
        binds=frozenset(binds),
        changes=frozenset(_changed(node) - binds) if not defines else frozenset(),
        uses=frozenset(uses),
        later=frozenset(later - uses),
        defines=defines,
        partly=not (whole or isinstance(node, ast.AnnAssign)),
        future=isinstance(node, ast.ImportFrom) and node.module == "__future__",
    )


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


def _slice(statements: list[_Statement], name: str) -> str:
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

    def __init__(self, statements: list[_Statement]) -> None:
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
