"""Numbers of one's own: tasks and seeds that differ from student to student.

`own` turns an exercise whose answer is a function into a task by hand: what does this one call
return? The call is drawn with the student's seed, the answer is a value, and it is marked as the
book's paper exercises are, likely causes included. `my_seed` stands in the notebooks, too, so that
whoever marks an experiment can run it again with the student's own seed.
"""

from __future__ import annotations

import inspect
import re
import unicodedata
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from unrolled_book.coursework.roster import read_roster
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.running import quiet
from unrolled_book.exercises.engine.wire import decode, encode
from unrolled_book.exercises.examples import written, written_call
from unrolled_book.exercises.rounding import rounding

ENDING = "_result"
_LONGEST_CALL = 400  # characters that one would copy by hand
_MOST_NUMBERS = 24  # in a result that one would work out by hand
_ID = re.compile(r"[^\W_][\w.@+-]{0,99}")
_COMPUTED_TWICE = 1e-12
_ATTEMPTS = 10  # seeds that are tried one after the other


def my_seed(student: str, course: str) -> int:
    """The student's seed for the experiments of a course; case and blanks do not matter."""
    import hashlib
    import unicodedata

    name = unicodedata.normalize("NFKC", student).strip().casefold()
    digest = hashlib.sha256(f"{course}\0{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def my_seed_source(course: str) -> str:
    """`my_seed` as it stands in a notebook of this course."""
    source = inspect.getsource(my_seed).replace("course: str", f"course: str = {course!r}")
    return source.rstrip()


def own(exercise: Exercise, seed: int) -> Exercise:
    """The exercise as a task by hand: the result of one call, drawn with the student's seed.

    Of the calls that are not visible, differ between seeds and are short enough to be worked out by
    hand, it is the one that tells the most mistakes apart. Its result is that of the arguments as
    they are printed. Raises ValueError where an exercise has no such call.
    """
    for attempt in range(_ATTEMPTS):
        if found := _tasks(exercise, seed + attempt):
            return max(found, key=lambda task: len(task.wrong))
    raise ValueError(
        f"{exercise.chapter}/{exercise.name} cannot be personal: it has no call that differs "
        "between students and is short enough to be worked out by hand"
    )


def _tasks(exercise: Exercise, seed: int) -> list[Exercise]:
    """A task for each call of this seed that is fit for it."""
    found = []
    for call, other in zip(exercise.calls(seed), exercise.calls(seed + _ATTEMPTS), strict=False):
        if call.visible or encode(call.args) == encode(other.args):
            continue
        shown = written_call(exercise.name, call.args)
        args = _as_printed(call.args) if len(shown) <= _LONGEST_CALL else None
        result = None if args is None else _result(exercise, exercise.solution, args)
        fits = result is not None and _n_numbers(result) <= _MOST_NUMBERS
        if fits and rounding(result, args) is None:
            found.append(_task(exercise, shown, args, result))
    return found


def _task(exercise: Exercise, shown: str, args: tuple, result: Any) -> Exercise:
    name = exercise.name + ENDING
    wrong = {
        mistake: slip
        for mistake, answer in exercise.wrong.items()
        if (slip := _result(exercise, answer, args)) is not None and _differ(slip, result)
    }
    asks = (
        "**Yours.** You need not write the function. Work out what it returns for these "
        f"arguments, which are yours alone, and write that as `{name}`:"
    )
    return replace(
        exercise,
        name=name,
        statement=f"{exercise.statement}\n\n{asks}\n\n```python\n{shown}\n```",
        kind="paper",
        starter=_starter(name, result),
        solution=result,
        solution_source=f"{name} = {written(result)}",
        wrong=wrong,
        is_value=True,
        tests=None,
        use=None,
        use_source="",
        show=False,
        judge=None,
        oracle=None,
        outputs=(),
    )


def _as_printed(args: tuple) -> tuple | None:
    """The arguments that somebody has who reads them; None where the text is no Python."""
    names = {"np": np, "Fraction": Fraction}
    try:
        values = [eval(written(arg), dict(names)) for arg in args]
    except (NameError, SyntaxError, TypeError, ValueError):
        return None
    return tuple(
        np.asarray(v, a.dtype) if isinstance(a, np.ndarray) else v
        for v, a in zip(values, args, strict=True)
    )


def _result(exercise: Exercise, answer: Any, args: tuple) -> Any:
    """What the answer returns, as it is written by hand; None for an error or another thing."""
    try:
        with quiet():
            value = decode(encode(answer(*decode(encode(args)))))
    except Exception:  # a wrong answer may raise anything
        return None
    if exercise.outputs and isinstance(value, tuple) and len(value) == len(exercise.outputs):
        value = dict(zip(exercise.outputs, value, strict=True))
    return _by_hand(value)


def _by_hand(value: Any) -> Any:
    """Arrays and tuples as lists; None if there is something in it that is no number or text."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        parts = {key: _by_hand(part) for key, part in value.items()}
        fits = all(isinstance(key, str) for key in parts) and None not in parts.values()
        return parts if fits and parts else None
    if isinstance(value, (list, tuple)):
        parts = [_by_hand(part) for part in value]
        return None if None in parts else parts
    good = isinstance(value, (bool, int, float, str, Fraction))
    return value if good and not (isinstance(value, float) and not np.isfinite(value)) else None


def _n_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_n_numbers, value.values()))
    return sum(map(_n_numbers, value)) if isinstance(value, list) else 1


def _differ(one: Any, other: Any) -> bool:
    return difference(one, other, _COMPUTED_TWICE) is not None


def _starter(name: str, result: Any) -> str:
    if not isinstance(result, dict):
        return f"{name} = ..."
    parts = ", ".join(f'"{key}": ...' for key in result)
    return f"{name} = {{{parts}}}"


def read_ids(path: str | Path) -> tuple[str, ...]:
    """The students' ids of a roster (see `roster.read_roster`), each fit to name a file.

    Raises ValueError for what is no roster, and for an id that is no file name.
    """
    rows = read_roster(path)
    students = tuple(unicodedata.normalize("NFC", row["student"].strip()) for row in rows)
    for student in students:
        if not _ID.fullmatch(student):
            expected = "letters, digits and . _ @ + -, for it names a file"
            raise ValueError(f"{path}: the id {student!r}; expected {expected}")
    return students
