"""In the page: runs what a reader wrote and says of it what `check` says in the notebook."""

from __future__ import annotations

import ast
import functools
import io
import json
import linecache
import re
import secrets
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from unrolled_book import exercises
from unrolled_book.check import examine as _examine
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.marking import Report

LONGEST = 20_000  # characters of what the reader's code prints
FILE = "<your answer>"
LISTING, CHAPTER = "<listing>", "<chapter>"
IN_COLAB = ("matplotlib", "pandas", "regex", "scipy", "sklearn", "sympy", "torch")
_JUDGES = {
    name: module
    for name, module in sys.modules.items()
    if name in ("builtins", "json", "math", "numpy", "re", "unrolled_book.check")
    or name.startswith("unrolled_book.exercises.engine")
}
_dumps = json.dumps
_IMPORTS = json.loads(Path(__file__).with_name("live_imports.json").read_text(encoding="utf-8"))


class _Output(io.TextIOBase):
    """Keeps the first characters that are printed and counts nothing else."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = LONGEST

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.left > 0:
            self.parts.append(text[: self.left])
            self.left -= len(text)
        return len(text)

    def text(self) -> str:
        cut = f"\n… (cut off after {LONGEST:,} characters)" if self.left < 0 else ""
        return "".join(self.parts) + cut


def _accept_int64() -> None:
    """Positions and repetitions of 64 bits are as good here as in the notebook.

    numpy counts positions in 32 bits here, and these functions refuse longer ones, which is what
    the tests' arrays hold. Numbers beyond 32 bits are refused as ever.
    """
    for name, at in (("bincount", 0), ("choose", 0), ("repeat", 1), ("take", 1)):
        setattr(np, name, _narrowed(getattr(np, name), at))


def _narrowed(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    key = ("indices", "repeats")  # that argument by name

    def narrow(value: Any) -> Any:
        array = np.asarray(value)
        fits = array.dtype.kind in "iu" and array.dtype != np.intp and array.size
        if not fits or abs(int(array.max())) >> 31 or abs(int(array.min())) >> 31:
            return value
        return array.astype(np.intp)

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        args = [narrow(value) if i == at else value for i, value in enumerate(args)]
        return function(*args, **{k: narrow(v) if k in key else v for k, v in named.items()})

    return called


def _close() -> None:
    """Takes away the two modules that lead from Python into the page; see also live.mjs."""
    for finder in sys.meta_path:
        if hasattr(finder, "jsproxies"):
            finder.jsproxies.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("js", "pyodide_js")]:
        del sys.modules[name]


def _state() -> dict[str, dict[str, Any]]:
    """What judges answers, name by name: an answer can change it, and would then judge the next."""
    return {name: dict(vars(module)) for name, module in sorted(_JUDGES.items())}


def examine(name: str, source: str, seed: int | None) -> str:
    """The report on the reader's source, as JSON; see live.mjs."""
    exercise = exercises.load(name)
    chosen = secrets.randbelow(10_000) if seed is None else int(seed)
    output = _Output()
    before = _state()
    with redirect_stdout(output), redirect_stderr(output):
        report = _report(exercise, source, chosen)
    said = {"state": report.state, "text": report.text, "seed": chosen, "output": output.text()}
    said |= {"n_passed": report.n_passed, "n_tests": report.n_tests, "renew": _changed(before)}
    return _dumps(said)


def listing(before: str, source: str) -> str:
    """What a listing prints, and its last expression's value, as JSON; see live.mjs.

    before: what the chapter defined, as a program. A fresh start each time: what the reader has
    changed in a value is forgotten by the next run.
    """
    output, judges = _Output(), _state()
    with redirect_stdout(output), redirect_stderr(output), np.printoptions():
        state, text = _tried(before, source, output)
    said = {"state": state, "text": text, "output": output.text(), "renew": _changed(judges)}
    return _dumps(said)


def _tried(before: str, source: str, output: _Output) -> tuple[str, str]:
    names: dict[str, Any] = {"__name__": "__main__"}
    for file, text in ((CHAPTER, before), (LISTING, source)):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(before, CHAPTER, "exec"), names)
        tree, value = ast.parse(source, LISTING), None
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            exec(compile(ast.Module(tree.body[:-1], []), LISTING, "exec"), names)
            value = eval(compile(ast.Expression(last.value), LISTING, "eval"), names)
        else:
            exec(compile(tree, LISTING, "exec"), names)
        return "passed", "" if value is None else repr(value)
    except MemoryError:
        return "failed", "MemoryError: it needs more memory than the page gives it (1 GB)"
    except BaseException as error:  # also exit() and KeyboardInterrupt
        return "failed", _traced(error)


def _traced(error: BaseException) -> str:
    """A traceback of the reader's own lines and the chapter's, without the library's."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename in (LISTING, CHAPTER):
            at = f"line {frame.lineno}"
            if frame.filename == CHAPTER:
                at = f"in {frame.name}, from earlier in the chapter"
            lines.append(f"{at}: {frame.line}")
    if isinstance(error, SyntaxError) and error.filename == LISTING:
        lines.append(f"line {error.lineno}: {(error.text or '').strip()}")
    if len(lines) > 6:
        lines[3:-3] = ["…"]
    lacks = re.match(r"No module named '(\w+)", str(error))
    said = traceback.format_exception_only(error)[-1].strip()
    if lacks and lacks[1] in IN_COLAB:
        said += f"\nThe page does not have {lacks[1]}; the chapter in Colab does."
    return "\n".join([*lines, said])


def _changed(before: dict[str, dict[str, Any]]) -> bool:
    """Whether a name is gone or has another value. New names come with every import."""
    return any(
        vars(_JUDGES[name]).get(key, _state) is not value
        for name, values in before.items()
        for key, value in values.items()
        if not key.startswith("_")
    )


def _report(exercise: Exercise, source: str, seed: int) -> Report:
    chapter = _IMPORTS[exercise.chapter]
    names: dict[str, Any] = {"__name__": "__main__"}
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    try:
        exec(exercise.imports, names)
        exec(chapter["source"], names)
        exec(compile(source, FILE, "exec"), names)
        if exercise.name not in names:
            what = f"nothing is named {exercise.name}; the answer needs that name"
            return Report(exercise.name, "failed", what)
        report = _examine(exercise, names[exercise.name], seed)
    except MemoryError:
        report = _failed(exercise, "needs more memory than the page gives it (1 GB)")
    except BaseException as error:  # also exit() and KeyboardInterrupt
        report = _failed(exercise, f"raised {_said(error)}")
    return replace(report, details=(*report.details, *_lacks(report, chapter["missing"])))


def _failed(exercise: Exercise, line: str) -> Report:
    return Report(exercise.name, "failed", line)


def _said(error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == FILE:
        text = (error.text or "").strip()
        return f"{type(error).__name__}: {error.msg} (line {error.lineno}: `{text}`)"
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
    return f"{said} (line {own[-1].lineno}: `{own[-1].line}`)" if own else said


def _lacks(report: Report, missing: dict[str, str]) -> list[str]:
    """A line where the answer asks for what the chapter imports and the page does not have."""
    found = re.search(r"NameError: name '(\w+)' is not|No module named '(\w+)", report.text)
    name = found and (found[1] or found[2])
    if name in missing and name != missing[name]:
        name = f"{name} (of {missing[name]})"
    elif name not in {*missing.values(), *IN_COLAB}:
        return []
    return [f"The page does not have {name}; the chapter in Colab does."]


_accept_int64()
_close()
