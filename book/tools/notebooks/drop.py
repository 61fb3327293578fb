"""Take a chapter out of the book whole; then `make pages` renews what is generated.

    python -m book.tools.notebooks.drop NAME

Out go its notebook, its exercises (from the syllabi, too), its cards, what its students believe,
its line in `_toc.yml` and its number in the paths; then the sources and the terms that nothing else
links to. Links to it become plain words, and what still speaks of it is listed: read it again.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml
from sphinx.util.nodes import _make_id

from book.tools.notebooks import ROOT, chapter_paths, number, read, write
from book.tools.notebooks.links import short
from book.tools.notebooks.weight import state_minutes

TEACHING = Path("book/teaching/unrolled_book")
SYLLABI = TEACHING / "coursework" / "syllabi"
GENERATED = ("book/map.md", "book/instructors.md")  # from the chapters: they are no users of a term
TEXTS = ("index.md", "book/*.md", "book/**/*.toml", "book/**/*.py")


def drop(stem: str, root: Path = ROOT, *, elsewhere: str = "") -> None:
    """Take the chapter out. ValueError, before anything is changed, where a part would be empty.

    elsewhere: the address of a book that has the chapter: links to it lead there, and parts without
    chapters go, as do weeks without exercises.
    """
    contents = without_line((root / "_toc.yml").read_text("utf8"), stem, parts=bool(elsewhere))
    notebook = root / "chapters" / f"{stem}.ipynb"
    gone = short(notebook.read_text("utf8"))
    (root / "_toc.yml").write_text(contents, "utf8")
    notebook.unlink()
    (root / "book" / "cards" / f"{stem}.toml").unlink(missing_ok=True)
    shutil.rmtree(root / TEACHING / "exercises" / f"c{stem}", ignore_errors=True)
    plain = lambda text: unlinked(text, stem, elsewhere)  # noqa: E731
    for path in texts(root):
        _edit(path, plain)
    for path in sorted((root / "chapters").glob("*.ipynb")):
        _edit_prose(path, plain)
    belief, n = rf"^\[\[{stem}\]\]\n(?:(?!\[\[).*\n)*", number(stem)
    _edit(root / "book/misconceptions.toml", lambda t: re.sub(belief, "", t, flags=re.M))
    _edit(root / "book/paths.toml", lambda t: re.sub(rf'"{n}", |, "{n}"|"{n}"', "", t))
    for path in (root / SYLLABI).glob("*.toml"):
        _edit(path, lambda t: re.sub(rf'^.*"c{stem}/.*\n', "", t, flags=re.M))
        if elsewhere:
            _edit(path, without_empty_weeks)
    _edit(root / "book/tests/queries.toml", lambda t: without_answers(t, stem))
    _edit(root / "book/tools/notebooks/colab.json", lambda t: without_key(t, stem))
    used = short("\n".join(p.read_text("utf8") for p in (*texts(root), *_notebooks(root))
                           if str(p.relative_to(root)) not in GENERATED))  # fmt: skip
    for kind, file, cut in (("cite", "references.bib", without_source),
                            ("term", "glossary.md", without_term)):  # fmt: skip
        for key in sorted(set(re.findall(rf"\({kind}:([\w-]+)\)", gone))):
            if f"({kind}:{key})" not in used:
                _edit(root / "book" / file, lambda text, cut=cut, key=key: cut(text, key))


def texts(root: Path) -> list[Path]:
    """The files of prose and of code that may link to a chapter; notebooks stand beside."""
    return sorted({path for pattern in TEXTS for path in root.glob(pattern)})


def _notebooks(root: Path) -> list[Path]:
    return sorted((root / "chapters").glob("*.ipynb"))


def _edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text("utf8")
    if (after := change(before)) != before:
        path.write_text(after, "utf8")


def _edit_prose(path: Path, change: Callable[[str], str]) -> None:
    """Change a notebook's Markdown, and count its minutes again if that changed anything."""
    notebook = read(path)
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    before = [cell.source for cell in prose]
    for cell in prose:
        cell.source = change(cell.source)
    if before != [cell.source for cell in prose]:
        state_minutes(notebook)
        write(notebook, path)


def unlinked(text: str, stem: str, elsewhere: str = "") -> str:
    """The text with its links to the chapter as plain words, or to its page elsewhere."""
    target = rf"(?:[\w./-]*/)?{stem}\.(?:ipynb|html)(#[\w-]*)?"
    if elsewhere:
        page = rf"{elsewhere}chapters/{stem}.html"
        text = re.sub(rf"\]\({target}\)", lambda m: f"]({page}{m[1] or ''})", text)
        return re.sub(rf'href="{target}"', lambda m: f'href="{page}{m[1] or ""}"', text)
    text = re.sub(rf"\[((?:[^\[\]\\]|\\.)*)\]\({target}\)", r"\1", text)
    return re.sub(rf'<a [^>]*href="{target}"[^>]*>(.*?)</a>', r"\2", text, flags=re.DOTALL)


