"""Reading what a process that nobody trusts has handed in.

It is one JSON document to a line: an outcome for each call, in order, and last {"seconds": 0.1};
or, where the program itself stops, {"stopped": what} and the seconds. Whatever else the bytes hold
is a plain problem, never an error of the reader's.

All sentences are ours. The process gives names, messages and line numbers; a message is quoted as
the answer's, a name is one that Python could have, and the line's text is looked up out here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from unrolled_book.exercises.engine import wire
from unrolled_book.exercises.engine.compare import quoted
from unrolled_book.exercises.engine.running import Outcome, compared

# Numbers, lists and dicts: each costs a hundred times its letters, and the comparison its time. The
# largest right answer of the book has 200; an array is one, whatever its size.
_PARTS = 100_000
_NAME = re.compile(r"[A-Za-z_]\w{,59}", re.ASCII)
_UNREADABLE = "what the answer handed in cannot be read"


@dataclass(frozen=True)
class Asked:
    """What was asked of the process. before: for each call, the prints of its arguments."""

    name: str
    program: str
    before: list[list[str]]


@dataclass(frozen=True)
class Result:
    """outcomes: as `running.run` gives them, or None where the process delivered none.

    problem: "" or a sentence for the student. Where some calls were answered before it, the
    outcomes of the others are errors with this sentence, marked "stopped". seconds: CPU time.
    """

    outcomes: list[Outcome] | None
    problem: str
    seconds: float


def read_result(data: bytes, asked: Asked, problem: str, seconds: float, longest: float) -> Result:
    """The result that data holds; problem: what ended the process, "" if nothing did.

    seconds: of CPU time, as it was seen from outside; what the process says counts up to longest.
    """
    n = len(asked.before)
    whole, _, rest = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if sum(data.count(letter) for letter in (b"[", b"{", b",")) > _PARTS:
        return Result(None, f"the answer handed in more than {_PARTS:,} numbers", seconds)
    if len(lines) > n + 1:
        return Result(None, problem or _UNREADABLE, seconds)
    try:
        parts = [wire.read(line) for line in lines]
    except ValueError:
        return Result(None, problem or _UNREADABLE, seconds)
    if parts and isinstance(parts[-1], dict) and parts[-1].keys() == {"seconds"}:
        said = parts.pop()["seconds"]
        seconds = max(seconds, min(said, longest)) if isinstance(said, float) else seconds
    elif not problem:
        problem = "the answer ended the process (exit)"
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"stopped"}:
        return Result(None, _stopped(parts[0]["stopped"], asked), seconds)
    if len(parts) > n:
        return Result(None, _UNREADABLE, seconds)
    outcomes = [
        _checked(part, before, asked) for part, before in zip(parts, asked.before, strict=False)
    ]
    if None in outcomes or (rest and not problem):
        return Result(None, _UNREADABLE, seconds)
    if len(outcomes) == n:
        return Result(outcomes, "", seconds)
    if not outcomes:
        return Result(None, problem or _UNREADABLE, seconds)
    error = {"type": "Stopped", "message": problem, "line": None, "text": ""}
    missing = [{"error": error, "mutated": [], "stopped": True}] * (n - len(outcomes))
    return Result(outcomes + missing, problem, seconds)


def _stopped(said: Any, asked: Asked) -> str:
    """Why there is no answer, in our words and the error's."""
    if said is None:
        return f"the program defines no `{asked.name}`"
    if isinstance(said, str):
        kind = quoted(said, 60)
        return f"`{asked.name}` is a thing of type {kind}, not a function or a class"
    if not _is_error(said):
        return _UNREADABLE
    error = _error(said, asked)
    where = f" (line {error['line']}: `{error['text']}`)" if error["text"] else ""
    return f"the program stops with {error['type']}: {quoted(error['message'])}{where}"


def _checked(outcome: Any, before: list[str], asked: Asked) -> Outcome | None:
    """The outcome in the form that `running.run` gives, or None."""
    if not isinstance(outcome, dict):
        return None
    after = outcome.get("after")
    if not isinstance(after, list):
        return None
    if outcome.keys() == {"value", "after"}:
        try:
            wire.decode(outcome["value"])
        except ValueError:
            outcome = outcome | {"value": {"unknown": "value that cannot be read"}}
    elif outcome.keys() == {"error", "after"} and _is_error(outcome["error"]):
        outcome = {"error": _error(outcome["error"], asked), "after": after}
    else:
        return None
    return compared(outcome, before)


def _is_error(error: Any) -> bool:
    if not isinstance(error, dict) or error.keys() != {"type", "message", "line", "text"}:
        return False
    texts = all(isinstance(error[part], str) for part in ("type", "message", "text"))
    return texts and (error["line"] is None or type(error["line"]) is int)


def _error(error: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """The error with what its line of the program says; a line that is not there is left out."""
    name = error["type"] if _NAME.fullmatch(error["type"]) else "an error of its own kind"
    lines, line = asked.program.split("\n"), error["line"]
    there = line is not None and 0 < line <= len(lines)
    text = _plain_text(lines[line - 1].strip(), 100).replace("`", "'") if there else ""
    message = _plain_text(error["message"], 300)
    return {"type": name, "message": message, "line": line if text else None, "text": text}


def _plain_text(text: str, longest: int) -> str:
    """The beginning of a text that somebody else wrote, in characters that can be shown."""
    return "".join(c if c.isprintable() else " " for c in text[:longest])
