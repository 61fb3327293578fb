"""In the page: runs what a reader wrote and says of it what `check` says in the notebook."""

from __future__ import annotations

import io
import json
import linecache
import secrets
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from unrolled.teaching import exercises
from unrolled.teaching.check import examine as _examine
from unrolled.teaching.exercises.engine import Exercise
from unrolled.teaching.exercises.engine.marking import Report

LONGEST = 20_000  # characters of what the reader's code prints
FILE = "<your answer>"


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


def examine(name: str, source: str, seed: int | None) -> str:
    """The report on the reader's source, as JSON; see live.mjs."""
    exercise = exercises.load(name)
    chosen = secrets.randbelow(10_000) if seed is None else int(seed)
    output = _Output()
    with redirect_stdout(output), redirect_stderr(output):
        report = _report(exercise, source, chosen)
    said = {"state": report.state, "text": report.text, "seed": chosen, "output": output.text()}
    return json.dumps(said | {"n_passed": report.n_passed, "n_tests": report.n_tests})


def _report(exercise: Exercise, source: str, seed: int) -> Report:
    names: dict[str, Any] = {"__name__": "__main__"}
    lines = source.splitlines(keepends=True)
    linecache.cache[FILE] = (len(source), None, lines, FILE)  # for the line that an error names
    try:
        exec(exercise.imports, names)
        exec(compile(source, FILE, "exec"), names)
        if exercise.name not in names:
            what = f"nothing is named {exercise.name}; the answer needs that name"
            return Report(exercise.name, "failed", (what,))
        return _examine(exercise, names[exercise.name], seed)
    except MemoryError:
        return Report(exercise.name, "failed", ("needs more memory than there is in the page",))
    except BaseException as error:  # also exit() and KeyboardInterrupt
        return Report(exercise.name, "failed", (f"raised {_said(error)}",))


def _said(error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == FILE:
        text = (error.text or "").strip()
        return f"{type(error).__name__}: {error.msg} (line {error.lineno}: `{text}`)"
    own = [f for f in traceback.extract_tb(sys.exc_info()[2]) if f.filename == FILE]
    return f"{said} (line {own[-1].lineno}: `{own[-1].line}`)" if own else said
