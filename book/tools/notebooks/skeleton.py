"""Make what a contributor begins with: a chapter or an exercise that passes the tests as a draft.

    python -m book.tools.notebooks.skeleton chapter 03_perplexity
    python -m book.tools.notebooks.skeleton exercise c03_perplexity/two_tokenisers [my_exercises]
    python -m book.tools.notebooks.skeleton publish 03_perplexity

A draft is a notebook whose metadata say so. It is run and tested as every chapter, but it is not in
the book yet: not in `_toc.yml`, not on the landing page's road, and it may have fewer exercises.
`publish` takes the mark away; then the tests ask for the rest, each in a sentence. An exercise may
begin in a folder of your own, which is made where it is missing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from unrolled_book.exercises import HOME

from book.tools.notebooks import CHAPTERS, ROOT, number, read, write
from book.tools.notebooks.execute import ENVIRONMENT, execute, prepare

OPENING = """\
# {number}. {title}

One sentence promises what the reader will hold at the end.

**What you need.** The chapters before this one.

Afterwards you can

- do one thing, and at most five

**Time** about 1 minutes to read; the cells run in under a minute on a laptop CPU."""
QUESTION = """\
## A question that yesterday's tool cannot answer

Say what is asked, then show the tool of the chapter before failing at it."""
CLOSING = """\
Say what was seen. Every number in prose stands in an output above it.

## What goes wrong

An exhibit: a silent mistake, and the check that catches it.

## Summary

- One point, and at most five.

## Exercises

## Where next

The chapter after this one.

## Sources

[Shannon (1948)](cite:shannon1948)"""

EXERCISE = '''\
r"""A title

Write `{name}(x)`, where `x` is an array of floats. Return the sum of its squares. (Replace all
this: the statement says what goes in, with its shape, and what comes out.)
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 1


# %% solution
def {name}(x):
    """The sum of the squares of x."""
    return float((x**2).sum())


# %% explanation
explanation = r"""
Say why the solution is right, and what the reader may take from it.
"""


# %% tests
def tests(rng):
    yield call(np.array([3.0, -4.0]), visible=True)
    for n in (5, 7):
        yield call(rng.normal(size=n))


# %% oracle
def oracle(x):
    """The same in a way that owes nothing to the solution: a literal loop."""
    total = 0.0
    for number in x.tolist():
        total += number * number
    return total


# %% wrong
wrong = {{
    "the numbers are added without being squared": swap("(x**2)", "x"),
    "the squares are averaged, where a sum is asked for": swap(".sum()", ".mean()"),
    "the numbers are cubed, where squares are asked for": swap("x**2", "x**3"),
    "only the largest of the squares is returned": swap(".sum()", ".max()"),
    "the squares are multiplied, where a sum is asked for": swap(".sum()", ".prod()"),
}}
'''
PACKAGE = '''"""Exercises of chapter {number}, {title}."""

order = ()
'''


def make_chapter(slug: str) -> list[Path]:
    """Write the draft of a chapter, run, and the package for its exercises; the files written."""
    if not re.fullmatch(r"\d\d[a-z]?_[a-z0-9_]+", slug):
        raise SystemExit(f"a chapter is named like 03_perplexity or 02b_smoothing, not {slug!r}")
    path, package = CHAPTERS / f"{slug}.ipynb", HOME / f"c{slug}" / "__init__.py"
    for file in (path, package):
        if file.exists():
            raise SystemExit(f"{file.relative_to(ROOT)} is there already")
    title = slug.partition("_")[2].replace("_", " ").capitalize()
    words = {"number": number(slug), "title": title}
    package.parent.mkdir()
    package.write_text(PACKAGE.format(**words), "utf8")
    set_up = "from unrolled_book import figures\nfrom unrolled_book.check import check\n"
    cells = [
        new_markdown_cell(OPENING.format(**words)),
        new_code_cell(set_up + "\nfigures.use_house_style()"),
        new_markdown_cell(QUESTION),
        new_code_cell("print(1 / 4)"),
        new_markdown_cell(CLOSING),
    ]
    notebook = new_notebook(cells=cells, metadata={"draft": True})
    prepare(notebook, path)
    execute(notebook, CHAPTERS, timeout=60)
    write(notebook, path)
    return [path, package]


def make_exercise(name: str, folder: str | Path = "") -> list[Path]:
    """Write an exercise that is whole but says nothing yet, last in its chapter's order."""
    slug, _, bare = name.partition("/")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", bare):
        raise SystemExit(f"an exercise is named like c03_perplexity/two_tokenisers, not {name!r}")
    room = Path(folder) / slug if folder else HOME / slug
    package, path = room / "__init__.py", room / f"{bare}.py"
    if path.exists():
        raise SystemExit(f"{_shown(path)} is there already")
    if not package.exists() and not folder:
        raise SystemExit(f"there is no {slug}; first: make chapter NAME={slug.removeprefix('c')}")
    if not package.exists():
        package.parent.mkdir(parents=True)
        package.write_text('"""Exercises of our own."""\n\norder = ()\n', "utf8")
    text = package.read_text("utf8")
    listed = re.search(r"^order = \((.*?),?\s*\)", text, re.MULTILINE | re.DOTALL)
    names = [*re.findall(r'"(\w+)"', listed[1]), bare]
    order = ", ".join(f'"{each}"' for each in names) + ("," if len(names) == 1 else "")
    line = f"order = ({order})"
    if len(line) > 100:
        line = "order = (\n" + "".join(f'    "{each}",\n' for each in names) + ")"
    package.write_text(text[: listed.start()] + line + text[listed.end() :], "utf8")
    path.write_text(EXERCISE.format(name=bare), "utf8")
    return [path, package]


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def publish(slug: str) -> list[Path]:
    """Take the mark of a draft away."""
    path = CHAPTERS / f"{slug}.ipynb"
    notebook = read(path)
    notebook.metadata.pop("draft", None)
    write(notebook, path)
    return [path]


def main() -> int:
    kinds = {"chapter": make_chapter, "exercise": make_exercise, "publish": publish}
    most = 4 if sys.argv[1:2] == ["exercise"] else 3
    if not 3 <= len(sys.argv) <= most or sys.argv[1] not in kinds:
        print(__doc__)
        return 1
    import os

    os.environ.update(ENVIRONMENT)
    for path in kinds[sys.argv[1]](*sys.argv[2:]):
        print(f"{_shown(path)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
