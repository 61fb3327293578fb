"""Taking a named answer out of what a student handed in: a notebook, a .py file, the page's export.

Nothing runs here. The code is read as syntax trees, cell by cell, so that a cell that Python cannot
read costs only itself. `Answers.program` picks the last definition of the answer and the statements
that it needs, and leaves out the rest: plots, downloads, trainings. What a cell has printed counts
for nothing.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

EXPORT = "unrolled-answers"
_LONGEST_CELL = 400_000  # characters; a picture as a text is longer, an answer is not
_MOST_CELLS = 5_000
_LONGEST_CODE = 4_000_000  # characters of all cells
_MOST_MAGICS = 300  # in one cell, and fewer in a long one
_PARSED = 10_000_000  # characters that are read again because of them
_MAGIC = re.compile(r"[%!?]|[\w.]+\?{1,2}\s*$|[\w., ]+=\s*[%!]")
_PYTHON_MAGICS = re.compile(r"\s*%%(time|timeit|capture|prun|memit)\b.*")
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
    _export: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the file defines at its top level, or the exercises of an export."""
        if self.kind == "export":
            return tuple(self._export)
        return tuple(dict.fromkeys(n for s in self._statements for n in sorted(s.binds)))

    def defines(self, name: str) -> bool:
        """Whether there is an answer of this name: "shift" or, in an export, "c01…/shift"."""
        return bool(self._exported(name)) or name.rpartition("/")[2] in self.names

    def program(self, name: str, given: str = "") -> str:
        """The source that defines the answer: its last definition and what that needs.

        given: statements that stand before the student's, such as the imports of the exercise;
        those of them that are needed come along. ValueError says why there is no such answer.
        """
        if self.kind == "export":
            source = self._exported(name)
            if not source:
                raise ValueError(self._missing(name))
            statements = _statements(source)
        else:
            statements = list(self._statements)
        name = name.rpartition("/")[2]
        if not any(name in s.binds for s in statements):
            raise ValueError(self._missing(name))
        return _slice([*_statements(given), *statements], name)

    def notes(self, name: str) -> list[str]:
        """What the student should know of how the answer was found."""
        name = name.rpartition("/")[2]
        times = sum(s.defines and name in s.binds for s in self._statements)
        return [f"`{name}` is defined {times} times; the last one counts"] if times > 1 else []

    def _exported(self, name: str) -> str:
        found = [key for key in self._export if name in (key, key.rpartition("/")[2])]
        return self._export[found[0]] if found else ""

    def _missing(self, name: str) -> str:
        what, name = self.kind, name.rpartition("/")[2]
        for source, reason in self._lost:
            if re.search(rf"\b{re.escape(name)}\b", source):
                return f"{reason}; it mentions `{name}`, which is defined nowhere else"
        own = [n for n in self.names if not n.startswith("_") and n.isidentifier()]
        if self.kind == "export":
            own = [key.rpartition("/")[2] for key in self.names]
        close = difflib.get_close_matches(name, own, n=1, cutoff=0.6)
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
        text = text.replace("\0", "")
        problems.append(f"{name} holds null bytes; they were left out")
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), problems


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
            sources[str(key)] = source.replace("\0", "")
    lost = []
    for key, source in sources.items():
        reason = _unreadable(f"the answer `{key}`", source)
        if reason:
            lost.append((key.rpartition("/")[2], reason))
    kept = {key: s for key, s in sources.items() if not _unreadable("", s)}
    reasons = [reason for _, reason in lost]
    return Answers(name, (*problems, *reasons), "export", (), tuple(lost), kept)


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
                sources[f"cell {i}"] = source.replace("\0", "").replace("\r\n", "\n")
    return _from_cells(name, "notebook", sources, problems)


def _from_python(name: str, text: str, problems: list[str]) -> Answers:
    head, *parts = _PERCENT.split(text)
    sources = {"the file": head} if not parts else {"the part above the first cell": head}
    for i, (title, source) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        if "[markdown]" not in title and "[raw]" not in title:
            sources[f"cell {i}"] = source
    return _from_cells(name, "file", sources, problems)


