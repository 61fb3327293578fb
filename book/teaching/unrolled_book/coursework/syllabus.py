"""A course as one TOML file: its weeks, their exercises and questions, deadlines and points.

    title = "Language models in four weeks"
    seed_env = "COURSE_SEED"      # the secret of the hidden tests: in this environment variable,
                                  # or seed_file = "secret.txt" beside this file, or seed = "…"
    folders = ["my_exercises"]    # your own, in the form of the book's; looked at first (optional)
    late = 0.5                    # the share of its points that a late answer keeps (optional: 1)

    [[weeks]]
    name = "week1"                # also the name of the notebook
    title = "Language as probability"
    due = 2026-10-09T23:59:00+02:00
    exercises = [
        "c01_chain_rule/shift",   # points as its file says
        {exercise = "c01_chain_rule/two_roads", points = 3, credit = "all"},
        {exercise = "c01_chain_rule/bits_per_byte", personal = true},
    ]

    [[weeks.questions]]           # answered in words, marked by a person
    name = "padding"
    title = "Why pad?"
    statement = "Explain …"
    points = 4
    rubric = ["2: names the shape", "2: says what the loss does there"]

`credit` is "all" (every test or nothing) or "tests" (the share of tests, or of a paper exercise's
parts, that is right); without it a paper or personal exercise has "tests" and any other "all".
`personal` gives each student arguments of their own and asks for the result (see `personal`).
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
import os
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise

CREDITS = ("all", "tests")
SEEDS = ("seed", "seed_file", "seed_env")
_SHORTEST_SEED = 12  # characters
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NEW_SEED = "python -c 'import secrets; print(secrets.token_hex(16))' makes one"


@dataclass(frozen=True)
class Item:
    """An exercise of a week: "c01_chain_rule/shift", its points, and how they are given."""

    exercise: str
    points: float
    credit: str  # "all" | "tests"
    personal: bool = False


@dataclass(frozen=True)
class Question:
    """A question that is answered in words and marked by a person beside the rubric."""

    name: str
    title: str
    statement: str
    points: float
    rubric: tuple[str, ...] = ()


@dataclass(frozen=True)
class Week:
    """What is handed out and handed in together; `due` knows its time zone."""

    name: str
    title: str
    due: datetime | None
    items: tuple[Item, ...]
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True)
class Syllabus:
    """A course. late: the share of its points that a late answer keeps, 0 to 1."""

    title: str
    seed: str = field(repr=False)  # secret
    weeks: tuple[Week, ...]
    folders: tuple[Path, ...]
    late: float
    path: Path

    @staticmethod
    def read(path: str | Path) -> Syllabus:
        """The course in this TOML file.

        ValueError names the file, the key, what stands there and what is expected; an exercise
        that does not exist is answered with the nearest names.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"there is no syllabus {str(path)!r}; expected a TOML file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: this is not TOML: {error}") from error
        return _read(path, _Table(path, "", data))

    def exercise(self, item: Item) -> Exercise:
        """The item's exercise, from the first of the course's own folders that has it, or the book.

        Raises ValueError, with the nearest names, for an unknown one.
        """
        return _find(item.exercise, self.folders)

    def seed_of(self, item: Item) -> int:
        """The seed of the item's hidden tests; no two exercises share one."""
        return self._derived("tests", item.exercise)

    def personal_seed(self, item: Item, student: str) -> int:
        """The seed of a student's own arguments. Case and blanks around the id do not matter."""
        return self._derived("personal", item.exercise, plain(student))

    @property
    def fingerprint(self) -> str:
        """What tells one secret from another and gives none away: few digits, slowly made."""
        return _fingerprint(self.seed)

    def _derived(self, *message: str) -> int:
        return number_from(self.seed, *message)


def plain(student: str) -> str:
    """A student's id as it is compared: without the blanks around it, in lower case."""
    return unicodedata.normalize("NFKC", student).strip().casefold()


@cache
def _fingerprint(seed: str) -> str:
    return hashlib.scrypt(seed.encode(), salt=b"fingerprint", n=2**14, r=8, p=1, dklen=2).hex()


