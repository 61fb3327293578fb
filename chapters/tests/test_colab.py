"""What `make test-colab` runs: all of what has changed, and of the rest what is quick."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from book.tools.notebooks import CHAPTERS, ROOT, chapter_paths, colab, read
from book.tools.notebooks.slices import figure_cells, needed
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

FIGURE = [new_output("display_data", {"text/html": "<figure><svg></svg></figure>"})]
SOURCES = [
    "import math",  # 0
    "model = [1.0]\nother = 3",  # 1
    "def double(x):\n    return 2 * x",  # 2
    "other = 4",  # 3
    "model.append(2.0)",  # 4
    "slow = other ** 2",  # 5
    "draw(double(model))",  # 6, a figure
    "draw(slow)",  # 7, a figure
]


@pytest.fixture
def notebook():
    cells = [new_code_cell(source, id=f"c{i}") for i, source in enumerate(SOURCES)]
    cells[6].outputs = cells[7].outputs = FIGURE
    return new_notebook(cells=cells)


def test_a_cell_needs_the_set_up_what_binds_its_names_and_what_changed_them(notebook):
    assert figure_cells(notebook) == [6, 7]
    assert needed(notebook, [6]) == [0, 1, 2, 4, 6]
    assert needed(notebook, [7]) == [0, 3, 5, 7], "the value bound last, not the first one"
    assert needed(notebook, []) == [0]
    notebook.cells.insert(0, new_markdown_cell("# A title"))
    assert needed(notebook, [7]) == [1, 2, 3, 5, 7]


def test_a_part_that_is_assigned_and_a_call_change_a_value():
    sources = ["import a", "x = {}", "x['a'] = 1", "fit(x)", "y = x", "draw(x)"]
    made = new_notebook(cells=[new_code_cell(source) for source in sources])
    assert needed(made, [5]) == [0, 1, 2, 3, 5]


def test_the_quick_figures_are_those_within_the_time(notebook):
    def kept(seconds):
        return [cell.id for cell in colab.reduced(notebook, seconds).cells]

    assert kept({}) == ["c0", *(f"c{i}" for i in range(1, 8))]
    assert kept({"c5": 10.0}) == ["c0", "c1", "c2", "c4", "c6"]
    assert kept({"c0": 9.0, "c2": 2.0, "c5": 2.0}) == ["c0", "c3", "c5", "c7"], "together in time"
    assert kept({"c4": 10.0, "c7": 10.0}) == ["c0"]


def test_every_chapter_has_its_set_up_cell_at_least():
    for path in chapter_paths():
        notebook = read(path)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        slow = {cell.id: 1000.0 for cell in notebook.cells if cell.id != first.id}
        assert [cell.id for cell in colab.reduced(notebook, slow).cells] == [first.id]


def test_the_digest_follows_the_code_the_library_and_the_pins(monkeypatch):
    path = CHAPTERS / "07_backprop.ipynb"
    notebook = read(path)
    before = colab.digest(path, notebook)
    assert colab.digest(path, read(path)) == before
    notebook.cells[0].source += " more prose"
    assert colab.digest(path, notebook) == before
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += "\nx = 1"
    assert colab.digest(path, notebook) != before
    monkeypatch.setattr(colab, "_torch", lambda: "torch==9")
    assert colab.digest(path, read(path)) != before


def test_a_chapters_part_of_the_library_is_what_it_imports_and_what_that_imports():
    code = ["from unrolled.training.fit import fit\nfrom unrolled.teaching.check import check"]
    files = {
        str(f.relative_to(colab.LIBRARY))
        for f in colab.library_files(CHAPTERS / "07_backprop.ipynb", code)
    }
    assert {"training/fit.py", "training/checkpoint.py", "teaching/check.py"} <= files
    assert "teaching/exercises/engine/form.py" in files
    assert "teaching/exercises/c07_backprop/softmax_vjp.py" in files
    assert not any("c09_rnn" in name or "ngram" in name for name in files)
    drawn = colab.library_files(
        CHAPTERS / "07_backprop.ipynb", ["import unrolled.teaching.moving.explore"]
    )
    assert colab.LIBRARY / "teaching" / "moving" / "explore.js" in drawn


def test_the_committed_record_names_chapters_that_are_there():
    stems = {path.stem for path in chapter_paths()}
    assert set(colab.known(colab.RECORD)) <= stems, "renew it with: make test-colab-all"
    assert colab.RECORD.is_relative_to(ROOT)


def test_the_longest_chapters_start_first_and_new_ones_before_them(tmp_path, monkeypatch):
    record = {"01_a": [1.0, 2.0], "02_b": [], "07_c": [9.0]}
    entries = {stem: {"seconds": dict(enumerate(times))} for stem, times in record.items()}
    (tmp_path / "colab.json").write_text(json.dumps(entries), "utf8")
    monkeypatch.setattr(colab, "RECORD", tmp_path / "colab.json")
    given = [Path(f"{stem}.ipynb") for stem in (*record, "09_new")]
    assert [path.stem for path in colab.longest_first(given)] == ["09_new", "07_c", "01_a", "02_b"]


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_the_shards_part_the_chapters(n):
    parts = [path for i in range(n) for path in colab.shard(chapter_paths(), f"{i + 1}/{n}")]
    assert sorted(parts) == chapter_paths(), "each chapter in one shard, none left out"


def test_shards_take_about_the_same_time():
    record = {path.stem: 10.0 for path in chapter_paths()}  # one without a record is not that far
    record |= {stem: sum(r["seconds"].values()) for stem, r in colab.known(colab.RECORD).items()}
    times = [sum(record[p.stem] for p in colab.shard(chapter_paths(), f"{i}/3")) for i in (1, 2, 3)]
    assert max(times) < 1.2 * min(times)


@pytest.mark.parametrize("which", ["0/3", "4/3", "3", "1/0", "a/b", "-1/3"])
def test_a_shard_that_is_none_is_refused(which):
    with pytest.raises(SystemExit, match="SHARD is written 1/3"):
        colab.shard(chapter_paths(), which)
