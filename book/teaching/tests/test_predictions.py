"""Predictions: how a cell is read, what is right, what a key refuses, what a class believed."""

import csv
import io
import json

import pytest
import unrolled_book
from unrolled_book import predictions
from unrolled_book.coursework import __main__ as coursework
from unrolled_book.coursework.tally import tally
from unrolled_book.predictions import hold, inside, number, parse, stored


def cell(answer, question="What is it?", name="it"):
    return (f"Before.\n\n**Predict.** {question}\n\n"
            f"<details><summary>Answer: {name}</summary>\n\n{answer}\n\n</details>\n")  # fmt: skip


WHY = "You may think of something else."
ABC = "Which?\n\n- **a.** one\n- **b.** two $x$,\n  or more\n- **c.** three"
CHOICE = cell(f"**b.** Two it is.\n\n- *a.* {WHY}\n- *c.* You may count\n  in threes, too.", ABC)
ORDER = cell(f"**b, a, c.** So.\n\n- *a before b.* {WHY}", ABC)
NUMBER = cell(f"**0.31 bits** (0.2 to 0.5 counts). So.\n\n- *above 1.* {WHY}\n- *-1 to 0.* {WHY}")
TEXT = cell(f"**`(2, 3)`.** So.\n\n- *`(3, 2)`.* {WHY}")
TABLE = "Which?\n\n| | x | y |\n|---|---|---|\n| **p** | 1 | 2 |\n| **q** | 3 | 4 |"
CELLS = cell(f"**row 1, column 2; row 2, column 2.** So.\n\n- *row 1, column 1.* {WHY}", TABLE)
PLACES = cell(f"**at a and c.** So.\n\n- *at b.* {WHY}\n- *at a, b and c.* {WHY}", ABC)
EVERY = {"choice": CHOICE, "order": ORDER, "number": NUMBER, "text": TEXT, "cells": CELLS}
EVERY["places"] = PLACES
# kind: right answers, wrong ones with a reason, wrong ones without, what is no answer
GIVEN = {
    "choice": (["b", "B."], ["a", "c"], [], ["d", "a, b", ""]),
    "order": (["b, a, c", "b a c"], ["a, b, c", "c a b"], ["b, c, a"], ["a, b", "a, a, b"]),
    "number": (["0.31", ".2", "5e-1"], ["1,000", "−0.5"], ["0.1", "0.9"], ["", "many", "nan"]),
    "text": (["(2, 3)", "2 3"], ["(3,2)"], ["(2, 3, 1)", "6"], []),
    "cells": (["row 2, column 2; row 1, column 2"], ["row 1, column 1"], ["row 1, column 2"], []),
    "places": (["a, c", "at c and a", "C a"], ["b", "a, b, c"], ["a", "b, c"], ["", "a, d", "at"]),
}  # fmt: skip


def test_a_cell_is_read_in_its_parts():
    one = parse(CHOICE)
    assert (one.name, one.kind, one.right, one.question) == ("it", "choice", "b", "Which?")
    assert one.options == {"a": "one", "b": "two $x$, or more", "c": "three"}
    assert one.answer == "Two it is."
    assert [(w.when, w.why) for w in one.wrong] == [
        ("a", WHY),
        ("c", "You may count in threes, too."),
    ]
    one = parse(NUMBER)
    assert (one.right, one.unit, one.counts, one.answer) == ("0.31", "bits", "0.2 to 0.5", "So.")


@pytest.mark.parametrize("kind", EVERY)
def test_answers_are_judged_and_explained(kind):
    one = parse(EVERY[kind])
    assert one.kind == kind
    right, explained, unexplained, none = GIVEN[kind]
    assert all(one.is_right(given) for given in right)
    assert not any(one.is_right(given) for given in [*explained, *unexplained])
    assert all(one.why(given) for given in explained)
    assert not any(one.why(given) for given in unexplained)
    for given in none:
        with pytest.raises(ValueError, match="expected"):
            one.is_right(given)


KEYS = {
    "choice": ({"a": False, "b": True, "c": False}, [{"a": True, "b": True, "c": False},
               {"a": False, "b": False, "c": False}, {"b": True}]),
    "order": ("bac", ["abc", ["b", "c", "a"]]),
    "number": (0.3101, [0.32, 0.6, -0.5, float("nan")]),
    "text": ((2, 3), [(3, 2), "(2, 3, 4)"]),
    "cells": ([(2, 2), (1, 2)], [[(1, 2)], [(1, 2), (2, 1)]]),
    "places": ({"a": True, "b": False, "c": True}, [{"a": True, "b": False, "c": False},
               {"a": True, "b": True, "c": True}, {"a": True, "c": True}]),
}  # fmt: skip


@pytest.mark.parametrize("kind", EVERY)
def test_a_key_holds_or_falls(kind):
    true, false = KEYS[kind]
    hold(EVERY[kind], true)
    for key in false:
        with pytest.raises(AssertionError, match="it: "):
            hold(EVERY[kind], key)


