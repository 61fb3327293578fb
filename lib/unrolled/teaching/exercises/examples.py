"""Calls and values as a reader would write them, and the visible tests as examples."""

from __future__ import annotations

import re
import textwrap

import numpy as np

from unrolled.teaching.exercises.engine import Exercise
from unrolled.teaching.exercises.engine.marking import outcomes_of
from unrolled.teaching.exercises.engine.wire import decode

WIDTH = 78  # columns of an example's code


def examples(exercise: Exercise) -> list[str]:
    """One fenced block with every visible test that is short enough to read, or nothing."""
    if exercise.is_value or exercise.judge or (exercise.use and exercise.show is not True):
        return []
    shown = []
    calls = exercise.calls(seed=0)
    for call, outcome in zip(calls, outcomes_of(exercise, exercise.solution, calls), strict=True):
        if call.visible and "value" in outcome:
            result = textwrap.wrap(written(decode(outcome["value"])), WIDTH - 4)
            shown.append(written_call(exercise.name, call.args) + "\n# " + "\n#   ".join(result))
    return ["For example:\n\n```python\n" + "\n\n".join(shown) + "\n```"] if shown else []


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
    text = re.sub(r"\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", text)
    if not re.search(r"\b(array|tensor)\(", text):
        return text
    text = re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ,", ",").replace(" ]", "]")
    return re.sub(r"(?<![\w.])(array|tensor)\(", _with_module, text)


def _with_module(match: re.Match[str]) -> str:
    return {"array": "np.array(", "tensor": "torch.tensor("}[match[1]]