def _from_cells(name: str, kind: str, sources: dict[str, str], problems: list[str]) -> Answers:
    statements, lost, length = [], [], 0
    for where, source in sources.items():
        length += len(source)
        reason = _unreadable(where, source)
        if length > _LONGEST_CODE:
            reason = f"{where} was left out: the code has more than {_LONGEST_CODE:,} characters"
        if reason:
            lost.append((source[:_LONGEST_CELL], reason))
        else:
            statements += _statements(source)
    reasons = [reason for _, reason in lost]
    return Answers(name, (*problems, *reasons), kind, tuple(statements), tuple(lost))


# ---- cells and statements ------------------------------------------------------------------------


def _unreadable(where: str, source: str) -> str:
    """Why Python cannot read the cell; empty where it can."""
    try:
        _statements(source)
    except SyntaxError as error:
        says = f"{error.msg}" + (f", line {error.lineno}" if error.lineno else "")
        return f"{where} was left out: Python cannot read it ({says})"
    except (ValueError, RecursionError, MemoryError) as error:
        says = str(error) if isinstance(error, ValueError) else "it is nested too deep"
        return f"{where} was left out: {says}"
    return ""


def _statements(source: str) -> list[_Statement]:
    if len(source) > _LONGEST_CELL:
        raise ValueError(f"it is longer than {_LONGEST_CELL:,} characters")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a text that is no raw one
        tree, source = _parse(source)
        lines = source.split("\n")
        nodes = [node for node in tree.body if not _is_idle(node)]
        return [_statement(node, _segment(node, lines)) for node in nodes]


def _parse(source: str) -> tuple[ast.Module, str]:
    """The tree of a cell and its text, with the lines for IPython and the shell left out."""
    first, _, rest = source.lstrip("\n").partition("\n")
    if _PYTHON_MAGICS.fullmatch(first):
        source = rest
    elif first.lstrip().startswith("%%"):
        source = ""
    for _ in range(min(_MOST_MAGICS, 2 + _PARSED // (1 + len(source)))):
        try:
            return ast.parse(source), source
        except SyntaxError as error:
            lines = source.split("\n")
            at = (error.lineno or 0) - 1
            line = lines[at] if 0 <= at < len(lines) else ""
            if not _MAGIC.match(line.lstrip()):
                raise
            lines[at] = line[: len(line) - len(line.lstrip())] + "pass"
            source = "\n".join(lines)
    raise ValueError("it has too many lines for IPython")


def _segment(node: ast.stmt, lines: list[str]) -> str:
    """The text of a statement, decorators included; columns count bytes of UTF-8."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    start = 0 if first != node.lineno else node.col_offset
    picked = [line.encode() for line in lines[first - 1 : node.end_lineno]]
    picked[-1] = picked[-1][: node.end_col_offset]
    picked[0] = picked[0][start:]
    return b"\n".join(picked).decode()


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
        for i in _binding(statements, wanted, at, later):
            if i in keep:
                continue
            keep.add(i)
            statement = statements[i]
            ask(statement.uses, i, False)
            ask(statement.later, i, True)
            if statement.partly:
                ask(statement.binds & {wanted}, i, False)
    picked = [s for i, s in enumerate(statements) if i in keep or s.future]
    picked.sort(key=lambda s: not s.future)
    return "\n\n".join(s.text for s in picked) + "\n"


def _binding(statements: list[_Statement], name: str, at: int, later: bool) -> list[int]:
    """The statements that give name its value for one that stands at `at`.

    What a function's body uses is looked up when it is called. So a function or class is taken in
    its last form, wherever it stands. A variable is taken as it was above, where the answer was
    tried out, and from below only where there is none above.
    """
    binds = [i for i, s in enumerate(statements) if name in s.binds]
    above = [i for i in binds if i < at]
    if binds and ((later and statements[binds[-1]].defines) or not above):
        last = binds[-1]
    elif above:
        last = above[-1]
    elif hasattr(builtins, name):
        return []
    else:
        return [i for i, s in enumerate(statements) if "*" in s.binds]
    following = [i for i in binds if i > last]
    end = following[0] if following else len(statements)
    if not later and at < len(statements):
        end = min(end, at)
    return [last, *(i for i in range(last + 1, end) if name in statements[i].changes)]
