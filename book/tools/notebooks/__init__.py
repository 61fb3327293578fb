"""What the tools share: where the chapters are, a notebook's one clean form, a copy of the tree."""

from __future__ import annotations

import copy
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from book.tools.notebooks.links import ROOT, short, whole

CHAPTERS = ROOT / "chapters"
# The two packages, and where they lie.
PACKAGES = {"unrolled": ROOT / "lib", "unrolled_book": ROOT / "book" / "teaching"}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
KEPT = ("tags", "predict", "slide")  # of a cell's metadata


def chapter_paths(names: Iterable[str] = ()) -> list[Path]:
    """The notebooks named (paths, or beginnings such as 07), or all, in the book's order."""
    everything = sorted(CHAPTERS.glob("[0-9]*.ipynb"))
    return [_find(name, everything) for name in names] or everything


def published() -> list[Path]:
    """The chapters that are in the book, in its order: all but the drafts."""
    return [path for path in chapter_paths() if not is_draft(read(path))]


def is_draft(notebook: NotebookNode) -> bool:
    """Whether the notebook says that it is not in the book yet."""
    return bool(notebook.metadata.get("draft"))


def number(stem: str) -> str:
    """A chapter's number as it is shown: '3' of 03_perplexity, '2b' of 02b_smoothing."""
    found = re.match(r"c?0*(\d+[a-z]?)_", stem)
    if not found:
        raise ValueError(f"a chapter is named like 03_perplexity or 02b_smoothing, not {stem!r}")
    return found[1]


def copy_of_the_tree(work: Path) -> Path:
    """What git tracks, copied to `work/tree`: what is changed there changes nothing here."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, names.stdout.decode().split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, tree / name)
    return tree


def _find(name: str, everything: list[Path]) -> Path:
    if name.endswith(".ipynb"):
        return Path(name)
    exact = [path for path in everything if path.stem.startswith(f"{name}_")]  # 16, beside 16b
    found = exact or [path for path in everything if path.stem.startswith(name)]
    if len(found) != 1:
        raise SystemExit(f"{name!r} names {len(found)} of {[p.stem for p in everything]}")
    return found[0]


def read(path: Path) -> NotebookNode:
    """The notebook, in nbformat 4.5 or newer (with cell ids), its links to sources short."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = short(cell.source)
    return notebook


def write(notebook: NotebookNode, path: Path) -> bool:
    """Clean and write the notebook; whether the file changed."""
    text = whole_text(notebook)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def whole_text(notebook: NotebookNode) -> str:
    """What stands on disk: the clean notebook with whole addresses; its cells keep short ones."""
    on_disk = copy.deepcopy(clean(notebook))
    for cell in on_disk.cells:
        if cell.cell_type == "markdown":
            cell.source = whole(cell.source)
    return nbformat.writes(on_disk) + "\n"


def clean(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs from machine to machine; changed in place.

    The metadata becomes METADATA, with the mark of a draft if there is one; of a cell's metadata
    only the tags, the key of a prediction and what stands on a slide stay; outputs lose their
    metadata, and neighbouring pieces of one stream become one.
    """
    draft = {"draft": True} if is_draft(notebook) else {}
    notebook.metadata = nbformat.from_dict(METADATA | draft)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        kept = {name: cell.metadata[name] for name in KEPT if cell.metadata.get(name)}
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    _fix_ids(notebook)
    nbformat.validate(notebook)
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    joined: list[NotebookNode] = []
    for output in outputs:
        output.pop("transient", None)
        if "metadata" in output:
            output.metadata = nbformat.from_dict({})
        last = joined[-1] if joined else None
        if last and output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _fix_ids(notebook: NotebookNode) -> None:
    seen: set[str] = set()
    for cell in notebook.cells:
        if not cell.get("id") or cell.id in seen:
            cell.id = content_id(cell.source, seen)
        seen.add(cell.id)


def content_id(source: str, seen: set[str]) -> str:
    """An id that depends on the cell's text alone, so that a second conversion gives the same."""
    for n in range(1000):
        digest = hashlib.sha256(f"{n}:{source}".encode()).hexdigest()[:8]
        if digest not in seen:
            return digest
    raise AssertionError("a thousand equal cells")


def tags(cell: NotebookNode) -> list[str]:
    """The cell's tags."""
    return list(cell.metadata.get("tags", []))
