"""Calls and values as a reader would write them, and the visible tests as examples.

Examples are stored, so they must read the same whatever processor has computed them. A processor
adds in an order of its own, and the last digits of a float with it: a number is written with six of
its sixteen digits, and one that is nothing but last digits is refused.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np

from unrolled_book.exercises.engine import Call, Exercise
from unrolled_book.exercises.engine.marking import outcomes_of
from unrolled_book.exercises.engine.wire import decode
from unrolled_book.exercises.rounding import rounding

WIDTH = 78  # columns of an example's code


def examples(exercise: Exercise) -> list[str]:
    """One fenced block with every visible test that is short enough to read, or nothing.

    Raises ValueError, naming the exercise and the number, where a result is rounding.
    """
    if exercise.is_value or exercise.judge or (exercise.use and exercise.show is not True):
        return []
    shown = []
    calls = exercise.calls(seed=0)
    for call, outcome in zip(calls, outcomes_of(exercise, exercise.solution, calls), strict=True):
        if call.visible and "value" in outcome:
            value = decode(outcome["value"])
            _refuse_rounding(exercise, call, value)
            result = textwrap.wrap(written(value), WIDTH - 4)
            shown.append(written_call(exercise.name, call.args) + "\n# " + "\n#   ".join(result))
    return ["For example:\n\n```python\n" + "\n\n".join(shown) + "\n```"] if shown else []


def _refuse_rounding(exercise: Exercise, call: Call, value: Any) -> None:
    for each in (*call.args, value):
        if (found := rounding(each, call.args)) is not None:
            raise ValueError(
                f"exercise {exercise.chapter}/{exercise.name}: the example "
                f"{written_call(exercise.name, call.args)} shows {found:.6g}, which is rounding: "
                "it is left where larger numbers cancel, and another processor leaves something "
                "else; expected an input whose result is 0 exactly or well away from it"
            )


def written_call(name: str, args: tuple) -> str:
    """The call as Python; on several lines where one is too short."""
    shown = [written(arg) for arg in args]
    line = f"{name}({', '.join(shown)})"
    if len(line) <= WIDTH:
        return line
    layout = {"initial_indent": "    ", "subsequent_indent": "        ", "break_on_hyphens": False}
    parts = [textwrap.fill(text + ",", WIDTH, break_long_words=False, **layout) for text in shown]
    return "\n".join([f"{name}(", *parts, ")"])


def written(value: object) -> str:
    """A value as Python writes it, with np. before its arrays and numbers of six digits."""
    with np.printoptions(precision=4, suppress=True):
        text = repr(value)
    text = re.sub(r"\d+\.\d{7,}(e-?\d+)?|\d{9,}\.\d+", _six_digits, text)
    if not re.search(r"\b(array|tensor)\(", text):
        return text
    text = re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ,", ",").replace(" ]", "]")
    return re.sub(r"(?<![\w.])(array|tensor)\(", _with_module, text)


def _six_digits(match: re.Match[str]) -> str:
    """A float with a long tail; 2.0000000000000004 as 2.0, which another processor makes of it."""
    number = float(f"{float(match[0]):.12g}")
    text = repr(number)
    return text if len(text.partition(".")[2]) < 7 else f"{number:.6g}"


def _with_module(match: re.Match[str]) -> str:
    return {"array": "np.array(", "tensor": "torch.tensor("}[match[1]]