BAD = {
    "no answer in bold": (cell("Two."), "expected '"),
    "an option without a reason": (CHOICE.replace(f"- *a.* {WHY}\n", ""), "reasons for"),
    "a reason that is none": (TEXT.replace(WHY, "No."), "needs a sentence"),
    "the right one called wrong": (
        TEXT.replace("(3, 2)", "(2, 3)"),
        "is right and is called wrong",
    ),
    "a right number called wrong": (NUMBER.replace("above 1", "above 0.3"), "is called wrong"),
    "a number that does not count": (NUMBER.replace("**0.31", "**0.6"), "not right 0.2 to 0.5"),
    "no span": (NUMBER.replace("0.2 to 0.5", "some"), "expected '1 to 5'"),
    "no number": (NUMBER.replace("**0.31 bits**", "**some bits**"), "a number stands as"),
    "no table": (CELLS.replace("|", ""), "holds no table"),
    "no wrong answer": (cell("**`(2, 3)`.** So."), "no wrong answer has a reason"),
    "a right place called wrong": (PLACES.replace("*at b.*", "*at c and a.*"), "is called wrong"),
    "a place without an option": (PLACES.replace("*at b.*", "*at d.*"), "expected letters of"),
    "not at the end": (CHOICE + "More.", "expected '"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_in_the_form_is_refused(what):
    source, says = BAD[what]
    with pytest.raises(ValueError, match=says):
        parse(source)


def test_a_cell_without_an_answer_asks_nothing():
    assert parse("**Predict.** What do you think?") is None
    assert parse("<details><summary>Solution</summary>\n\nx\n\n</details>") is None


def test_spans_and_numbers():
    assert inside(5, "1 to 5")
    assert inside(5, "5")
    assert not inside(5.1, "5")
    assert parse(NUMBER.replace(" (0.2 to 0.5 counts)", "")).counts == "0.31"
    assert not inside(5, "above 5")
    assert inside(-3, "below −2.5")
    assert number("1,000") == 1000
    assert number("12 %") == 12
    assert number("1/4") == 0.25
    with pytest.raises(ValueError, match="such as"):
        number("1/0")
    with pytest.raises(ValueError, match="such as"):
        number("0,5")


def test_a_reader_of_a_notebook_commits(capsys):
    one = next(p for p in stored().values() if p.kind == "choice")
    unrolled_book.predict(one.name, one.right)
    assert capsys.readouterr().out == f"✓ {one.answer}\n"
    unrolled_book.predict(one.name, one.wrong[0].when)
    assert capsys.readouterr().out == f"{one.wrong[0].why}\n"
    with pytest.raises(ValueError, match=f"near it: .*{one.name}"):
        unrolled_book.predict(one.name[:-1], "a")


def test_a_name_is_unique_in_the_book():
    names = [one["name"] for found in json.loads(predictions.STORED.read_text("utf8")).values()
             for one in found]  # fmt: skip
    assert len(set(names)) == len(names)


@pytest.fixture
def export(tmp_path, monkeypatch):
    monkeypatch.setattr("unrolled_book.coursework.tally.stored",
                        lambda: {"it": parse(NUMBER), "which": parse(CHOICE)})  # fmt: skip

    def write(name, given, form="unrolled-answers"):
        told = {key: {"given": text, "right": True, "changed": ""} for key, text in given.items()}
        path = tmp_path / "class" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"format": form, "version": 1, "predictions": told}), "utf8")
        return path

    return write


def test_a_class_is_counted_by_belief_and_judged_here(export, tmp_path):
    export("ann", {"it": "0.3", "which": "a", "gone": "b"})
    export("bo", {"it": "2", "which": "a"}, form="unrolled-predictions")
    export("cy", {"it": "1,000", "which": "b", "open-01-3": "a thought"})
    export("di", {"it": "0.6", "which": "zebra"})
    (tmp_path / "class" / "bad.json").write_text("{", "utf8")
    (tmp_path / "class" / "other.json").write_text('{"predictions": {}}', "utf8")
    table, problems = tally([tmp_path / "class"])
    rows = list(csv.DictReader(io.StringIO(table)))
    found = [(r["prediction"], r["answer"], r["readers"], r["right"], r["belief"]) for r in rows]
    assert found == [
        ("it", "above 1", "2", "no", WHY), ("it", "0.2 to 0.5", "1", "yes", ""),
        ("it", "else", "1", "no", ""), ("which", "one", "2", "no", WHY),
        ("which", "two $x$, or more", "1", "yes", ""),
    ]  # fmt: skip
    assert [line.rpartition("/")[2].partition(":")[0] for line in problems] == [
        "bad.json",
        "other.json",
    ]


def test_the_command_counts_a_class(export, tmp_path, capsys):
    path = export("ann", {"which": "c"})
    out = tmp_path / "tally.csv"
    assert coursework.main(["tally", str(path), "--out", str(out)]) == 0
    assert "three" in out.read_text("utf8")
    assert coursework.main(["tally", str(tmp_path / "nobody"), "--out", str(out)]) == 2
    assert "is not there" in capsys.readouterr().err
