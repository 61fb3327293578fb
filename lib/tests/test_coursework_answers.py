"""Taking a named answer out of whatever was handed in."""

import json

import pytest
from unrolled.teaching.coursework.answers import take

SHIFT = "def shift(x):\n    return x + 1"


def notebook(*cells, **more) -> bytes:
    """A notebook of today's format with these code cells."""
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": c} for c in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": code, **more}).encode()


def export(**answers) -> bytes:
    """What the page exports."""
    found = {f"c01_chain_rule/{name}": {"source": source} for name, source in answers.items()}
    return json.dumps({"format": "unrolled-answers", "version": 1, "answers": found}).encode()


def value(program: str, name: str = "shift", *args):
    """What the program's answer returns; its own code here, never a student's."""
    names = {}
    exec(program, names)
    return names[name](*args) if args else names[name]


# ---- files of every kind -------------------------------------------------------------------------

OLD = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": SHIFT}]}]}
FILES = {
    "a notebook": ("w.ipynb", notebook(SHIFT)),
    "a source in lines": ("w.ipynb", notebook(SHIFT.splitlines(keepends=True))),
    "a notebook of version 3": ("w.ipynb", json.dumps(OLD).encode()),
    "a notebook without its version": ("w.ipynb", notebook(SHIFT, nbformat=None)),
    "Python": ("w.py", SHIFT.encode()),
    "Python in cells": ("w.py", f"# %% [markdown]\n# Text\n\n# %%\n{SHIFT}\n".encode()),
    "an export of the page": ("answers.json", export(shift=SHIFT)),
    "a notebook called .py": ("w.py", notebook(SHIFT)),
    "a notebook called .json": ("w.json", notebook(SHIFT)),
    "a byte-order mark": ("w.ipynb", b"\xef\xbb\xbf" + notebook(SHIFT)),
    "UTF-16": ("w.py", SHIFT.encode("utf-16")),
    "UTF-16 without its mark": ("w.ipynb", notebook(SHIFT).decode().encode("utf-16-le")),
    "UTF-16, big end first": ("w.py", SHIFT.encode("utf-16-be")),
    "UTF-32": ("w.py", SHIFT.encode("utf-32")),
    "latin-1": ("w.py", f"# für später\n{SHIFT}".encode("latin-1")),
    "latin-1, declared": ("w.py", f"# coding: latin-1\n# ü\n{SHIFT}".encode("latin-1")),
    "a codec that is none for texts": ("w.py", b"# coding: punycode \xfc\n" + SHIFT.encode()),
    "null bytes": ("w.py", SHIFT.replace(" + ", " \0+ ").encode()),
    "lines of Windows": ("w.py", SHIFT.replace("\n", "\r\n").encode()),
    "lines of an old Mac": ("w.py", SHIFT.replace("\n", "\r").encode()),
    "control characters in JSON": ("w.ipynb", notebook(SHIFT).replace(b"\\n", b"\n")),
    "cells that are none": (
        "w.ipynb",
        notebook(SHIFT).replace(b'"cells": [', b'"cells": [7, "x",'),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_the_answer_is_found_in_a_file_of_every_kind(kind):
    answers = take(*FILES[kind])
    assert answers.defines("shift")
    assert value(answers.program("shift"), "shift", 2) == 3


REFUSED = {
    "broken JSON": ("w.ipynb", notebook(SHIFT)[:-9], "w.ipynb is broken: its JSON"),
    "JSON nested too deep": ("w.ipynb", b'{"cells": ' + b"[" * 100_000, "w.ipynb is broken"),
    "JSON that is no notebook": ("w.ipynb", b'{"a": 1}', "it has no cells"),
    "an empty notebook": ("w.ipynb", b"", "w.ipynb is empty"),
    "text called .ipynb": ("w.ipynb", SHIFT.encode(), "w.ipynb begins with 'def shift"),
    "a picture": ("w.py", b"\x89PNG\r\n", "w.py is no text"),
    "a document": ("w.py", b"%PDF-1.7", "w.py is no text"),
    "a zip file": ("w.ipynb", b"PK\x03\x04", "w.ipynb is no text"),
    "an export of another version": (
        "a.json",
        b'{"format": "unrolled-answers", "version": 9}',
        "9",
    ),
    "an export without answers": ("a.json", b'{"format": "unrolled-answers"}', "without answers"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_submission_is_refused_in_a_sentence(kind):
    name, body, says = REFUSED[kind]
    with pytest.raises(ValueError, match=says):
        take(name, body)


# ---- missing answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["def shfit(x): pass"], "the notebook defines no `shift`; it defines `shfit`"),
        (["x = 1", "def left(): pass"], "defines no `shift`; it defines `left`"),
        (["print(3)"], "the notebook defines no `shift`; there is no code in it"),
        ([], "there is no code in it"),
        (["def shift(x:\n    return x"], r"cell 1 was left out: .*line 1.*mentions `shift`"),
        (["class A:\n    def shift(self): pass"], "it defines `A`"),
        (["# def shift(x): return x"], "defines no `shift`"),
    ],
)
def test_a_missing_answer_is_explained(cells, says):
    with pytest.raises(ValueError, match=says):
        take("w.ipynb", notebook(*cells)).program("shift")


def test_outputs_without_code_count_for_nothing():
    body = json.loads(notebook(""))
    output = {"output_type": "stream", "text": SHIFT + "\n✓ shift: all 5 tests passed"}
    body["cells"][0]["outputs"] = [output]
    with pytest.raises(ValueError, match="there is no code in it"):
        take("w.ipynb", json.dumps(body).encode()).program("shift")


def test_a_cell_with_a_syntax_error_loses_only_itself():
    answers = take("w.ipynb", notebook("import math", "def oops(:\n  pass", SHIFT))
    assert value(answers.program("shift"), "shift", 1) == 2
    assert "cell 2 was left out: Python cannot read it (invalid syntax, line 1)" in answers.problems


def test_an_answer_of_an_export_with_a_syntax_error_loses_only_itself():
    answers = take("a.json", export(shift=SHIFT, two_roads="two_roads = {"))
    assert value(answers.program("shift"), "shift", 1) == 2
    with pytest.raises(ValueError, match="the answer `c01_chain_rule/two_roads` was left out"):
        answers.program("two_roads")


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "-" * 100_000 + "1",
        "x = " + "1+" * 100_000 + "1",
        "x = " + "(" * 5000 + ")" * 5000,
        "x = a" + ".b" * 50_000,
        "x = " + "lambda: " * 50_000 + "1",
        "if x: y = 1\n" + "elif x: y = 1\n" * 30_000,
        "%a\n" * 100_000,
        "x = " + "9" * 100_000,
        "x" * 500_000,
    ],
    ids=lambda source: source[:12],
)
def test_code_that_is_made_to_break_a_parser_loses_only_its_cell(source):
    answers = take("w.ipynb", notebook(source, SHIFT))
    assert "cell 1 was left out" in answers.problems[0]
    assert value(answers.program("shift"), "shift", 1) == 2


