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

import codecs
import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from unrolled_book.coursework.statements import Statement, StatementReader, needed
from unrolled_book.exercises.engine.compare import quoted

EXPORT = "unrolled-answers"
_MOST_CODE = 400_000  # characters of all cells; a long chapter of the course has 50,000
_MOST_CELLS = 5_000
_MOST_LISTS = 2_000_000  # in a file, with its dicts: each takes a hundred times its letters
_LONGEST_NAME = 60  # characters that a sentence shows
_MOST_NAMES = 2_000  # among which a misspelt one is looked for
_MOST_PROBLEMS = 20  # of a file
_PERCENT = re.compile(r"(?m)^# ?%%(.*)$\n?")
_ALPHABETS = ("latin", "iso", "cp12", "windows", "koi8", "gb", "big5", "shift", "euc", "mac")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Answers:
    """The code of one file. problems: what was left out, in sentences for the student."""

    file: str
    problems: tuple[str, ...] = ()
    kind: str = "notebook"
    _statements: tuple[Statement, ...] = field(default=(), repr=False)
    _lost: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # unreadable cells, and why
    _export: dict[str, tuple[Statement, ...]] = field(default_factory=dict, repr=False)

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
        return needed([*StatementReader().statements(given), *statements], name)

    def text_of(self, name: str) -> str:
        """The last statement at the top level that binds the name; "" where there is none."""
        return next((s.text for s in reversed(self._statements) if name in s.binds), "")

    def notes(self, name: str) -> list[str]:
        """What the student should know of how the answer was found."""
        name = name.rpartition("/")[2]
        times = sum(s.defines and name in s.binds for s in self._statements)
        return [f"`{name}` is defined {times} times; the last one counts"] if times > 1 else []

    def _exported(self, name: str) -> tuple[Statement, ...] | None:
        found = [key for key in self._export if name in (key, key.rpartition("/")[2])]
        return self._export[found[0]] if found else None

    def _missing(self, name: str) -> str:
        what, name = self.kind, name.rpartition("/")[2]
        for source, reason in self._lost:
            if re.search(rf"\b{re.escape(name)}\b", source):
                return f"{reason}; it mentions `{name}`, which is defined nowhere else"
        own = [n for n in self.names if not n.startswith("_") and n.isidentifier()]
        if self.kind == "export":
            own = [n for n in (key.rpartition("/")[2] for key in self.names) if n.isidentifier()]
        close = difflib.get_close_matches(name, own[:_MOST_NAMES], n=1, cutoff=0.6)
        if close:
            return f"the {what} defines no `{name}`; it defines `{_cut(close[0])}`"
        functions = [n for s in self._statements if s.defines for n in sorted(s.binds)]
        listed = list(dict.fromkeys(functions or own))[:6]
        shown = f"; it defines {', '.join(f'`{_cut(n)}`' for n in listed)}" if listed else ""
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
        raise ValueError(f"{quoted(name, 60)} {what}; a notebook is JSON and begins with '{{'")
    return _from_python(name, text, problems)


# ---- the three kinds of file ---------------------------------------------------------------------


def _text(name: str, body: bytes) -> tuple[str, list[str]]:
    """The file's text in whatever encoding it is, and what was odd about it."""
    if body.startswith((b"%PDF", b"\x89PNG", b"PK\x03\x04", b"\xff\xd8\xff", b"\x1f\x8b", b"MZ")):
        raise ValueError(
            f"{quoted(name, 60)} is no text; a notebook (.ipynb) or Python (.py) is expected"
        )
    text = decoded(body)
    problems = []
    if "\0" in text:
        problems.append(f"{quoted(name, 60)} holds null bytes; they were left out")
    return _lines_ended(text.lstrip("\ufeff")), problems


def decoded(body: bytes) -> str:
    """The text of a file, in whatever encoding it is."""
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


class _TooMany(ValueError):
    pass


def loaded(text: str) -> Any:
    """The JSON in a text. ValueError where it is none, or has lists and dicts by the million."""
    if text.count("[") + text.count("{") > _MOST_LISTS:
        raise _TooMany(f"has more than {_MOST_LISTS:,} lists; clear its outputs, save it again")
    return json.loads(text, strict=False)


def _json(name: str, text: str) -> dict[str, Any] | None:
    try:
        found = loaded(text)
    except (ValueError, RecursionError) as error:
        if name.lower().endswith(".py"):
            return None
        if isinstance(error, _TooMany):
            raise ValueError(f"{quoted(name, 60)} {error}") from None
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(
            f"{quoted(name, 60)} is broken: its JSON cannot be read{where}; "
            "open it in Jupyter, save it again"
        ) from None
    return found if isinstance(found, dict) else None


