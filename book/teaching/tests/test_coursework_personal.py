"""Numbers of one's own: tasks and seeds that differ from student to student."""

import numpy as np
import pytest
from unrolled_book import exercises
from unrolled_book.coursework import personal
from unrolled_book.exercises.engine.marking import mark, outcomes_of

SHIFT = exercises.load("c01_chain_rule/shift")
BITS = exercises.load("c01_chain_rule/bits_per_byte")


def marked(task, answer):
    calls = task.calls(0)
    return mark(task, calls, outcomes_of(task, answer, calls))


def test_a_task_of_ones_own_asks_for_a_value_and_knows_it():
    task = personal.own(SHIFT, 7)
    assert (task.name, task.is_value, task.kind) == ("shift_result", True, "paper")
    assert task.starter == 'shift_result = {"inputs": ..., "targets": ...}'
    assert marked(task, task.solution).state == "passed"
    assert marked(task, {"inputs": ..., "targets": ...}).state == "unwritten"


def test_the_value_is_that_of_the_arguments_as_they_are_printed():
    task = personal.own(BITS, 7)
    code = task.statement.partition("```python\n")[2].rstrip("`\n")
    names = {"np": np, "bits_per_byte": BITS.solution}
    assert eval(code, names) == pytest.approx(task.solution, rel=1e-12)


def test_the_same_seed_gives_the_same_task_and_another_gives_another():
    one, again, other = (personal.own(BITS, seed) for seed in (7, 7, 8))
    assert one.statement == again.statement != other.statement
    assert one.solution == again.solution != other.solution


def test_numbers_count_as_on_paper():
    task = personal.own(BITS, 7)
    assert marked(task, f"{task.solution:.4f}").state == "passed"
    assert marked(task, task.solution * 1.1).state == "failed"


def test_a_planned_mistake_is_named_in_a_task_of_ones_own_too():
    task = personal.own(SHIFT, 7)
    inputs, targets = task.solution["inputs"], task.solution["targets"]
    report = marked(task, {"inputs": targets, "targets": inputs})
    assert report.lines[-1] == "Likely cause: inputs and targets are exchanged."


def test_every_other_students_answer_fails():
    tasks = [personal.own(SHIFT, seed) for seed in range(5)]
    states = [[marked(a, b.solution).state for b in tasks] for a in tasks]
    assert states == [["passed" if i == j else "failed" for j in range(5)] for i in range(5)]


def test_an_exercise_without_a_call_by_hand_is_refused_by_name():
    with pytest.raises(ValueError, match="c05_word_vectors/analogy_report cannot be personal"):
        personal.own(exercises.load("c05_word_vectors/analogy_report"), 7)


def test_many_exercises_can_be_personal():
    good = 0
    for slug in ("c07_backprop", "c14_attention", "c15_masking"):
        for name in exercises.chapters()[slug]:
            exercise = exercises.load(f"{slug}/{name}")
            if exercise.is_value or exercise.judge or exercise.use:
                continue
            try:
                task = personal.own(exercise, 11)
            except ValueError:
                continue
            good += 1
            assert marked(task, task.solution).state == "passed", name
    assert good >= 5


def test_the_seed_in_the_notebook_is_the_graders():
    names: dict = {}
    exec(personal.my_seed_source("A “course”"), names)
    assert names["my_seed"](" Ada ") == personal.my_seed("ada", "A “course”")
    seeds = {personal.my_seed(s, c) for s in ("ada", "bob") for c in ("one", "two")}
    assert len(seeds) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name\nAda\n", "a column `student`"),
        ("", "a column `student`"),
        ("student\n../up\n", "'../up'; expected letters"),
        ("student\nada\nAda\n", "stands more than once"),
        ("student\n\n ,\n", "the id ''"),
    ],
)
def test_a_roster_that_cannot_be_used_is_told_with_what_is_expected(tmp_path, text, says):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        personal.read_roster(tmp_path / "roster.csv")


def test_a_roster_may_come_from_a_spreadsheet(tmp_path):
    text = "\ufeffname,student\r\nAda,s1\r\nBob,s2 \r\n"
    (tmp_path / "roster.csv").write_bytes(text.encode())
    assert personal.read_roster(tmp_path / "roster.csv") == ("s1", "s2")
