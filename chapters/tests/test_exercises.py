"""Every exercise: the solution passes, the starter is not written yet, wrong answers fail.

A folder of your own:  EXERCISES=/path/to/folder pytest chapters/tests/test_exercises.py
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import floor, log10
from pathlib import Path

import numpy as np
import pytest
from book.tools.notebooks import ROOT, chapter_paths, published, read
from unrolled_book import exercises
from unrolled_book.check import examine
from unrolled_book.exercises.engine.marking import mark, outcomes_of, planned_outcomes
from unrolled_book.exercises.engine.wire import encode

FOLDER = Path(os.environ.get("EXERCISES", exercises.HOME))
SHOWN, LEFT_OUT = exercises.chapters(FOLDER), exercises.chapters(FOLDER, "left_out")
NAMES = [f"{slug}/{name}" for slug in SHOWN for name in SHOWN[slug] + LEFT_OUT[slug]]
SEEDS = (0, 1, 2)
EXACT = 1e-12  # what is smaller, beside numbers of about 1, is rounding


@pytest.fixture(params=NAMES, scope="module")  # so that all tests of one stand side by side
def exercise(request):
    return exercises.load(request.param, FOLDER)


def drawn(exercise, seed):
    """An exercise's calls at this seed, and what its solution does on them."""
    return _drawn(f"{exercise.chapter}/{exercise.name}", seed)


@functools.lru_cache(8)
def _drawn(name, seed):
    exercise = exercises.load(name, FOLDER)
    calls = exercise.calls(seed)
    return calls, outcomes_of(exercise, exercise.solution, calls)


@pytest.mark.skipif(FOLDER != exercises.HOME, reason="a rule of the book's own exercises")
def test_every_chapter_has_four_to_six_exercises():
    slugs = [f"c{path.stem}" for path in published()]
    counts = {slug: len(SHOWN.get(slug, ())) + len(LEFT_OUT.get(slug, ())) for slug in slugs}
    assert all(4 <= count <= 6 for count in counts.values()), counts


def test_every_folder_belongs_to_a_chapter():
    assert set(SHOWN) <= {f"c{path.stem}" for path in chapter_paths()}


@pytest.mark.parametrize("slug", SHOWN)
def test_every_file_stands_in_its_folders_order_or_is_left_out(slug):
    files = sorted(path.stem for path in (FOLDER / slug).glob("[a-z]*.py"))
    assert files == sorted(SHOWN[slug] + LEFT_OUT[slug]), "each file once in `order` or `left_out`"


def test_names_are_unique_over_all_chapters():
    bare = [name.partition("/")[2] for name in NAMES]
    assert len(set(bare)) == len(bare), "check(name) must mean one exercise"


@pytest.mark.parametrize("seed", SEEDS)
def test_solution_passes(exercise, seed):
    report = examine(exercise, exercise.solution, seed)
    assert report.state == "passed", report.text


