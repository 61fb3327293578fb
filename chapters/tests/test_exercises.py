"""Every exercise: the solution passes, the starter is not written yet, wrong answers fail."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module

import pytest
from book.tools.notebooks import ROOT, chapter_paths
from unrolled.teaching import exercises
from unrolled.teaching.check import examine
from unrolled.teaching.exercises.engine.marking import mark, outcomes_of
from unrolled.teaching.exercises.engine.wire import encode

NAMES = [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]
SEEDS = (0, 1, 2)


@pytest.fixture(params=NAMES)
def exercise(request):
    return exercises.load(request.param)


def test_every_chapter_has_four_to_six_exercises():
    counts = {
        path.stem: len(exercises.chapters().get(f"c{path.stem}", ())) for path in chapter_paths()
    }
    assert all(4 <= count <= 6 for count in counts.values()), counts


def test_every_package_belongs_to_a_chapter():
    stems = {f"c{path.stem}" for path in chapter_paths()}
    assert set(exercises.chapters()) <= stems


@pytest.mark.parametrize("slug", exercises.chapters())
def test_every_file_stands_in_its_packages_order(slug):
    package = import_module(f"unrolled.teaching.exercises.{slug}")
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert files == set(package.order), "the package's `order` lists each file once"
    assert len(package.order) == len(files)


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
        "a way that owes nothing to the solution; see unrolled/teaching/exercises/engine/form.py"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_agrees_with_a_second_way(exercise, seed):
    report = held_against_the_oracle(exercise, exercise.solution, seed)
    assert report.state == "passed", report.text


def test_no_wrong_answer_agrees_with_the_second_way(exercise):
    """So the oracle's tolerance is small enough to tell right from wrong."""
    for mistake, answer in exercise.wrong.items():
        report = held_against_the_oracle(exercise, answer, 0)
        assert report.state == "failed", f"the oracle accepts: {mistake}"


def held_against_the_oracle(exercise, answer, seed):
    """The report on an answer where the oracle stands in the place of the solution.

    With a judge the oracle's answer is one of many, so it is judged like any other.
    """
    if not exercise.oracle:
        pytest.skip("there is no oracle, which another test demands")
    calls = [replace(c, tolerance=exercise.oracle_tolerance) for c in exercise.calls(seed)]
    oracle = alone(exercise)
    reference = replace(exercise, solution=oracle, is_value=False, use=None, wrong={})
    if exercise.judge:
        report = mark(reference, calls, outcomes_of(reference, oracle, calls))
        assert report.state == "passed", f"the judge refuses the oracle's answer: {report.text}"
    return mark(reference, calls, outcomes_of(exercise, answer, calls))


def alone(exercise):
    """The oracle where only the file's imports are defined: it cannot reach the solution."""
    source = inspect.getsource(exercise.oracle)
    assert "teaching.exercises" not in source, "the oracle owes nothing to the exercises"
    namespace = {}
    head = re.split("(?m)^# %%", inspect.getsource(import_module(_module(exercise))))[0]
    exec(head + source, namespace)

    def oracle(*args):
        try:
            return namespace["oracle"](*args)
        except NameError as error:
            pytest.fail(f"the oracle sees its file's imports and nothing else: {error}")

    return oracle


def test_solution_as_shown_defines_the_answer(exercise):
    """The folded solution must run for a reader who has only the chapter's imports."""
    shown = dict(vars(import_module(_module(exercise))))
    del shown[exercise.name]
    exec(exercise.solution_source, shown)
    assert examine(exercise, shown[exercise.name], 0).state == "passed"


def test_starter_runs_and_is_not_written_yet(exercise):
    namespace = dict(vars(import_module(_module(exercise))))
    del namespace[exercise.name]
    exec(exercise.starter, namespace)
    report = examine(exercise, namespace[exercise.name], 0)
    assert (report.state, report.lines) == ("unwritten", ("not written yet",)), report.text


def _module(exercise):
    return f"unrolled.teaching.exercises.{exercise.chapter}.{exercise.name}"


def test_there_are_five_to_twenty_wrong_answers(exercise):
    assert 5 <= len(exercise.wrong) <= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_each_wrong_answer_fails_and_is_told_its_own_mistake(exercise, seed):
    for mistake, answer in exercise.wrong.items():
        report = examine(exercise, answer, seed)
        assert report.state == "failed", f"passes the tests: {mistake}"
        assert f"Likely cause: {mistake}." in report.lines, f"{mistake}\n{report.text}"


def test_mistakes_read_as_clauses_that_say_something(exercise):
    for mistake in exercise.wrong:
        assert len(mistake.split()) >= 4, f"too short to help: {mistake!r}"
        assert not re.search(r"[.!?]$", mistake), f"the full stop is added: {mistake!r}"


def test_arguments_can_cross_as_json(exercise):
    for call in exercise.calls(0):
        text = json.dumps(encode(call.args), allow_nan=False)
        assert '"unknown"' not in text, f"an argument of {exercise.name} cannot cross: {call.args}"


def test_fresh_inputs_differ_between_seeds(exercise):
    if exercise.is_value:
        pytest.skip("a value has no inputs")
    drawn = [json.dumps([encode(call.args) for call in exercise.calls(seed)]) for seed in SEEDS]
    assert len(set(drawn)) == len(SEEDS), "no test draws its arguments from rng"


def test_reference_answers_or_refuses_on_purpose(exercise):
    """An error of the reference is meant only if it is a ValueError or a TypeError."""
    outcomes = outcomes_of(exercise, exercise.solution, exercise.calls(0))
    errors = [o["error"] for o in outcomes if "error" in o]
    assert len(errors) < len(outcomes), errors
    assert {error["type"] for error in errors} <= {"ValueError", "TypeError"}, errors


def test_checking_is_fast(exercise):
    start = time.perf_counter()
    examine(exercise, exercise.solution, 0)
    assert time.perf_counter() - start < 2.0


def test_statement_and_explanation_are_plain_markdown(exercise):
    for text in (exercise.statement, exercise.explanation):
        assert not re.search(r"\{[a-z:-]+\}`|^:::|^```\{", text, re.MULTILINE)
        assert not re.search(r"^#{1,3} ", text, re.MULTILINE), "headings belong to the chapter"
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text), "a backslash was eaten: write r'''…'''"


def test_starter_keeps_the_chapters_style(exercise):
    """It becomes a cell, and ruff reads the cells."""
    style = ["--config", str(ROOT / "chapters" / "ruff.toml"), "-"]
    for task in (["format", "--check"], ["check", "--select", "E501"]):
        command = [sys.executable, "-m", "ruff", *task, *style]
        done = subprocess.run(
            command, input=exercise.starter + "\n", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
