"""Taking a named answer out of whatever was handed in."""

import ast
import json
import sys

import pytest
from unrolled_book.coursework.answers import take

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


# ---- what a file costs ---------------------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch):
    """The lengths of the texts that are parsed whole."""
    lengths, parse = [], ast.parse

    def counted(source, *more, **how):  # pytest parses, too, where a test fails
        lengths.append(len(source))
        return parse(source, *more, **how)

    monkeypatch.setattr(ast, "parse", counted)
    return lengths


def work(function) -> int:
    """How many lines of answers.py run, the rounds of comprehensions among them."""
    lines, before = 0, sys.gettrace()

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != take.__code__.co_filename:
            return None
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


LONG = {
    "each needs the one before": lambda n: (
        "v0 = 1\n" + "".join(f"v{i} = v{i - 1}\n" for i in range(1, n)) + f"shift = v{n - 1}"
    ),
    "each function calls the next": lambda n: (
        "".join(f"def f{i}(): return f{i + 1}()\n" for i in range(n)) + "shift = f0"
    ),
    "a list that grows": lambda n: (
        "t = []\n"
        + "".join(f"t.append(v{i})\nv{i + 1} = t\n" for i in range(n))
        + f"def shift(): return v{n}, t"
    ),
    "names that nobody defines": lambda n: (
        "from a import *\n" * n + f"shift = [{','.join(f'v{i}' for i in range(n))}]"
    ),
    "one name, over and over": lambda n: "x = x + 1\n" * n + "shift = x",
}


@pytest.mark.parametrize("kind", LONG)
def test_finding_an_answer_takes_work_in_proportion_to_the_code(kind):
    small, large = (take("w.py", LONG[kind](n).encode()) for n in (100, 400))
    least = work(lambda: small.program("shift"))
    assert least > 100
    assert work(lambda: large.program("shift")) < 5 * least


def test_each_cell_is_parsed_once(parsed):
    cells = ["import math", SHIFT, "x = 1\n" * 50]
    answers = take("w.ipynb", notebook(*cells))
    assert parsed == [len(cell) for cell in cells]
    answers.program("shift", given="import json")
    assert parsed[3:] == [len("import json")]


def test_each_answer_of_an_export_is_parsed_once(parsed):
    answers = take("a.json", export(shift=SHIFT, two_roads="two_roads = {"))
    answers.program("shift")
    assert [length for length in parsed if length] == [len(SHIFT), len("two_roads = {")]


@pytest.mark.parametrize("n", [1, 20, 250])
def test_lines_for_ipython_cost_one_more_reading(n, parsed):
    source = "x = [" + "1, " * 3000 + "]\n" + "%m\n" * n + SHIFT
    assert value(take("w.ipynb", notebook(source)).program("shift"), "shift", 1) == 2
    assert sum(length for length in parsed if length) < 2.5 * len(source)


def test_code_beyond_the_limit_is_left_out_before_it_is_parsed(parsed):
    big = "x = [" + "1," * 45_000 + "]"
    answers = take("w.ipynb", notebook(*[big] * 10, SHIFT))
    assert parsed == [len(big)] * 4 + [len(SHIFT)]
    assert value(answers.program("shift"), "shift", 1) == 2
    assert answers.problems[0] == (
        "cell 5 was left out: at most 400,000 characters of code are read of a file, and with this "
        "it has more; keep data and pictures in files of their own"
    )


def test_a_file_of_one_long_text_is_not_parsed(parsed):
    answers = take("w.py", SHIFT.encode() + b"\n# a comment" * 40_000)
    assert not parsed
    with pytest.raises(ValueError, match="the file was left out: at most 400,000 characters"):
        answers.program("shift")


def test_an_export_has_the_same_limit(parsed):
    big = "x = [" + "1," * 45_000 + "]"
    answers = take("a.json", export(**{f"x{i}": big for i in range(9)}, shift=SHIFT))
    assert sum(parsed) < 400_000
    assert value(answers.program("shift"), "shift", 1) == 2
    assert "the answer `c01_chain_rule/x4` was left out: at most" in answers.problems[0]


def test_outputs_of_megabytes_are_no_code():
    body = json.loads(notebook(SHIFT))
    body["cells"][0]["outputs"] = [{"output_type": "stream", "text": "x = 1\n" * 1_000_000}]
    answers = take("w.ipynb", json.dumps(body).encode())
    assert answers.problems == ()
    assert value(answers.program("shift"), "shift", 1) == 2


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x=1;" * 30_000, "a file may have 20,000 statements, and it has more"),
        ("x = f'" + "{a}" * 5_000 + "'", "an f-string is longer than 10,000 characters"),
        ("x = (1,\n  Rf'''" + "{a}" * 5_000, "an f-string is longer than 10,000 characters"),
        (
            "class A:\n" + "".join(f" def f{i}(): 0\n" for i in range(5_000)),
            "it has too many functions within one statement",
        ),
    ],
    ids=lambda text: text[:12],
)
def test_code_that_would_take_long_loses_only_its_cell(source, says):
    answers = take("w.ipynb", notebook(source, SHIFT))
    assert answers.problems == (f"cell 1 was left out: {says}",)
    assert value(answers.program("shift"), "shift", 1) == 2


def test_the_statements_of_all_cells_count_together():
    answers = take("w.ipynb", notebook(*["x=1;" * 9_000] * 3, SHIFT))
    assert len(answers.problems) == 1
    assert answers.problems[0].startswith("cell 3 was left out: a file may have 20,000 statements")


def test_many_cells_that_were_left_out_are_counted():
    problems = take("w.ipynb", notebook(*["def"] * 50)).problems
    assert len(problems) == 21
    assert problems[-1] == "and 30 more were left out"


@pytest.mark.parametrize(
    "source",
    [
        "s = '''\n%not a magic\n'''\n%magic\ndef shift(x): return x + len(s) - 14",
        's = """a " \\""" "\n!no"""\n!magic \'it\ndef shift(x): return x + len(s) - 13',
        "!echo ([{ '''\ndef shift(x):\n    return (x\n  % 5)\n%magic",
        "def shift(x):  # don't (\n    %magic\n    return x \\\n% 5\nshift?",
        "x = 'a\\\n%b'\n%magic\ndef shift(x): return x",
        "files = !ls\n\n\ndef shift(x): return {'(': x}['(']\n%magic",
    ],
)
def test_only_lines_for_ipython_are_left_out(source):
    answers = take("w.ipynb", notebook(source))
    assert answers.problems == ()
    assert value(answers.program("shift"), "shift", 2) == 2


def test_a_loop_that_changes_two_names_needs_the_beginnings_of_both():
    loop = "for i in range(3):\n    x += i\n    y += i\n"
    body = f"x = 0\ny = 0\n{loop}def f(v):\n    return v + x + y\n"
    program = take("a.py", body.encode()).program("f", "")
    names: dict = {}
    exec(program, names)
    assert names["f"](1) == 7


def test_a_lone_carriage_return_ends_a_line():
    cell = {"cell_type": "code", "source": "x = 1\rdef f():\r    return x"}
    program = take("a.ipynb", json.dumps({"cells": [cell]}).encode()).program("f", "")
    names: dict = {}
    exec(program, names)
    assert names["f"]() == 1