def _from_export(name: str, found: dict[str, Any], problems: list[str]) -> Answers:
    if found.get("version", 1) != 1:
        version = quoted(str(found["version"]), 20)
        raise ValueError(f"{quoted(name, 60)} is an export of version {version}; expected 1")
    answers = found.get("answers")
    if not isinstance(answers, dict):
        raise ValueError(f"{quoted(name, 60)} is an export of the page without answers")
    sources = {}
    for key, answer in list(answers.items())[:_MOST_CELLS]:
        source = answer.get("source") if isinstance(answer, dict) else None
        if isinstance(source, str) and source.strip():
            sources[str(key)] = _lines_ended(source)
    if len(answers) > _MOST_CELLS:
        left_out = f"the answers after the first {_MOST_CELLS:,} were left out"
        problems = [*problems, f"{quoted(name, 60)} has {len(answers):,} answers; {left_out}"]
    read, lost = _read(sources, lambda key: f"the answer {quoted(key, 60)}")
    short = tuple((key.rpartition("/")[2], reason) for key, reason in lost.items())
    return Answers(name, (*problems, *_told(lost)), "export", (), short, read)


def _lines_ended(source: str) -> str:
    """The text with one kind of line end, and without null characters."""
    return source.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def _from_notebook(name: str, found: dict[str, Any], problems: list[str]) -> Answers:
    cells = cells_of(found)
    if cells is None:
        raise ValueError(f"{quoted(name, 60)} is JSON, but not a notebook: it has no cells")
    if len(cells) > _MOST_CELLS:
        left_out = f"those after the first {_MOST_CELLS:,} were left out"
        problems = [*problems, f"{quoted(name, 60)} has {len(cells):,} cells; {left_out}"]
    sources = {}
    for i, cell in enumerate(cells[:_MOST_CELLS], 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))
            if isinstance(source, list):
                source = "".join(map(str, source))
            if isinstance(source, str):
                sources[f"cell {i}"] = _lines_ended(source)
    return _from_cells(name, "notebook", sources, problems)


def cells_of(notebook: dict[str, Any]) -> list[Any] | None:
    """The cells of a notebook's JSON, or None where it has none; nbformat 3 has sheets."""
    if isinstance(notebook.get("cells"), list):
        return notebook["cells"]
    sheets = notebook.get("worksheets")
    sheets = [s for s in sheets if isinstance(s, dict)] if isinstance(sheets, list) else []
    lists = [s["cells"] for s in sheets if isinstance(s.get("cells"), list)]
    return [cell for each in lists for cell in each] if lists else None


def _from_python(name: str, text: str, problems: list[str]) -> Answers:
    head, *parts = _PERCENT.split(text, _MOST_CELLS)
    sources = {"the file": head} if not parts else {"the part above the first cell": head}
    for i, (title, source) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        if "[markdown]" not in title and "[raw]" not in title:
            sources[f"cell {i}"] = source
    return _from_cells(name, "file", sources, problems)


def _from_cells(name: str, kind: str, sources: dict[str, str], problems: list[str]) -> Answers:
    read, lost = _read(sources, str)
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
    sources: dict[str, str], called: Callable[[str], str]
) -> tuple[dict[str, tuple[Statement, ...]], dict[str, str]]:
    """The statements of each cell of one file, and why the others were left out.

    Where there is too much code, the longest cells go, for answers are short. called: what a cell
    is called in a sentence.
    """
    left, fitting = _MOST_CODE, set()
    for where in sorted(sources, key=lambda where: len(sources[where])):
        left -= len(sources[where])
        if left < 0:
            break
        fitting.add(where)
    reader, read, lost = StatementReader(), {}, {}
    for where, source in sources.items():
        try:
            if where not in fitting:
                raise ValueError(
                    f"at most {_MOST_CODE:,} characters of code are read of a file, and with this "
                    "it has more; keep data and pictures in files of their own"
                )
            read[where] = tuple(reader.statements(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            lost[where] = f"{called(where)} was left out: {_reason(error)}"
    return read, lost


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        at = f", line {error.lineno}" if error.lineno else ""
        return f"Python cannot read it ({error.msg[:120]}{at})"
    return str(error) if isinstance(error, ValueError) else "it is nested too deep"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