# ---- what an answer needs ------------------------------------------------------------------------


def test_only_what_the_answer_needs_comes_along():
    program = take(
        "w.ipynb",
        notebook(
            "import os, math\nimport matplotlib.pyplot as plt\n%matplotlib inline\n!pip install x",
            "STEP = 1\nweights = train()\nplt.plot(weights)",
            "def helper(x):\n    return x + STEP",
            "@decorate\ndef shift(x):\n    y = helper(x)\n    return math.floor(y)",
            "print(shift(1))\ncheck('shift', shift)\nhelp?\nfiles = !ls",
            "def decorate(f):\n    return f",
        ),
    ).program("shift")
    for line in ("import os, math", "STEP = 1", "def helper", "def decorate"):
        assert line in program
    for word in ("plt", "train", "print", "check", "pip", "%", "ls"):
        assert word not in program


def test_the_last_definition_counts_and_it_is_said():
    answers = take("w.ipynb", notebook("def shift(x): return 1", "def shift(x): return 2"))
    assert value(answers.program("shift"), "shift", 0) == 2
    assert answers.notes("shift") == ["`shift` is defined 2 times; the last one counts"]


def test_a_variable_is_taken_as_it_was_where_the_answer_was_tried_out():
    """A later cell that uses the same short name for a training does not run."""
    cells = ["n = 3", "def shift(x):\n    return x + n", "n = train_for_an_hour()"]
    assert value(take("w.ipynb", notebook(*cells)).program("shift"), "shift", 1) == 4