def test_there_is_a_second_way_to_the_answer(exercise):
    assert exercise.oracle, (
        f"{exercise.name} lacks a cell `# %% oracle` with `def oracle(*args)`, the answer found in "
        "a way that owes nothing to the solution; see unrolled_book/exercises/engine/form.py"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_agrees_with_a_second_way(exercise, seed):
    calls, outcomes = drawn(exercise, seed)
    report = held_against_the_oracle(exercise, calls, outcomes)
    assert report.state == "passed", report.text


def test_no_wrong_answer_agrees_with_the_second_way(exercise):
    """So the oracle's tolerance is small enough to tell right from wrong."""
    calls, _ = drawn(exercise, 0)
    for mistake, outcomes in planned_outcomes(exercise, calls).items():
        report = held_against_the_oracle(exercise, calls, outcomes)
        assert report.state == "failed", f"the oracle accepts: {mistake}"


def held_against_the_oracle(exercise, calls, outcomes):
    """The report on outcomes where the oracle's answers stand in the place of the solution's.

    With a judge the oracle's answer is one of many, so it is judged like any other.
    """
    if not exercise.oracle:
        pytest.skip("there is no oracle, which another test demands")
    oracle = alone(f"{exercise.chapter}/{exercise.name}")
    if exercise.oracle_tolerance > EXACT:
        oracle = rounding_otherwise(oracle)
    solution = oracle
    if exercise.is_value:  # somebody typed a 0 where the oracle's terms cancel
        solution = each_float(lambda x: np.where(np.abs(x) < EXACT, 0.0, x), oracle())
    reference = replace(exercise, solution=solution, use=None, wrong={})
    calls = [replace(call, tolerance=exercise.oracle_tolerance) for call in calls]
    expected = outcomes_of(reference, solution, calls)
    if exercise.judge:
        report = mark(reference, calls, expected, expected=expected)
        assert report.state == "passed", f"the judge refuses the oracle's answer: {report.text}"
    return mark(reference, calls, outcomes, expected=expected)


def rounding_otherwise(function):
    """The function on a processor that rounds its results otherwise: where terms cancel, 0 here is
    1e-17 there, so whatever agrees with it agrees on both."""
    rng = np.random.default_rng(0)

    def moved(numbers):
        finite = np.where(np.isfinite(numbers), numbers, 0)
        sizes = np.where(numbers == 0, 0.1 * np.abs(finite).max(initial=0), finite)
        return numbers + (1e-15 * sizes * rng.normal(size=numbers.shape)).astype(numbers.dtype)

    return lambda *args: each_float(moved, function(*args))


def each_float(change, value):
    """An answer whose arrays, lists and numbers of floats are changed."""
    if isinstance(value, dict):
        return {key: each_float(change, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(part, float) for part in value):
            return change(np.array(value)).tolist()
        return [each_float(change, part) for part in value]
    if isinstance(value, float):
        return change(np.array(value)).item()
    is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return change(value) if is_array else value


@functools.lru_cache(8)
def alone(name):
    """The oracle where only the file's imports are defined: it cannot reach the solution.

    It remembers its answers, since it is asked again for each wrong answer.
    """
    exercise = exercises.load(name, FOLDER)
    source = inspect.getsource(exercise.oracle)
    assert "teaching.exercises" not in source, "the oracle owes nothing to the exercises"
    namespace, known = {}, {}
    head = re.split("(?m)^# %%", exercise.source)[0]
    exec(head + source, namespace)

    def oracle(*args):
        asked = json.dumps(encode(args))
        if asked not in known:
            try:
                known[asked] = namespace["oracle"](*args)
            except NameError as error:
                pytest.fail(f"the oracle sees its file's imports and nothing else: {error}")
        return known[asked]

    return oracle


def test_solution_as_shown_defines_the_answer(exercise):
    """The folded solution must run for a reader who has only the chapter's imports."""
    shown = imported_by_the_chapter(exercise.chapter) or dict(exercise.names)
    shown.pop(exercise.name, None)
    exec(exercise.solution_source, shown)
    report = examine(exercise, shown[exercise.name], 0)
    assert report.state == "passed", f"write it with the chapter's imports:\n{report.text}"


@functools.cache
def imports_of_the_chapter(slug):
    """The import statements of a chapter's first code cell, after the lines for Colab."""
    notebook = read(*chapter_paths([slug.removeprefix("c")]))
    first = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return "\n".join(re.findall(r"(?m)^(?:import|from) (?:[^(\n]*$|[^)]*\)$)", first))


def imported_by_the_chapter(slug):
    """What these imports define; nothing for exercises that belong to no chapter of the book."""
    names = {}
    if FOLDER == exercises.HOME:
        exec(imports_of_the_chapter(slug), names)
    return names


def test_starter_runs_and_is_not_written_yet(exercise):
    namespace = dict(exercise.names)
    del namespace[exercise.name]
    exec(exercise.starter, namespace)
    report = examine(exercise, namespace[exercise.name], 0)
    assert (report.state, report.lines) == ("unwritten", ("not written yet",)), report.text


def test_there_are_five_to_twenty_wrong_answers(exercise):
    assert 5 <= len(exercise.wrong) <= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_each_wrong_answer_fails_and_is_told_its_own_mistake(exercise, seed):
    calls, right = drawn(exercise, seed)
    planned = planned_outcomes(exercise, calls)
    for mistake, outcomes in planned.items():
        report = mark(exercise, calls, outcomes, planned, expected=right)
        assert report.state == "failed", f"passes the tests: {mistake}"
        assert f"Likely cause: {mistake}." in report.lines, f"{mistake}\n{report.text}"


def as_text(number):
    return str(number) if isinstance(number, (int, Fraction)) else f"{number:.12g}"


def rounded_to_three_digits(number):
    if float(number).is_integer():
        return number
    return round(float(number), 2 - floor(log10(abs(number))))


def in_form(form, value):
    """A wrong answer with each of its numbers written in this form."""
    if isinstance(value, dict):
        return {key: in_form(form, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_form(form, part) for part in value]
    if isinstance(value, str) and not re.fullmatch(r"-?\d+(\.\d+|/\d+)?", value):
        return value  # a word
    number = Fraction(value) if isinstance(value, str) else value
    return form(number)


FORMS = (as_text, float, np.float64, Fraction, rounded_to_three_digits)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_wrong_value_is_told_its_mistake_however_its_numbers_are_written(form):
    for name in NAMES:
        exercise = exercises.load(name, FOLDER)
        for mistake, answer in exercise.wrong.items() if exercise.is_value else ():
            report = examine(exercise, in_form(form, answer), 0)
            assert report.state == "failed", f"{name} accepts: {mistake}"
            assert f"Likely cause: {mistake}." in report.lines, f"{name}: {mistake}\n{report.text}"


def test_mistakes_read_as_clauses_that_say_something(exercise):
    for mistake in exercise.wrong:
        assert len(mistake.split()) >= 4, f"too short to help: {mistake!r}"
        assert not re.search(r"[.!?]$", mistake), f"the full stop is added: {mistake!r}"


def test_arguments_can_cross_as_json(exercise):
    for call in drawn(exercise, 0)[0]:
        text = json.dumps(encode(call.args), allow_nan=False)
        assert '"unknown"' not in text, f"an argument of {exercise.name} cannot cross: {call.args}"


def test_fresh_inputs_differ_between_seeds(exercise):
    if exercise.is_value:
        pytest.skip("a value has no inputs")
    inputs = [
        json.dumps([encode(call.args) for call in drawn(exercise, seed)[0]]) for seed in SEEDS
    ]
    assert len(set(inputs)) == len(SEEDS), "no test draws its arguments from rng"


def test_what_was_right_at_one_seed_does_not_pass_at_another(exercise):
    """Else an answer that counts its calls and returns numbers learnt by heart has full marks."""
    if exercise.is_value:
        pytest.skip("a value has no calls to count")
    calls, right = (
        dict(enumerate(each)) for each in zip(*(drawn(exercise, s) for s in SEEDS), strict=True)
    )
    hidden = {
        json.dumps(
            [o for call, o in zip(calls[seed], right[seed], strict=True) if not call.visible]
        )
        for seed in SEEDS
    }
    assert len(hidden) > 1, "the hidden tests expect the same at every seed"
    for learnt, asked in permutations(SEEDS, 2):
        by_heart = [replayed | {"mutated": []} for replayed in right[learnt]]
        report = mark(
            exercise, calls[asked], by_heart, {"by heart": by_heart}, expected=right[asked]
        )
        assert report.state == "failed", f"the outcomes of seed {learnt} pass at seed {asked}"


def test_reference_answers_or_refuses_on_purpose(exercise):
    """An error of the reference is meant only if it is a ValueError or a TypeError."""
    outcomes = drawn(exercise, 0)[1]
    errors = [o["error"] for o in outcomes if "error" in o]
    assert len(errors) < len(outcomes), errors
    assert {error["type"] for error in errors} <= {"ValueError", "TypeError"}, errors


def test_checking_is_fast(exercise):
    start = time.process_time()  # not what others do on the machine
    examine(exercise, exercise.solution, 0)
    assert time.process_time() - start < 2.0


def test_statement_and_explanation_are_plain_markdown(exercise):
    for text in (exercise.statement, exercise.explanation):
        assert not re.search(r"\{[a-z:-]+\}`|^:::|^```\{", text, re.MULTILINE)
        assert not re.search(r"^#{1,3} ", text, re.MULTILINE), "headings belong to the chapter"
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text), "a backslash was eaten: write r'''…'''"


def test_starters_keep_the_chapters_style(tmp_path):
    """They become cells, and ruff reads the cells."""
    for name in NAMES:
        path = tmp_path / f"{name.replace('/', '-')}.py"
        path.write_text(exercises.load(name, FOLDER).starter + "\n", encoding="utf-8")
    style = ["--config", str(ROOT / "chapters" / "ruff.toml"), str(tmp_path)]
    for task in (["format", "--check"], ["check", "--select", "E501"]):
        command = [sys.executable, "-m", "ruff", *task, *style]
        done = subprocess.run(command, capture_output=True, encoding="utf8")
        assert done.returncode == 0, done.stdout + done.stderr
