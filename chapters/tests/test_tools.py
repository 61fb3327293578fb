"""The tools that write notebooks: twice is the same as once, and nothing else is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from book.tools.notebooks import (
    CHAPTERS,
    METADATA,
    ROOT,
    address,
    chapter_paths,
    clean,
    exercise_cells,
    is_draft,
    number,
    read,
    skeleton,
    tags,
    write,
)
from book.tools.notebooks.execute import execute, from_text, prepare, run_exercises
from book.tools.notebooks.weight import wide
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from unrolled_book import exercises

from chapter import Chapter
from rules import RULES

BACKPROP = CHAPTERS / "07_backprop.ipynb"
DRAFT = """\
# %% [markdown]
# # 7. A title

# %%
import math

# %% [markdown]
# Prose with $x^2$.

# %% tags=["nbval-ignore-output"]
x = math.sqrt(2)
print(x)

# %% [markdown]
# ## Exercises
#
# Six of them.

# %% [markdown]
# ## Where next
"""


@pytest.fixture
def draft(tmp_path) -> Path:
    path = tmp_path / "draft.py"
    path.write_text(DRAFT, encoding="utf-8")
    return path


def test_a_number_names_its_chapter_and_not_the_b_chapter_beside_it():
    assert [path.stem for path in chapter_paths(["16", "16b"])] == [
        "16_multihead",
        "16b_what_heads_do",
    ]


# ---- exercises ---------------------------------------------------------------------------------


def with_exercises():
    notebook = new_notebook(
        cells=[new_markdown_cell("## Exercises\n\nSix."), new_markdown_cell("## Where next")]
    )
    exercise_cells.render(notebook, exercise_cells.of_chapter(BACKPROP))
    return notebook


def test_exercises_stand_between_their_heading_and_the_next():
    notebook = with_exercises()
    n = len(exercises.chapters()["c07_backprop"])
    assert len(notebook.cells) == 2 + 4 * n
    assert notebook.cells[0].source.startswith("## Exercises")
    assert notebook.cells[-1].source == "## Where next"
    assert notebook.cells[1].source.startswith("### Exercise 7.1 · ")


def test_exercises_never_stand_under_the_heading_that_follows_theirs():
    below = "## Exercises\n\nDo them.\n\n## Sources\n\nA book."
    notebook = new_notebook(cells=[new_markdown_cell(below, id="end")])
    for _ in range(2):  # the second time nothing is left to cut
        exercise_cells.render(notebook, exercise_cells.of_chapter(BACKPROP))
        first, *middle, last = notebook.cells
        assert first.source == "## Exercises\n\nDo them."
        assert all("exercise" in tags(cell) for cell in middle)
        assert (last.source, last.id) == ("## Sources\n\nA book.", "end-below")


def test_rendering_twice_changes_nothing_and_keeps_outputs():
    notebook = with_exercises()
    check = next(cell for cell in notebook.cells if cell.id.endswith("-check"))
    check.outputs = [new_output("stream", name="stdout", text="○ not written yet\n")]
    check.execution_count = 3
    before = nbformat.writes(notebook)
    exercise_cells.render(notebook, exercise_cells.of_chapter(BACKPROP))
    assert nbformat.writes(notebook) == before


def test_an_edited_exercise_cell_is_written_afresh_without_its_output():
    notebook = with_exercises()
    check = next(cell for cell in notebook.cells if cell.id.endswith("-check"))
    source, check.source = check.source, "pass"
    check.outputs = [new_output("stream", name="stdout", text="old")]
    exercise_cells.render(notebook, exercise_cells.of_chapter(BACKPROP))
    check = next(cell for cell in notebook.cells if cell.id.endswith("-check"))
    assert (check.source, check.outputs) == (source, [])


def test_a_chapter_with_exercises_and_no_heading_is_refused():
    with pytest.raises(ValueError, match="0 headings '## Exercises'"):
        exercise_cells.render(new_notebook(), exercise_cells.of_chapter(BACKPROP))


def test_a_folder_of_ones_own_gives_its_exercises_and_says_where_they_are_checked(tmp_path):
    chapter = tmp_path / "c07_backprop"
    chapter.mkdir()
    shutil.copy(exercises.load("softmax_vjp").path, chapter)
    (chapter / "__init__.py").write_text('order = ("softmax_vjp",)\n', "utf8")
    (exercise,) = exercise_cells.of_chapter(BACKPROP, tmp_path)
    check = exercise_cells.cells(exercise, 1)[2]
    assert check.source == f'check("softmax_vjp", softmax_vjp, folder="{tmp_path}")'
    assert exercise_cells.of_chapter(BACKPROP.with_name("02_ngrams.ipynb"), tmp_path) == []


def test_no_example_is_wider_than_a_page_or_prints_digits_that_another_processor_changes():
    for slug, names in exercises.chapters().items():
        for name in names:
            for block in exercise_cells.examples(exercises.load(f"{slug}/{name}")):
                assert max(map(len, block.splitlines())) <= 80, block
                assert not re.search(r"\.\d{7}", block), block


def test_the_statement_tells_kind_level_and_points_and_the_solution_is_folded():
    exercise = exercises.load("softmax_vjp")
    text = exercise_cells.statement(exercise, 2)
    assert text.startswith("### Exercise 7.2 · Softmax backwards, without its Jacobian (code, ★★,")
    assert "softmax_vjp(np.array([[0.5, 0.25, 0.25]]), np.array([[1., 0., 0.]]))\n# np.arr" in text
    folded = exercise_cells.folded_solution(exercise)
    assert folded.startswith("<details><summary>Solution</summary>\n\n```python\ndef softmax_vjp(")
    assert folded.endswith("\n\n</details>")


# ---- address -----------------------------------------------------------------------------------

NEW = "https://github.com/ada/unfolded"


def test_the_bootstrap_takes_the_address_and_keeps_the_imports():
    notebook = new_notebook(cells=[new_markdown_cell("a"), new_code_cell("import math")])
    address.set_bootstrap(notebook, "https://github.com/x/y")
    address.set_bootstrap(notebook, NEW)
    source = notebook.cells[1].source
    assert source == address.BOOTSTRAP.format(source=NEW) + "\nimport math"
    assert len(notebook.cells) == 2


def test_every_link_of_the_readme_follows():
    text = """git clone https://github.com/x/y
