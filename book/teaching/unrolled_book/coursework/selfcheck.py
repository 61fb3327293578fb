"""The cell of a notebook that makes `check`: the engine's text, and what it may know as JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from unrolled_book.exercises.engine import Call, Exercise, travel
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import outcomes_of
from unrolled_book.exercises.engine.wire import encode
from unrolled_book.exercises.examples import written_call

TITLE = "#@title The self-check: run me {display-mode: 'form'}"
_LONGEST_SHOWN = 1200  # characters of a call that is printed where it fails
_FORM = """\
{title}
# What `check` needs: the book's engine, and the cases that it may know. There is nothing to edit.
import json
import sys
import types

{texts}

{loader}

install("self_check", _TEXTS)
check = sys.modules["self_check.self_check"].Check(json.loads(_KNOWN){complete})
"""


def cell(known: dict[str, dict[str, Any]], complete: bool = False) -> str:
    """The source of the cell; known: by answer's name, from `known`."""
    sources = travel.texts(travel.CHECKING).items()
    texts = "\n".join(f"    {name!r}: {_raw(text)}," for name, text in sources)
    facts = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    return _FORM.format(
        title=TITLE,
        texts=f"_KNOWN = {_raw(facts)}\n\n_TEXTS = {{\n{texts}\n}}\n",
        loader=travel.LOADER,
        complete=", complete=True" if complete else "",
    )


def known(exercise: Exercise, calls: list[Call]) -> dict[str, Any]:
    """What `Check` is told of an exercise: these calls with their results, or a value's form."""
    if exercise.is_value:
        told = {"is_value": True, "parts": _forms(exercise.solution)}
        right = {"solution": encode(exercise.solution), "tolerance": exercise.tolerance}
        return told | right if calls else told
    told = {"is_value": False, "outputs": list(exercise.outputs), "use": exercise.use_source}
    if exercise.judge:  # its cell stands among the tests
        return told | {"cases": []}
    expected = outcomes_of(exercise, exercise.solution, calls)
    pairs = zip(calls, expected, strict=True)
    cases = [_case(exercise, call, outcome) for call, outcome in pairs]
    return told | {"cases": cases}


def _case(exercise: Exercise, call: Call, outcome: dict[str, Any]) -> dict[str, Any]:
    return {
        "args": encode(call.args),
        "expected": outcome,
        "hint": call.hint,
        "tolerance": call.tolerance,
        "shown": _shown(exercise, call),
    }


def _shown(exercise: Exercise, call: Call) -> str:
    if callable(exercise.show):
        return exercise.show(*call.args)
    if exercise.use and not exercise.show:
        return ""
    text = written_call(exercise.name, call.args)
    return text if len(text) <= _LONGEST_SHOWN else ""


def _forms(solution: Any) -> dict[str, str] | str:
    if isinstance(solution, dict):
        return {str(key): _form(value) for key, value in solution.items()}
    return _form(solution)


def _form(value: Any) -> str:
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, (int, float, Fraction)):
        return "a number"
    if isinstance(value, str):
        unreadable = difference(value, 0.5, by_hand=True) or ""
        return "a text" if unreadable.endswith("a number") else "a number"
    return "a list" if isinstance(value, (list, tuple)) or hasattr(value, "shape") else "something"


def _raw(text: str) -> str:
    """The text as a raw literal, which a reader can read, or as any literal where that fails."""
    fits = "'''" not in text and not text.endswith(("\\", "'"))
    return f"r'''{text}'''" if fits else repr(text)
