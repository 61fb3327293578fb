"""Taking a named answer out of whatever was handed in."""

import ast
import json
import re
import sys
from functools import partial

import pytest
from unrolled_book.coursework.answers import Answers, take
from unrolled_book.coursework.statements import needed

from lib.tests.comparing import lines_run

SHIFT = "def shift(x):\n    return x + 1"


def notebook(*cells, kind="code") -> bytes:
    """A notebook of today's format with these cells."""
    listed = [{"cell_type": kind, "metadata": {}, "outputs": [], "source": c} for c in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": listed}).encode()


def printed(text) -> bytes:
    """A notebook whose cell has printed a text."""
    output = json.dumps([{"output_type": "stream", "text": text}])
    return notebook("").replace(b'"outputs": []', b'"outputs": ' + output.encode())


def export(**answers) -> bytes:
    """What the page exports."""
    found = {f"c01_chain_rule/{name}": {"source": source} for name, source in answers.items()}
    return json.dumps({"format": "unrolled-answers", "version": 1, "answers": found}).encode()


def taken(*cells) -> Answers:
    return take("w.ipynb", notebook(*cells))


def shifted(answers, x=2, given=""):
    """What the answer returns; its program is our own here, never a student's."""
    names = {}
    exec(answers.program("shift", given), names)
    return names["shift"](x)


OLD = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": SHIFT}]}]}
FILES = {
    "a notebook": ("w.ipynb", notebook(SHIFT)),
    "a source in lines": ("w.ipynb", notebook(SHIFT.splitlines(keepends=True))),
    "a notebook of version 3": ("w.ipynb", json.dumps(OLD).encode()),
    "Python": ("w.py", SHIFT.encode()),
    "Python in cells": ("w.py", f"# %% [markdown]\n# Text\n\n# %%\n{SHIFT}\n".encode()),
    "an export of the page": ("answers.json", export(shift=SHIFT)),
    "a notebook called .py": ("w.py", notebook(SHIFT)),
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
    "cells of an old Mac": ("w.ipynb", notebook(SHIFT.replace("\n", "\r"))),
    "control characters in JSON": ("w.ipynb", notebook(SHIFT).replace(b"\\n", b"\n")),
    "cells that are none": ("w.ipynb", notebook(SHIFT).replace(b"[{", b'[7, "x", [], {')),
}


@pytest.mark.parametrize("kind", FILES)
def test_the_answer_is_found_in_a_file_of_every_kind(kind):
    answers = take(*FILES[kind])
    assert answers.defines("shift")
    assert shifted(answers) == 3
    assert kind == "null bytes" or answers.problems == ()


EXPORT = b'{"format": "unrolled-answers"}'
NONE = {
    "broken JSON": ("w.ipynb", notebook(SHIFT)[:-9], "“w.ipynb” is broken: its JSON"),
    "JSON nested too deep": ("w.ipynb", b'{"cells": ' + b"[" * 100_000, "“w.ipynb” is broken"),
    "lists by the million": ("w.ipynb", b"{" + b"[]," * 2_000_000, "has more than 2,000,000 lists"),
    "JSON that is no notebook": ("w.ipynb", b'{"a": 1}', "it has no cells"),
    "an empty notebook": ("w.ipynb", b"", "“w.ipynb” is empty"),
    "text called .ipynb": ("w.ipynb", SHIFT.encode(), "“w.ipynb” begins with 'def shift"),
    "a zip file": ("w.ipynb", b"PK\x03\x04", "“w.ipynb” is no text"),
    "another version": ("a.json", EXPORT[:-1] + b', "version": 9}', "version “9”; expected 1"),
    "an export without answers": ("a.json", EXPORT, "without answers"),
    "an export with an error": (
        "a.json", export(shift="shift = {"), "rule/shift” was left",
    ),
    "misspelt": ("w.py", b"def shfit(x): pass", "the file defines no `shift`; it defines `shfit`"),
    "a long name": ("w.py", b"def " + b"a" * 9_000 + b"(): 0", "it defines `a{60}…`$"),
    "others alone": ("w.py", b"x = 1\ndef left(): pass", "no `shift`; it defines `left`"),
    "no definition": ("w.py", b"print(3)", "no `shift`; there is no code in it"),
    "a syntax error": ("w.py", b"def shift(x:\n  return", r"file was .*line 1.*mentions `shift`"),
    "in a class": ("w.py", b"class A:\n    def shift(self): pass", "it defines `A`"),
    "in a text": ("w.py", f"x = {SHIFT!r}".encode(), "it defines `x`"),
    "in a text cell": ("w.ipynb", notebook(SHIFT, kind="markdown"), "there is no code in it"),
    "in an output": ("w.ipynb", printed(SHIFT + "\n✓ shift: all 6 tests passed"), "no code in it"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NONE)
def test_where_there_is_no_answer_a_sentence_says_why(kind):
    name, body, says = NONE[kind]
    with pytest.raises(ValueError, match=says):
        take(name, body).program("shift")


LONG = "a" * 9_000
FUNCTIONS = "class A:\n" + "".join(f" def f{i}(): 0\n" for i in range(5_000))
LOST = {  # a cell: why it is left out
    "a syntax error": ("def oops(:\n  pass", "Python cannot read it (invalid syntax, line 1)"),
    "signs": ("x = " + "-" * 100_000 + "1", ""),
    "sums": ("x = " + "1+" * 100_000 + "1", ""),
    "attributes": ("x = a" + ".b" * 50_000, ""),
    "lambdas": ("x = " + "lambda: " * 50_000 + "1", ""),
    "branches": ("if x: y = 1\n" + "elif x: y = 1\n" * 30_000, ""),
    "magics": ("%a\n" * 100_000, ""),
    "a long word": ("x" * 500_000, "at most 400,000 characters of code are read of a file"),
    "statements": ("x=1;" * 30_000, "a file may have 20,000 statements, and it has more"),
    "an f-string": ("x = f'" + "{a}" * 5_000 + "'", "an f-string is longer than 10,000 characters"),
    "a raw f-string": ("x = (1,\n  Rf'''" + "{a}" * 5_000, "an f-string is longer than 10,000"),
    "a long name": (
        f"def f():\n    {LONG} = 1\n    global {LONG}",
        "Python cannot read it (name 'a",
    ),
    "functions": (FUNCTIONS, "it has too many functions within one statement"),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_cell_that_cannot_be_read_or_would_take_long_loses_only_itself(kind):
    source, says = LOST[kind]
    answers = taken(source, SHIFT)
    (problem,) = answers.problems
    assert problem.startswith(f"cell 1 was left out: {says}")
    assert len(problem) < 200
    assert shifted(answers) == 3


def test_the_statements_of_all_cells_count_together_and_many_problems_are_counted():
    (problem,) = taken(*["x=1;" * 10_001] * 2, SHIFT).problems
    assert problem.startswith("cell 2 was left out: a file may have 20,000 statements")
    problems = taken(*["def"] * 50).problems
    assert len(problems) == 21
    assert problems[-1] == "and 30 more were left out"


def test_only_what_the_answer_needs_comes_along():
    program = taken(
        "import os, math\nimport matplotlib.pyplot as plt\n%matplotlib inline\n!pip install x",
        "STEP = 1\nweights = train()\nplt.plot(weights)\ndef helper(x):\n    return x + STEP",
        "@decorate\ndef shift(x):\n    y = helper(x)\n    return math.floor(y)",
        "print(shift(1))\ncheck('shift', shift)\nhelp?\nfiles = !ls\ndef decorate(f): return f",
    ).program("shift")
    needed = ("import os, math", "STEP = 1", "def helper", "def decorate")
    assert [part for part in needed if part in program] == [*needed]
    assert not re.search("plt|train|print|check|pip|%|ls", program)


ANSWERS = {  # cells, and what shift(2) returns
    "an entry": ("table = {}\ntable['a'] = 1\ndef shift(x): return x + table['a']", 3),
    "a method": ("s = []\ns.append(1)\nprint(s)\ndef shift(x): return x + s[0]", 3),
    "a change in place": ("n = 1\nn += 1\ndef shift(x): return x + n", 4),
    "an unpacking": ("a, (b, *c) = 1, (2, 3)\ndef shift(x): return x + c[0]", 5),
    "try": ("try:\n    import no\nexcept Exception:\n    no = 7\ndef shift(x): return no", 7),
    "if": ("if True:\n    k = 1\nelse:\n    k = 2\ndef shift(x): return x + k", 3),
    "a star": ("from math import *\ndef shift(x): return floor(x + 1.5)", 3),
    "a class": ("class A:\n    n = 1\nclass B(A): pass\ndef shift(x): return x + B.n", 3),
    "a default": ("def f(g): return g\ndef shift(x, h=f(1)): return x + h", 3),
    "the future": ("from __future__ import annotations\ndef shift(x: Nothing): return x", 2),
    "a comprehension": ("s = [1]\nd = {2 * k: k for k in s}\ndef shift(x): return x * d[x]", 2),
    "a later value": ("def g():\n    return late\ndef shift(x): return x + g()\nlate = 1", 3),
    "one line": ("x = 1; shift = lambda y: y + x; print(shift)", 3),
    "letters of two bytes": ("def shift(ü):\n    return ü + 'ä'.__len__(); é = 5", 3),
    "a loop": ("for i in range(3): last = i\ndef shift(x): return x + last", 4),
    "a loop over two": (
        "x = 0\ny = 0\nfor i in range(3):\n  x += i\n  y += i\ndef shift(v): return v + x + y", 8
    ),
    "a global": ("def shift(x):\n    global n\n    n = x\n    return n", 2),
    "a script": ("if __name__ == '__main__':\n    shift = None\ndef shift(x): return x", 2),
    # A later cell that uses the same short name for a training does not run.
    "a variable above": ("n = 3", "def shift(x):\n    return x + n", "n = train_for_an_hour()", 5),
    "a helper below": ("def f(): return 1", "def shift(x): return x + f()", "def f(): return 5", 7),
    # IPython's lines are left out, and nothing else.
    "a timed cell": ("%%time\ndef shift(x): return x", 2),
    "a magic inside": ("def shift(x):\n    %timeit x\n    return x", 2),
    "a text": ("s = '''\n%not a magic\n'''\n%magic\ndef shift(x): return x + len(s) - 14", 2),
    "texts": ('s = """a " \\""" "\n!no"""\n!magic \'it\ndef shift(x): return x + len(s) - 13', 2),
    "brackets": ("!echo ([{ '''\ndef shift(x):\n    return (x\n  % 5)\n%magic", 2),
    "a comment": ("def shift(x):  # don't (\n    %magic\n    return x \\\n% 5\nshift?", 2),
    "a text on two lines": ("x = 'a\\\n%b'\n%magic\ndef shift(x): return x", 2),
    "the last definition": ("def shift(x): return 1", "def shift(x): return 7", 7),
    "another language": ("%%bash\ndef shift(x): return 0", SHIFT, 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_run_with_what_they_need(kind):
    *cells, result = ANSWERS[kind]
    answers = taken(*cells)
    assert answers.problems == ()
    assert shifted(answers) == result


def test_imports_of_the_exercise_come_along_where_the_student_wrote_none():
    answers = take("a.json", export(shift="def shift(x):\n    return np.add(x, 1)"))
    given = "import numpy as np\nimport json"
    assert "json" not in answers.program("c01_chain_rule/shift", given)
    assert shifted(answers, given=given) == 3


@pytest.fixture
def parsed(monkeypatch):
    """The lengths of the texts that are parsed whole."""
    lengths, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda s, **how: lengths.append(len(s)) or parse(s, **how))
    return lengths


# Lines that stand n times, {0} and {1} counting; after them the answer's.
LONG = {
    "each needs the one before": ("v{1} = v{0}\n", "shift = v{0}"),
    "each function calls the next": ("def v{0}(): return v{1}()\n", "shift = v0"),
    "a list that grows": ("v0.append(v{0})\nv{1} = v0\n", "def shift(): return v{0}, v0"),
    "names that nobody defines": ("from a import *\n", "shift = [{names}]"),
    "one name, over and over": ("v0 = v0 + 1\n", "shift = v0"),
}


@pytest.mark.parametrize("kind", LONG)
def test_finding_an_answer_takes_work_in_proportion_to_the_code(kind):
    line, last = LONG[kind]
    found, files = [], {each.__code__.co_filename for each in (take, needed)}
    for n in (100, 400):
        source = "v0 = []\n" + "".join(line.format(i, i + 1) for i in range(n))
        source += last.format(n, names=",".join(f"v{i}" for i in range(n)))
        answer = take("w.py", source.encode())
        found.append(lines_run(partial(answer.program, "shift"), files))
    assert found[0] > 1000
    assert found[1] < 5 * found[0]


def test_each_cell_and_each_answer_of_an_export_is_parsed_once(parsed):
    cells = ["import math", SHIFT, "x = 1\n" * 50]
    taken(*cells).program("shift", given="import json")
    assert parsed == [len(cell) for cell in [*cells, "import json"]]
    parsed.clear()
    answers = take("a.json", export(shift=SHIFT, two_roads="two_roads = {"))
    assert shifted(answers) == 3
    assert [length for length in parsed if length] == [len(SHIFT), len("two_roads = {")]


def test_lines_for_ipython_cost_one_more_reading(parsed):
    source = "x = [" + "1, " * 3000 + "]\n" + "%m\n" * 250 + SHIFT
    assert shifted(taken(source)) == 3
    assert sum(length for length in parsed if length) < 2.5 * len(source)


def test_code_beyond_the_limit_is_left_out_before_it_is_parsed(parsed):
    big = "x = '" + "1" * 90_000 + "'"
    says = "was left out: at most 400,000 characters of code are read of a file"
    exported = export(**{f"x{i}": big for i in range(9)}, shift=SHIFT)
    files = {"cell 5": notebook(*[big] * 10, SHIFT), "the answer “c01_chain_rule/x4”": exported}
    for first, body in files.items():
        answers = take("w.ipynb", body)
        assert parsed == [len(big)] * 4 + [len(SHIFT)]
        assert shifted(answers) == 3
        assert answers.problems[0].startswith(f"{first} {says}")
        parsed.clear()
    answers = take("w.py", SHIFT.encode() + b"\n# a comment" * 40_000)
    assert not parsed
    with pytest.raises(ValueError, match=f"the file {says}"):
        answers.program("shift")


AS_A_SCRIPT = """
import functools
import sys

sys.setrecursionlimit(9_000)

if __name__ == "__main__":
    step = 3

    @functools.cache
    def shift(text,
              more=0):
        if more == 2_000:
            return step
        return shift(text, more + 1)

    print(shift("a"), undefined_name)
"""


def test_an_answer_that_stands_in_a_script_s_main_is_found_with_its_settings():
    program = take("w.py", AS_A_SCRIPT.encode()).program("shift")
    assert "undefined_name" not in program
    names = {"__name__": "<answer>"}
    limit = sys.getrecursionlimit()
    try:
        exec(program, names)
        assert names["shift"]("x") == 3
        assert sys.getrecursionlimit() == 9_000
    finally:
        sys.setrecursionlimit(limit)


def test_cells_beyond_the_limit_are_not_left_out_in_silence():
    answers = take("w.ipynb", notebook(SHIFT, *["x = 1"] * 5_000))
    assert answers.problems == (
        "“w.ipynb” has 5,001 cells; those after the first 5,000 were left out",
    )