[CI](https://github.com/x/y/actions), [read](https://x.github.io/y/),
[Colab](https://colab.research.google.com/github/x/y/blob/main/a.ipynb), [z](https://github.com/z)
"""
    after = address.readdress(text, NEW)
    assert after.splitlines()[0] == f"git clone {NEW}"
    assert f"{NEW}/actions" in after
    assert "https://ada.github.io/unfolded/" in after
    assert "colab.research.google.com/github/ada/unfolded/blob" in after
    assert "https://github.com/z)" in after
    assert address.readdress(after, "https://github.com/x/y") == text
    assert address.readdress("no address", NEW) == "no address"
    cited = "version: 0.1.0\nrepository-code: https://github.com/x/y\n"
    assert address.readdress(cited, NEW) == cited.replace("https://github.com/x/y", NEW)
    listed = (
        '[project.urls]\nRepository = "https://github.com/x/y"\nBook = "https://x.github.io/y/"\n'
    )
    assert f'Repository = "{NEW}"' in address.readdress(listed, NEW)
    assert 'Book = "https://ada.github.io/unfolded/"' in address.readdress(listed, NEW)


def test_a_tag_pins_what_pip_installs_and_nothing_else_and_main_takes_the_pin_away(tmp_path):
    text = (
        "git clone https://github.com/x/y\n"
        "pip install 'unrolled @ git+https://github.com/x/y#subdirectory=lib'\n"
    )
    pinned = address.readdress(text, f"{NEW}@v1.0.0")
    assert f"git+{NEW}@v1.0.0#subdirectory=lib" in pinned
    assert pinned.count("@v1.0.0") == 1
    assert address.readdress(pinned, "https://github.com/x/y") == text
    config = tmp_path / "_config.yml"
    for branch, pin in (("main", ""), ("v1.0.0", "@v1.0.0")):
        config.write_text(f"repository:\n  url: {NEW}\n  branch: {branch}\n", "utf8")
        assert address.library_source(config) == NEW + pin
    notebook = new_notebook(cells=[new_code_cell("import math")])
    address.set_bootstrap(notebook, f"{NEW}@v1.0.0")
    assert f'source = "git+{NEW}@v1.0.0"\n' in notebook.cells[0].source
    address.set_bootstrap(notebook, NEW)
    assert notebook.cells[0].source == address.BOOTSTRAP.format(source=NEW) + "\nimport math"


def test_the_configuration_is_the_one_place(tmp_path):
    config = tmp_path / "_config.yml"
    config.write_text("repository:\n  url: https://github.com/x/y.git/\n", "utf8")
    assert address.repository_url(config) == "https://github.com/x/y"
    config.write_text("title: a\n", "utf8")
    with pytest.raises(ValueError, match="no repository: url"):
        address.repository_url(config)


def test_no_other_file_names_the_address():
    """Or `make address` would leave the old one in it."""
    known = {*address.PAGES, *chapter_paths(), ROOT / "_config.yml", Path(__file__)}
    url = address.repository_url().removeprefix("https://")
    pages = address._pages(url.partition("/")[2])
    command = ["git", "grep", "-l", "-I", "-e", url, "-e", pages]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8")
    assert found.returncode in (0, 1), found.stderr
    assert {ROOT / name for name in found.stdout.splitlines()} <= known


def test_notebooks_and_readme_are_in_step_with_the_configuration():
    program = [sys.executable, "-m", "book.tools.notebooks.address", "--check"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, encoding="utf8")
    assert done.returncode == 0, done.stdout + done.stderr


# ---- execute -----------------------------------------------------------------------------------


def test_a_draft_becomes_the_same_notebook_each_time(draft):
    one, two = from_text(draft), from_text(draft)
    assert nbformat.writes(clean(one)) == nbformat.writes(clean(two))
    assert one.cells[3].metadata.tags == ["nbval-ignore-output"]
    assert len({cell.id for cell in one.cells}) == len(one.cells)


def test_a_draft_is_prepared_executed_and_written_clean(draft, tmp_path):
    path = tmp_path / "90_draft.ipynb"
    notebook = from_text(draft)
    prepare(notebook, path)
    seconds = execute(notebook, tmp_path, timeout=600)
    assert write(notebook, path)
    assert not write(read(path), path), "clean is idempotent"
    stored = read(path)
    assert stored.metadata == nbformat.from_dict(METADATA)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2]
    assert code[0].source.endswith("\n\nimport math")
    assert code[1].outputs[0].text.startswith("1.414")
    assert code[1].metadata == {"tags": ["nbval-ignore-output"]}
    assert sorted(seconds) == [1, 3]


def test_an_error_stops_the_run(draft, tmp_path):
    draft.write_text(DRAFT.replace("sqrt(2)", "sqrt(-2)"), encoding="utf-8")
    notebook = from_text(draft)
    with pytest.raises(CellExecutionError, match="ValueError"):
        execute(notebook, tmp_path, timeout=600)


def test_exercises_are_renewed_without_running_their_chapter(tmp_path):
    path = tmp_path / "01_chain_rule.ipynb"
    first = read(CHAPTERS / path.name)
    set_up = next(cell for cell in first.cells if cell.cell_type == "code")
    untouched = new_code_cell("raise RuntimeError('the chapter runs')", execution_count=2)
    cells = [set_up, untouched, new_markdown_cell("## Exercises\n\n## Where next")]
    write(new_notebook(cells=cells), path)
    assert run_exercises(path, timeout=600)
    made = read(path)
    own = [cell for cell in made.cells if "exercise" in tags(cell) and cell.cell_type == "code"]
    counts = [cell.execution_count for cell in made.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(own) + 3))
    there = {cell.id: cell.outputs for cell in first.cells if cell.cell_type == "code"}
    assert own
    for cell in own:
        assert [o.get("text") for o in cell.outputs] == [o.get("text") for o in there[cell.id]]
    assert not any(cell.outputs for cell in made.cells if cell.source == untouched.source)


def test_open_lines_that_are_too_wide_are_named(tmp_path, capsys):
    path = tmp_path / "01_a.ipynb"
    folded = new_code_cell("y = " + "1" * 90, metadata={"tags": ["hide-input"]})
    open_ = [new_code_cell("x = " + "1" * 76), new_code_cell("x = " + "1" * 77)]
    write(new_notebook(cells=[new_code_cell("import math"), folded, *open_]), path)
    assert wide([path]) == 1
    assert "01_a.ipynb, cell 3: 81 columns" in capsys.readouterr().out


def test_neighbouring_pieces_of_one_stream_are_joined():
    pieces = [new_output("stream", name=n, text=t) for n, t in ("ab", "ac", "bd")]
    for piece, name in zip(pieces, ("stdout", "stdout", "stderr"), strict=True):
        piece.name = name
    notebook = clean(new_notebook(cells=[new_code_cell("1", outputs=pieces)]))
    assert [o.text for o in notebook.cells[0].outputs] == ["bc", "d"]


# ---- skeletons ---------------------------------------------------------------------------------


@pytest.fixture
def beginning(tmp_path, monkeypatch):
    """The tool that makes drafts, working in an empty folder."""
    for name, folder in {"ROOT": ".", "CHAPTERS": "chapters", "HOME": "exercises"}.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.setattr(skeleton, name, tmp_path / folder)
    return tmp_path


def test_a_new_chapter_keeps_every_rule_as_a_draft(beginning):
    path, package = skeleton.make_chapter("90_begun")
    made = Chapter(CHAPTERS / path.name, read(path))  # its links lead out of chapters/
    small = [rule for rule in RULES if rule.__name__ != "the_file_is_small"]
    assert {rule.__name__: said for rule in small if (said := rule(made))} == {}
    assert is_draft(made.notebook)
    assert "order = ()" in package.read_text("utf8")
    assert not write(made.notebook, path), "a draft is clean, and stays a draft"
    skeleton.publish("90_begun")
    assert not is_draft(read(path))
    with pytest.raises(SystemExit, match="is there already"):
        skeleton.make_chapter("90_begun")


def test_a_new_exercise_passes_the_tests_of_exercises(beginning):
    package = beginning / "exercises" / "c01_chain_rule" / "__init__.py"
    package.parent.mkdir()
    package.write_text("order = ()\n", "utf8")
    for name in ("one", "two"):
        skeleton.make_exercise(f"c01_chain_rule/{name}")
    assert package.read_text("utf8") == 'order = ("one", "two")\n'
    program = [sys.executable, "-m", "pytest", "-q", "-x", "chapters/tests/test_exercises.py"]
    environment = os.environ | {"EXERCISES": str(beginning / "exercises")}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, encoding="utf8")
    assert done.returncode == 0, done.stdout[-2000:]


def test_an_exercise_may_begin_in_a_folder_of_ones_own(beginning):
    own = beginning / "mine"
    skeleton.make_exercise("c03_perplexity/two_tokenisers", own)
    skeleton.make_exercise("c03_perplexity/three_tokenisers", own)
    assert exercises.chapters(own) == {"c03_perplexity": ("two_tokenisers", "three_tokenisers")}
    assert exercises.load("c03_perplexity/two_tokenisers", own).points == 1
    assert not (beginning / "exercises" / "c03_perplexity").exists()


@pytest.mark.parametrize("name", ["perplexity", "3_perplexity", "03-perplexity", "c03_perplexity"])
def test_a_chapter_with_another_name_is_refused(name, beginning):
    with pytest.raises(SystemExit, match="named like 03_perplexity"):
        skeleton.make_chapter(name)


def test_an_exercise_without_its_chapter_is_refused(beginning):
    with pytest.raises(SystemExit, match="make chapter NAME=03_perplexity"):
        skeleton.make_exercise("c03_perplexity/two_tokenisers")


def test_numbers_of_chapters_are_shown_without_their_zero():
    assert [number(s) for s in ("03_a", "10_b", "02b_c", "c02b_c")] == ["3", "10", "2b", "2b"]
    with pytest.raises(ValueError, match="named like"):
        number("appendix")
