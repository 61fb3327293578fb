"""What `make test-colab` runs: all of what has changed, and of the rest the set-up cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from book.tools.notebooks import CHAPTERS, ROOT, chapter_paths, colab, read


def test_of_chapters_that_have_not_changed_the_set_up_cells_run_one_after_the_other():
    notebooks = [read(path) for path in chapter_paths()]
    sources = [cell.source for cell in colab.set_up_cells(notebooks).cells]
    assert len(sources) == len(notebooks)
    assert all(source.startswith("try:\n    import unrolled_book\n") for source in sources)


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
    code = ["from unrolled.training.fit import fit\nfrom unrolled_book.check import check"]
    files = {
        f.relative_to(ROOT).as_posix()
        for f in colab.library_files(CHAPTERS / "07_backprop.ipynb", code)
    }
    book = "book/teaching/unrolled_book"
    library = {f"lib/unrolled/training/{name}.py" for name in ("fit", "checkpoint")}
    assert library | {f"{book}/check.py", f"{book}/exercises/engine/form.py"} <= files
    assert f"{book}/exercises/c07_backprop/softmax_vjp.py" in files
    assert not any("c09_rnn" in name or "ngram" in name for name in files)
    drawn = colab.library_files(
        CHAPTERS / "07_backprop.ipynb", ["import unrolled_book.moving.explore"]
    )
    assert ROOT / book / "moving" / "explore.js" in drawn


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