def without_line(contents: str, stem: str, *, parts: bool = False) -> str:
    """`_toc.yml` without the chapter. ValueError where that would leave a hole in it.

    parts: a part goes with its last chapter.
    """
    for part in yaml.safe_load(contents)["parts"]:
        for entry in part["chapters"]:
            if entry["file"] != f"chapters/{stem}":
                continue
            if below := entry.get("sections"):
                first = below[0]["file"].removeprefix("chapters/")
                raise ValueError(f"{first} stands below {stem} in _toc.yml: drop it first")
            if len(part["chapters"]) == 1 and parts:
                caption = rf"^ *- caption: {re.escape(part['caption'])}\n *chapters:\n"
                contents = re.sub(caption, "", contents, flags=re.MULTILINE)
            elif len(part["chapters"]) == 1:
                raise ValueError(f"{part['caption']!r} would have no chapter: mend _toc.yml first")
    line = rf"^ *- file: chapters/{stem}\n"
    contents, n = re.subn(line, "", contents, flags=re.MULTILINE)
    if n != 1:
        raise ValueError(f"_toc.yml has {n} lines '- file: chapters/{stem}', expected one")
    return re.sub(r"^( *)sections:\n(?!\1 +- )", "", contents, flags=re.MULTILINE)


def without_empty_weeks(syllabus: str) -> str:
    """A syllabus without the weeks that have no exercise left; their questions go with them."""
    weeks = re.split(r"^(?=\[\[weeks\]\]$)", syllabus, flags=re.MULTILINE)
    empty = re.compile(r"^exercises = \[\s*\]$", re.MULTILINE)
    return "".join(week for week in weeks if not empty.search(week))


def without_answers(queries: str, stem: str) -> str:
    """The questions of the search without the chapter's sections, and those that it alone had."""
    queries = re.sub(rf', "{stem}(?:#[\w-]*)?"|"{stem}(?:#[\w-]*)?"(?:, )?', "", queries)
    return re.sub(r"^.* = \[\]\n", "", queries, flags=re.MULTILINE)


def without_key(record: str, stem: str) -> str:
    """A record in JSON without what it keeps of the chapter."""
    found = json.loads(record)
    for inner in (found, *(value for value in found.values() if isinstance(value, dict))):
        inner.pop(stem, None)
    return json.dumps(found, indent=1) + "\n"


def without_source(bibliography: str, key: str) -> str:
    return re.sub(rf"^@\w+\{{{key},\n(?:(?!\}}).*\n)*\}}\n", "", bibliography, flags=re.MULTILINE)


def without_term(glossary: str, key: str) -> str:
    """The glossary without the entry whose one name has this key."""
    entry = r"(?:(?<=\n\n)|(?<=glossary\}\n))(\S.*)\n(?:  .*\n)+\n?"
    return re.sub(entry, lambda found: "" if _make_id(found[1]) == key else found[0], glossary)


def left(stem: str, root: Path = ROOT) -> list[str]:
    """What still speaks of the chapter: lines of prose and code, and weeks that ask nothing now."""
    said = re.compile(rf"{stem}|\b{re.escape(number(stem))}\b(?![-.,]\d)")
    found = []
    for path in texts(root):
        for i, line in enumerate(path.read_text("utf8").splitlines(), 1):
            pattern = (
                said if path.suffix == ".md" else re.compile(rf"{stem}|chapter {number(stem)}\b")
            )
            if pattern.search(line) and str(path.relative_to(root)) not in GENERATED:
                found.append(f"{path.relative_to(root)}:{i}: {line.strip()[:90]}")
    for path in _notebooks(root):
        for i, cell in enumerate(read(path).cells):
            lines = [line for line in cell.source.splitlines() if said.search(line)]
            if cell.cell_type == "markdown" or stem in cell.source:
                found += [f"chapters/{path.name}, cell {i}: {line.strip()[:90]}" for line in lines]
    for path in sorted((root / SYLLABI).glob("*.toml")):
        for week in tomllib.loads(path.read_text("utf8"))["weeks"]:
            if not week["exercises"]:
                found.append(f"{path.relative_to(root)}: {week['name']} asks for nothing now")
    return found


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 1
    stem = chapter_paths(sys.argv[1:])[0].stem
    try:
        drop(stem)
    except ValueError as error:
        print(f"drop: {error}")
        return 1
    print(f"drop: {stem} is out of the book")
    if lines := left(stem):
        print("drop: these still speak of it; read them again:", *lines, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
