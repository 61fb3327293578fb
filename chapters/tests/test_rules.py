"""Every rule passes a good notebook and fails a bad one: a rule that cannot fail is none."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import nbformat
import pytest
from book.tools.notebooks import CHAPTERS, METADATA, content_id
from book.tools.notebooks.address import BOOTSTRAP, library_source
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import rules_code
import rules_names
import rules_numbers
import rules_text
from chapter import Chapter
from rules import RULES

OPENING = """\
# 90. A good chapter

We count to ten.

**What you need.** Nothing.

Afterwards you can

- count

**Time** about 0 minutes to read; the cells run in a second."""
CLOSING = """\
## What goes wrong

Nothing.

## Summary

- We counted.

## Exercises

None.

## Where next

[notation](../book/notation.md)

## Sources

[Shannon (1948)](cite:shannon1948)"""
SET_UP = BOOTSTRAP.format(source=library_source()) + "\nimport math"
FIGURE = '<figure><svg role="img" aria-label="a line"></svg></figure>'
BELOW = CLOSING.index("## Where next")


def good() -> list:
    return [
        new_markdown_cell(OPENING),
        new_code_cell(SET_UP),
        new_markdown_cell("## Counting\n\nA [**bit**](term:bit), and $x^{2}$: we `print`."),
        new_code_cell("print(3.5)", outputs=[new_output("stream", name="stdout", text="3.5\n")]),
        new_markdown_cell("It printed 3.5.\n\n" + CLOSING[:BELOW].strip()),
        new_markdown_cell(CLOSING[BELOW:]),  # the exercises' cells stand between
    ]


def chapter(cells: list, path: Path = CHAPTERS / "90_good.ipynb") -> Chapter:
    notebook = new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))
    code = [cell for cell in cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = cell.execution_count or count
    for index, cell in enumerate(cells):
        cell.id = content_id(f"{index}", set())
    return Chapter(path, notebook)


def html(text: str) -> list:
    return [new_output("display_data", {"text/html": text, "text/plain": "a"})]


def with_cell(cell) -> list:
    """The good notebook with this cell behind the printing one, and prose after it."""
    cells = good()
    return [*cells[:4], new_markdown_cell("And now this:"), cell, *cells[4:]]


def code(source: str = "x = 1", tags: tuple = (), **more) -> list:
    return with_cell(new_code_cell(source, metadata={"tags": list(tags)} if tags else {}, **more))


def text(source: str) -> list:
    return with_cell(new_markdown_cell(source))


ASKED = """**Predict.** How many?

<details><summary>Answer: how-many</summary>

**3 of them** (2 to 4 counts). We count them.

- *above 4.* You may count some of them twice, as is easily done.