def test_a_helper_is_taken_in_its_last_form_wherever_it_stands():
    cells = ["def step(): return 1", "def shift(x):\n    return x + step()", "def step(): return 5"]
    assert value(take("w.ipynb", notebook(*cells)).program("shift"), "shift", 1) == 6


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("table = {}\ntable['a'] = 1\ndef shift(x): return x + table['a']", 3),
        ("steps = []\nsteps.append(1)\nprint(steps)\ndef shift(x): return x + steps[0]", 3),
        ("n = 1\nn += 1\ndef shift(x): return x + n", 4),
        ("a, (b, *c) = 1, (2, 3)\ndef shift(x): return x + c[0]", 5),
        (
            "try:\n    import no\nexcept Exception:\n    no = 7\ndef shift(x): return no",
            7,
        ),
        ("if True:\n    k = 1\nelse:\n    k = 2\ndef shift(x): return x + k", 3),
        ("from math import *\ndef shift(x): return floor(x + 1.5)", 3),
        ("class Base:\n    n = 1\nclass Mine(Base): pass\ndef shift(x): return x + Mine.n", 3),
        ("def f(g): return g\ndef shift(x, h=f(1)): return x + h", 3),
        ("from __future__ import annotations\ndef shift(x: Nothing): return x", 2),
        ("xs = [1, 2]\nds = {k: v for k, v in zip('ab', xs)}\ndef shift(x): return x + ds['b']", 4),
        ("def g():\n    return later\ndef shift(x): return x + g()\nlater = 1", 3),
        ("x = 1; shift = lambda y: y + x; print(shift)", 3),
        ("def shift(ü):\n    return ü + 'ä'.__len__(); é = 5", 3),
        ("for i in range(3): last = i\ndef shift(x): return x + last", 4),
        ("def shift(x):\n    global n\n    n = x\n    return n", 2),
        ("%%time\ndef shift(x): return x", 2),
        ("def shift(x):\n    %timeit x\n    return x", 2),
        ("s = '''\n%not a magic\n'''\ndef shift(x): return x + len(s) - 14", 2),
        ("def shift(x):\n    return (x\n  % 5)", 2),
        ("if __name__ == '__main__':\n    shift = None\ndef shift(x): return x", 2),
    ],
)
def test_answers_run_with_what_they_need(source, result):
    assert value(take("w.ipynb", notebook(source)).program("shift"), "shift", 2) == result


@pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%writefile shift.py"])
def test_a_cell_for_another_language_is_left_out(magic):
    answers = take("w.ipynb", notebook(f"{magic}\ndef shift(x): return 0", SHIFT))
    assert value(answers.program("shift"), "shift", 2) == 3
    assert not answers.problems


def test_imports_of_the_exercise_come_along_where_the_student_wrote_none():
    answers = take("a.json", export(shift="def shift(x):\n    return np.add(x, 1)"))
    program = answers.program("c01_chain_rule/shift", given="import numpy as np\nimport json")
    assert "json" not in program
    assert value(program, "shift", 2) == 3