def number_from(key: str, *message: str) -> int:
    """A whole number below 2⁴⁸ from a key and a message, by HMAC-SHA-256."""
    digest = hmac.new(key.encode(), "\0".join(message).encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big")


# ---- reading -------------------------------------------------------------------------------------


class _Table:
    """A table of the file: each value is asked for by its key, kind and default."""

    def __init__(self, path: Path, where: str, data: Any):
        self.path, self.where, self.data = path, where, data
        self.known: list[str] = []
        if not isinstance(data, dict):
            raise ValueError(f"{path}: {where} is {data!r}; expected a table of keys and values")

    def take(self, key: str, kind: type | tuple[type, ...], expected: str, *default: Any) -> Any:
        """The value of a key; what is expected is said where it is missing or of another kind."""
        self.known.append(key)
        if key not in self.data and default:
            return default[0]
        if key not in self.data:
            near = difflib.get_close_matches(key, self.data, n=1, cutoff=0.7)
            self.fail(key, f"is missing{f' (there is {near[0]!r})' if near else ''}", expected)
        value = self.data[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(key, f"is {_short(value)}", expected)
        return value

    def text(self, key: str, *default: str) -> str:
        value = self.take(key, str, "a text", *default)
        if not value.strip() and not default:
            self.fail(key, "is empty", "a text")
        return value.strip()

    def name(self, pattern: re.Pattern[str], expected: str) -> str:
        value = self.take("name", str, expected)
        if not pattern.fullmatch(value):
            self.fail("name", f"is {value!r}", expected)
        return value

    def points(self, *default: float) -> float:
        value = self.take("points", (int, float), "a number above 0", *default)
        if not 0 < value < 1e6:
            self.fail("points", f"is {value}", "a number above 0")
        return value

    def finish(self) -> None:
        """Raise for the first key that nobody asked for."""
        for key in (key for key in self.data if key not in self.known):
            near = difflib.get_close_matches(key, self.known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self.known)}"
            raise ValueError(f"{self.path}: {self._at(key)} is not a key here; {hint}")

    def fail(self, key: str, got: str, expected: str) -> None:
        raise ValueError(f"{self.path}: {self._at(key)} {got}; expected {expected}")

    def _at(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "…"


def _read(path: Path, top: _Table) -> Syllabus:
    title, seed, folders = top.text("title"), _seed(path, top), _folders(path, top)
    late = top.take("late", (int, float), "the share that a late answer keeps, 0 to 1", 1.0)
    if not 0 <= late <= 1:
        top.fail("late", f"is {late}", "the share that a late answer keeps, 0 to 1")
    tables = top.take("weeks", list, "[[weeks]], one for each week")
    if not tables:
        top.fail("weeks", "is empty", "[[weeks]], one for each week")
    weeks = tuple(
        _week(_Table(path, f"weeks[{i}]", table), folders) for i, table in enumerate(tables)
    )
    top.finish()
    _once(path, "the week", (week.name.casefold() for week in weeks))
    items = [item.exercise for week in weeks for item in week.items]
    _once(path, "the exercise", items)
    questions = [question.name for week in weeks for question in week.questions]
    _once(path, "the answer", [*(name.rpartition("/")[2] for name in items), *questions])
    return Syllabus(title, seed, weeks, folders, float(late), path)


def _seed(path: Path, top: _Table) -> str:
    given = [key for key in SEEDS if top.take(key, str, "a text", None) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise ValueError(
            f"{path}: the secret of the hidden tests is missing or stands twice: got {found}; "
            f"expected one of seed_env, seed_file, seed ({_NEW_SEED})"
        )
    key, value = given[0], top.data[given[0]]
    if key == "seed_env":
        seed = os.environ.get(value, "").strip()
        if not seed:
            top.fail(
                key, f"names the variable {value!r}, which is not set", f"a secret; {_NEW_SEED}"
            )
    elif key == "seed_file":
        file = path.parent / value
        if not file.is_file():
            top.fail(key, f"names {value!r}, which is not there", f"a secret in it; {_NEW_SEED}")
        seed = file.read_text(encoding="utf-8").strip()
    else:
        seed = value.strip()
    if len(seed) < _SHORTEST_SEED:
        top.fail(key, f"gives {len(seed)} characters", f"{_SHORTEST_SEED} or more; {_NEW_SEED}")
    return seed


def _folders(path: Path, top: _Table) -> tuple[Path, ...]:
    expected = 'folders of exercises, ["my_exercises"]'
    found = []
    for value in top.take("folders", list, expected, []):
        folder = path.parent / value if isinstance(value, str) else None
        if folder is None or not folder.is_dir():
            top.fail("folders", f"holds {value!r}, which is no folder", expected)
        try:
            exercises.chapters(folder)
        except ValueError as error:
            raise ValueError(f"{path}: folders: {error}") from error
        found.append(folder.resolve())
    return tuple(found)


def _week(table: _Table, folders: tuple[Path, ...]) -> Week:
    name = table.name(_FILE_NAME, "letters, digits, - and _ (it names the notebook)")
    title = table.text("title")
    expected = "a date with a time and its zone, 2026-10-09T23:59:00+02:00"
    due = table.take("due", datetime, expected, None)
    if due is not None and due.tzinfo is None:
        table.fail("due", f"is {due.isoformat()}, without a time zone", expected)
    listed = table.take("exercises", list, 'a list, ["c01_chain_rule/shift", …]', [])
    items = tuple(
        _item(table.path, f"{table.where}.exercises[{i}]", each, folders)
        for i, each in enumerate(listed)
    )
    asked = table.take("questions", list, "[[weeks.questions]], one for each", [])
    questions = tuple(
        _question(_Table(table.path, f"{table.where}.questions[{i}]", each))
        for i, each in enumerate(asked)
    )
    table.finish()
    if not items and not questions:
        table.fail("exercises", "is empty", "at least one exercise or question in a week")
    return Week(name, title, due, items, questions)


def _item(path: Path, where: str, given: Any, folders: tuple[Path, ...]) -> Item:
    table = _Table(path, where, {"exercise": given} if isinstance(given, str) else given)
    name = table.text("exercise")
    try:
        exercise = _find(name, folders)
    except ValueError as error:
        raise ValueError(f"{path}: {where}: {error}") from error
    points = table.points(exercise.points)
    personal = table.take("personal", bool, "true or false", False)
    usual = "tests" if personal or exercise.kind == "paper" else "all"
    credit = table.take("credit", str, f"one of {CREDITS}", usual)
    if credit not in CREDITS:
        table.fail("credit", f"is {credit!r}", f"one of {CREDITS}")
    if personal and (exercise.is_value or exercise.judge or exercise.use):
        expected = "an exercise whose answer is a function with one right result"
        table.fail("personal", f"is true for {name!r}", expected)
    table.finish()
    return Item(f"{exercise.chapter}/{exercise.name}", points, credit, personal)


def _question(table: _Table) -> Question:
    name = table.name(_NAME, "small letters, digits and _, as for a variable")
    title, statement = table.text("title"), table.text("statement")
    points = table.points()
    rubric = table.take("rubric", list, 'a list of texts, ["2: names the shape", …]', [])
    if not all(isinstance(line, str) and line.strip() for line in rubric):
        table.fail("rubric", f"is {_short(rubric)}", 'a list of texts, ["2: names the shape", …]')
    table.finish()
    return Question(name, title, statement, points, tuple(rubric))


def _find(name: str, folders: Iterable[Path]) -> Exercise:
    for folder in folders:
        if _stands_in(name, folder):
            return exercises.load(name, folder)
    return exercises.load(name)


def _stands_in(name: str, folder: Path) -> bool:
    listed = [exercises.chapters(folder, which).items() for which in ("order", "left_out")]
    places = [(slug, each) for both in listed for slug, names in both for each in names]
    return any(name in (each, f"{slug}/{each}") for slug, each in places)


def _once(path: Path, what: str, names: Iterable[str]) -> None:
    for name, n in Counter(names).items():
        if n > 1:
            raise ValueError(f"{path}: {what} {name!r} stands {n} times; expected once in a course")
