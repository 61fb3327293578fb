"""Reading what a process that nobody trusts has handed in.

It is one JSON document to a line: an outcome for each call, in order, and last {"seconds": 0.1};
or, where the program itself stops, {"stopped": sentence} and the seconds. Whatever else the bytes
hold is a plain problem, never an error of the reader's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unrolled_book.exercises.engine import wire
from unrolled_book.exercises.engine.running import Outcome, compared

# Numbers, lists and dicts: each costs a hundred times its letters, and the comparison its time. The
# largest right answer of the book has 200; an array is one, whatever its size.
_PARTS = 100_000
_UNREADABLE = "what the answer handed in cannot be read"


@dataclass(frozen=True)
class Result:
    """outcomes: as `running.run` gives them, or None where the process delivered none.

    problem: "" or a sentence for the student. Where some calls were answered before it, the
    outcomes of the others are errors of the type "Stopped" with this sentence. seconds: CPU time.
    """

    outcomes: list[Outcome] | None
    problem: str
    seconds: float


def read_result(
    data: bytes, before: list[list[str]], problem: str, seconds: float, longest: float
) -> Result:
    """The result that data holds; problem: what ended the process, "" if nothing did.

    before: for each call, the prints of its arguments. seconds: of CPU time, as it was seen from
    outside; what the process says counts up to longest.
    """
    n = len(before)
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
        return Result(None, _plain_text(str(parts[0]["stopped"]), 500), seconds)
    if len(parts) > n:
        return Result(None, _UNREADABLE, seconds)
    outcomes = [_checked(part, now) for part, now in zip(parts, before, strict=False)]
    if None in outcomes or (rest and not problem):
        return Result(None, _UNREADABLE, seconds)
    if len(outcomes) == n:
        return Result(outcomes, "", seconds)
    if not outcomes:
        return Result(None, problem or _UNREADABLE, seconds)
    error = {"type": "Stopped", "message": problem, "line": None, "text": ""}
    missing = [{"error": error, "mutated": []}] * (n - len(outcomes))
    return Result(outcomes + missing, problem, seconds)


def _checked(outcome: Any, before: list[str]) -> Outcome | None:
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
        error = outcome["error"]
        said = {part: _plain_text(error[part], 300) for part in ("type", "message", "text")}
        outcome = {"error": said | {"line": error["line"]}, "after": after}
    else:
        return None
    return compared(outcome, before)


def _is_error(error: Any) -> bool:
    if not isinstance(error, dict) or error.keys() != {"type", "message", "line", "text"}:
        return False
    texts = all(isinstance(error[part], str) for part in ("type", "message", "text"))
    return texts and (error["line"] is None or type(error["line"]) is int)


def _plain_text(text: str, longest: int) -> str:
    """The beginning of a text that somebody else wrote, in characters that can be shown."""
    return "".join(c if c.isprintable() else " " for c in text[:longest])