</details>"""


def asked(told: dict, text: str = ASKED) -> list:
    """A prediction with this key, whose answer is not computed before the cell below."""
    cell = new_markdown_cell(text or "**Predict.** How many?")
    cell.metadata["predict"] = told
    return [*with_cell(cell)[:-2], new_code_cell("x = 3; 2, 4"), *with_cell(cell)[-2:]]


def opening(old: str, new: str) -> list:
    assert old in OPENING
    return [new_markdown_cell(OPENING.replace(old, new)), *good()[1:]]


def closing(old: str, new: str) -> list:
    assert old in CLOSING
    return [*good()[:4], new_markdown_cell("It printed 3.5.\n\n" + CLOSING.replace(old, new))]


def long_cell(n: int) -> str:
    return "\n".join(f"x{i} = {i}" for i in range(n))


def folded_then(source: str, said: str = "And now this:") -> list:
    """A folded cell that defines `hidden`, then text, then visible code."""
    folded = new_code_cell("hidden = 1", metadata={"tags": ["hide-input"]})
    cells = [new_markdown_cell("Look:"), folded, new_markdown_cell(said), new_code_cell(source)]
    return [*good()[:4], *cells, *good()[4:]]


BAD = [
    ("names_are_met_before_they_are_used", folded_then("x = hidden + 1"), "say in the text"),
    ("names_are_met_before_they_are_used", folded_then("def f():\n    return hidden"), "hidden"),
    ("executed_in_order", code(execution_count=7), "run `make chapters`"),
    (
        "no_error_and_no_warning_is_stored",
        code(outputs=[new_output("error", ename="KeyError", evalue="a", traceback=[])]),
        "stores KeyError",
    ),
    (
        "no_error_and_no_warning_is_stored",
        code(outputs=[new_output("stream", name="stderr", text="warned")]),
        "wrote to stderr",
    ),
    ("metadata_is_clean", with_cell(new_code_cell(metadata={"execution": {}})), "['execution']"),
    ("metadata_is_clean", code(tags=("nbval-ignore",)), "unknown tags"),
    ("first_code_cell_is_the_bootstrap", [*good()[:1], *good()[2:]], "make address"),
    ("imports_stand_in_the_first_code_cell", code("import sys"), "import sys"),
    ("imports_stand_in_the_first_code_cell", code("def f():\n    import os"), "import os"),
    ("prose_leads_code", [new_code_cell("1"), *good()], "opens a section with code"),
    (
        "prose_leads_code",
        [*good()[:2], new_markdown_cell("## Bare"), *good()[3:]],
        "opens a section with code",
    ),
    (
        "prose_leads_code",
        [*good()[:4], new_code_cell("1"), new_code_cell("2"), *good()[4:]],
        "third code cell in a row",
    ),
    ("cells_are_short", code(long_cell(21)), "tag `long`"),
    ("cells_are_short", code(long_cell(31), tags=("long",)), "cut it in two"),
    ("cells_are_short", code(long_cell(51), tags=("hide-input",)), "cut it in two"),
    ("names_have_one_meaning", code("def f(): ...\n\ndef f(): ..."), "'f'"),
    ("names_have_one_meaning", code("def math(): ..."), "'math'"),
    ("names_have_one_meaning", code("class sum: ..."), "'sum'"),
    (
        "names_have_one_meaning",
        with_cell(new_code_cell("import os\n\nfor os in 'ab': ...")),
        "'os'",
    ),
    ("ignored_outputs_are_asserted", code(tags=("nbval-ignore-output",)), "assert in it"),
    (
        "measurements_are_asserted",
        code("# The measurement: one\nx = 1", outputs=[new_output("stream", text="1\n")]),
        "assert what the text says of it",
    ),
    (
        "figures_have_alternative_text",
        code(outputs=[new_output("display_data", {"image/png": "", "text/plain": "a"})]),
        "image/png",
    ),
    ("figures_have_alternative_text", code(outputs=html("<svg></svg>")), "alternative text"),
    ("figures_have_alternative_text", code(outputs=html('<img alt=" ">')), "alternative text"),
    (
        "figures_have_alternative_text",
        code(outputs=html(FIGURE + '<svg role="img"></svg>')),
        "alternative text",
    ),
    ("moving_figures_are_stored_in_the_pages_form", code("explore(f)"), "stores no page"),
    (
        "moving_figures_are_stored_in_the_pages_form",
        code(
            outputs=[new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})]
        ),
        "live widget",
    ),
    ("exercises_are_in_step_with_their_files", code(tags=("exercise",)), "make exercises ONLY="),
    ("plain_markdown", text("See {ref}`this`."), "a role"),
    ("plain_markdown", text("```{note}\na\n```"), "a directive"),
    ("plain_markdown", text(":::{tip}\na\n:::"), "a directive"),
    ("plain_markdown", text("(here)=\n## A"), "a target"),
    ("formulas_hold_no_list", text("so $a\n- b$ is"), "break the line elsewhere"),
    ("links_lead_somewhere", text("[A](cite:nobody1900)"), "cite:nobody1900"),
    ("links_lead_somewhere", text("[a](term:bits-per-bite)"), "near it: ['bits-per-byte'"),
    ("links_lead_somewhere", text("[a](99_nothing.ipynb)"), "leads nowhere"),
    ("links_lead_somewhere", text("[a](#nowhere)"), "not a heading"),
    ("links_lead_somewhere", text("![a](https://example.org/a.png)"), "another host"),
    ("links_lead_somewhere", text("![a](attachment:a.png)"), "does not belong"),
    ("has_one_title", text("# Another"), "Another"),
    ("opens_as_every_chapter", opening("# 90. A", "# 9. A"), "'# 90. Title'"),
    ("opens_as_every_chapter", opening("We count to ten.", "- count"), "promise"),
    ("opens_as_every_chapter", opening("What you need", "Needed"), "what you need"),
    ("opens_as_every_chapter", opening("- count", "- count\n" * 6), "6 outcomes"),
    (
        "opens_as_every_chapter",
        opening("0 minutes to read; the cells run in a second", "no time"),
        "how long",
    ),
    ("closes_as_every_chapter", closing("## Where next", "## Next"), "closing sections"),
    ("closes_as_every_chapter", closing("## Where next", "## Exercises"), "closing sections"),
    ("closes_as_every_chapter", closing("## Where", "## More\n\na\n\n## Where"), "among or after"),
    (
        "closes_as_every_chapter",
        closing("## Summary", "## Going further: ten\n\na\n\n## Summary"),
        "right before '## Exercises'",
    ),
    (
        "closes_as_every_chapter",
        closing("## Exercises", "## Going further: a\n\na\n\n" * 3 + "## Exercises"),
        "3 sections 'Going further'; expected at most two",
    ),
    ("says_how_long_it_takes", opening("0 minutes", "40 minutes"), "counted: 0"),
    ("is_light", text("word " * 180 * 39), "minutes: 39, at most 37"),
    ("is_light", code("x = 1\n" * 26), "longest cell: 26"),
    ("is_light", code("x = " + "1" * 90), "wider than 80 columns: cell 5: 94 columns"),
    ("closes_as_every_chapter", closing("- We counted.", "- We counted.\n" * 6), "6 points"),
    ("predictions_are_in_form", asked({}), "belong together"),
    ("predictions_are_in_form", asked({"key": "x"}, text=""), "belong together"),
    ("predictions_are_in_form", asked({"key": {"a": "x"}}), "the key of a number"),
    ("predictions_are_in_form", asked({"key": "min(3, 5)"}), "names nothing"),
    (
        "predictions_are_in_form",
        asked({"key": "x"}, text=ASKED.replace("3 of them", "some")),
        "stands as",
    ),
    (
        "numbers_survive_another_processor",
        code(outputs=[new_output("stream", name="stdout", text="0.12345678")]),
        "0.12345678",
    ),
    (
        "no_number_is_rounding",
        code(outputs=[new_output("stream", name="stdout", text="largest difference 2e-16")]),
        "stores 2e-16",
    ),
    ("no_assertion_depends_on_time", code("assert time.time() > 1"), "time.time() > 1"),
    ("unfounded", text("It is 4.25 bits."), "'4.25' was not computed"),
]


@pytest.mark.parametrize(
    "rule", [r for r in RULES if r.__name__ != "the_file_is_small"], ids=lambda r: r.__name__
)
def test_a_good_notebook_passes(rule):
    assert rule(chapter(good())) == []


@pytest.mark.parametrize(("name", "cells", "says"), BAD)
def test_a_notebook_that_breaks_the_rule_is_told_so(name, cells, says):
    rule = next(rule for rule in RULES if rule.__name__ == name)
    complaints = rule(chapter(copy.deepcopy(cells)))
    assert len(complaints) == 1
    assert says in complaints[0]


def test_a_folded_cell_may_be_longer():
    assert rules_code.cells_are_short(chapter(code(long_cell(50), tags=("hide-input",)))) == []


@pytest.mark.parametrize(
    "cells", [folded_then("x = hidden", "`hidden` is 1:"), folded_then("hidden = 2; x = hidden")]
)
def test_a_name_that_the_text_has_said_or_the_cell_makes_is_met(cells):
    assert not rules_names.names_are_met_before_they_are_used(chapter(cells))


def test_every_rule_says_in_one_line_what_it_holds():
    for rule in (*RULES, rules_code.defined_in_two_notebooks):
        first = (rule.__doc__ or "").strip().splitlines()[0]
        assert re.fullmatch(r"[A-Z].*\.", first), rule.__name__


def test_every_rule_is_proved_to_fail():
    proved = {name for name, _, _ in BAD} | {"the_file_is_small"}
    assert {rule.__name__ for rule in RULES} == proved


def test_cell_ids_that_stand_twice_are_refused():
    made = chapter(good())
    made.cells[2].id = made.cells[0].id
    assert "stand twice" in rules_code.metadata_is_clean(made)[0]


def test_a_large_file_is_refused(tmp_path):
    path = tmp_path / "90_large.ipynb"
    path.write_bytes(b"0" * (rules_code.MAX_BYTES + 1))
    assert "thin out" in rules_code.the_file_is_small(chapter(good(), path))[0]
    path.write_bytes(b"0" * rules_code.MAX_BYTES)
    assert rules_code.the_file_is_small(chapter(good(), path)) == []


def test_a_definition_in_two_notebooks_is_refused():
    one = chapter(code("def rise(): ..."), Path("91_one.ipynb"))
    two = chapter(code("def rise(): ..."), Path("92_two.ipynb"))
    assert "91_one and 92_two" in rules_code.defined_in_two_notebooks([one, two])[0]
    assert rules_code.defined_in_two_notebooks([one, chapter(good())]) == []


def test_an_exercises_own_cells_are_found_in_step():
    path = CHAPTERS / "07_backprop.ipynb"
    made = chapter(good(), path)
    assert rules_code.exercises_are_in_step_with_their_files(made)
    rules_code.render(made.notebook, rules_code.of_chapter(path))
    assert rules_code.exercises_are_in_step_with_their_files(made) == []
    starter = next(cell for cell in made.cells if cell.id.endswith("-starter"))
    starter.source += "\n# edited"
    assert rules_code.exercises_are_in_step_with_their_files(made)


def test_an_error_is_allowed_where_the_cell_says_so():
    output = new_output("error", ename="KeyError", evalue="a", traceback=[])
    made = chapter(code(tags=("raises-exception",), outputs=[output]))
    assert rules_code.no_error_and_no_warning_is_stored(made) == []


def test_a_magic_is_no_syntax_error():
    made = chapter(code("for _ in range(2):\n    %time f()\n!ls"))
    assert rules_code.imports_stand_in_the_first_code_cell(made) == []


def test_glossary_and_bibliography_are_read():
    assert {"bit", "Jacobian"} <= rules_text.glossary()
    assert "shannon1948" in rules_text.bibliography()


def test_good_notebook_is_valid_for_jupyter():
    nbformat.validate(chapter(good()).notebook)


# ---- numbers and times -------------------------------------------------------------------------


def printed(text: str, *tags: str) -> list:
    return code(outputs=[new_output("stream", name="stdout", text=text)], tags=tags)


def moving(data: str) -> list:
    script = f'<figure><script type="application/json">{data}</script></figure>'
    return code(outputs=html(script))


@pytest.mark.parametrize(
    "text",
    [
        "1.5289424e-03",
        "9602457413351.",
        "2,986,103 numbers",
        "3\u202f809\u202f486",
        "[0.30597570538]",
    ],
)
def test_a_number_with_too_many_digits_is_found(text):
    complaints = rules_numbers.numbers_survive_another_processor(chapter(printed(text)))
    assert len(complaints) == 1
    assert "exact-numbers" in complaints[0]
    exact = chapter(printed(text, "exact-numbers"))
    assert rules_numbers.numbers_survive_another_processor(exact) == []


@pytest.mark.parametrize(
    "text",
    ["0.123456", "1.23457e+13", "38,400,000", "0.50000000", "1e-16", "1, 22, 333", "v1.2.3456789x",
     "(12.5, 0.001234)", "0x7f12345678"],
)  # fmt: skip
def test_a_number_that_survives_is_left_alone(text):
    assert rules_numbers.numbers_survive_another_processor(chapter(printed(text))) == []


@pytest.mark.parametrize(
    "text",
    ["largest difference 2e-16", "off the curve by 3e-07 nats", "error 2.5e-11", "it is 9e-10",
     "the sum\n1e-17"],
)  # fmt: skip
def test_a_number_that_is_rounding_is_found(text):
    complaints = rules_numbers.no_number_is_rounding(chapter(printed(text)))
    assert len(complaints) == 1
    assert "below 1e-12" in complaints[0]
    assert rules_numbers.no_number_is_rounding(chapter(printed(text, "tiny-numbers"))) == []


@pytest.mark.parametrize(
    "text",
    ["differences below 1e-11", "all logits equal to 1e-10", "<1e-14  <1e-14", "slope 6e-05",
     "off by more than 1.5e-08", "1e-08 is 0 in fp16", "an error of 3e-04", "of 1e+20"],
)  # fmt: skip
def test_a_bound_and_a_small_number_that_survives_are_left_alone(text):
    assert rules_numbers.no_number_is_rounding(chapter(printed(text))) == []


@pytest.mark.parametrize(
    "data",
    [
        '{"q": [[0.07664429396390915]]}',
        '{"alts": ["the largest on the way 9602457413351."]}',
        '{"lines": ["<text x=\\"3\\">322473026156383<\\/text>"]}',
    ],
)
def test_a_number_inside_a_moving_figure_is_found(data):
    assert rules_numbers.numbers_survive_another_processor(chapter(moving(data)))


def test_the_indices_and_drawings_of_a_moving_figure_are_no_numbers_to_read():
    data = '{"frames": [[0, 10, 36, 37], [123, 456, 789]], "lines": ["<path d=\\"1.2345678\\"/>"]}'
    assert rules_numbers.numbers_survive_another_processor(chapter(moving(data))) == []


def test_a_number_in_an_alternative_text_is_found():
    figure = '<svg role="img" aria-label="up to 9602457413351"><text>3</text></svg>'
    made = chapter(code(outputs=html(figure)))
    assert rules_numbers.numbers_survive_another_processor(made)


TIMER = "start = time.perf_counter()\nf()\nspent = time.perf_counter() - start\n"


@pytest.mark.parametrize(
    "source",
    [
        TIMER + "assert spent < 2",
        TIMER + "ratio = spent / 3\nassert ratio < 10, 'slow'",
        "times = []\nfor _ in range(3):\n    begin = time.process_time()\n    f()\n"
        "    times.append(time.process_time() - begin)\nassert min(times) < 1",
        "def seconds(f):\n    begin = time.monotonic_ns()\n    f()\n"
        "    return time.monotonic_ns() - begin\nassert seconds(f) < seconds(g)",
        "taken = {}\ntaken['a'] = time.time()\nrest = taken\nassert rest['a'] > 1",
    ],
)
def test_an_assertion_on_a_time_is_found(source):
    complaints = rules_numbers.no_assertion_depends_on_time(chapter(code(source)))
    assert len(complaints) == 1
    assert "busy machine" in complaints[0]


@pytest.mark.parametrize(
    "source",
    [
        TIMER + "print(spent)\nassert f() == 3",
        TIMER + "spent = 3\nassert spent == 3",
        "def f():\n    begin = time.time()\n    print(begin)\n    return 1\nassert f() == 1",
        "def f():\n    start = time.perf_counter()\n    return 1\nstart = 2\nassert start == 2",
        "time = 3\nassert time == 3",
    ],
)
def test_an_assertion_on_something_else_is_left_alone(source):
    assert rules_numbers.no_assertion_depends_on_time(chapter(code(source))) == []
