"""A syllabus's own small book: its chapters and no others, as pages.

    python -m book.tools.site.small my_course.toml --out _build/my_course

The chapters that the syllabus has exercises of stay; each other one is dropped from a copy of the
book (`book.tools.notebooks.drop`), and a part without chapters goes with them. Links to a dropped
chapter lead to the published book. What is generated is made anew, then the pages.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from unrolled_book.coursework.syllabus import Syllabus

from book.extensions.publishing import site_address
from book.tools.notebooks import copy_of_the_tree, published
from book.tools.notebooks.address import repository_url
from book.tools.notebooks.drop import drop
from book.verbs.system import program


def chapters_of(syllabus: Path) -> set[str]:
    """The names of the book's chapters that the syllabus has exercises of.

    Raises ValueError for a file that is no syllabus, or has no exercise of a chapter.
    """
    with contextlib.suppress(OSError, ValueError):  # what is wrong with it, Syllabus.read says
        if secret := tomllib.loads(syllabus.read_text("utf8")).get("seed_env"):
            os.environ.setdefault(secret, "nothing is drawn here")
    weeks = Syllabus.read(syllabus).weeks
    folders = {item.exercise.partition("/")[0] for week in weeks for item in week.items}
    found = {path.stem for path in published() if f"c{path.stem}" in folders}
    if not found:
        raise ValueError(f"{syllabus} has no exercise of a chapter of the book")
    return found


def build(syllabus: Path, out: Path) -> list[str]:
    """Write the small book's pages into `out`; the names of its chapters, in order.

    Raises ValueError as `chapters_of` does, and for a folder that holds something else than an
    earlier book; CalledProcessError where the pages cannot be built.
    """
    kept = chapters_of(syllabus)
    if out.exists() and any(out.iterdir()) and not (out / "objects.inv").exists():
        raise ValueError(f"{out} holds something else than a book; name an empty folder")
    work = out.with_name(f"{out.name}-sources")
    tree, published_at = copy_of_the_tree(work), site_address(repository_url())
    names = [path.stem for path in published()]
    for name in reversed(names):  # what stands below a chapter goes before it
        if name not in kept:
            drop(name, tree, elsewhere=published_at)
    ours = [str(tree), str(tree / "lib"), str(tree / "book" / "teaching")]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(ours)}
    for command in (
        [sys.executable, "-m", "book.tools.generate"],
        [sys.executable, "-m", "book.tools.live", "--try"],
        [program("jupyter-book"), "build", ".", "--builder", "html", "-W", "-n", "-q"],
    ):
        subprocess.run(command, cwd=tree, env=paths, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(tree / "_build" / "html", out)
    shutil.rmtree(work)
    return [name for name in names if name in kept]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("syllabus", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pages")
    given = parser.parse_args()
    try:
        names = build(given.syllabus, given.out.resolve())
    except ValueError as error:
        print(f"small-book: {error}")
        return 1
    print(f"small-book: {len(names)} chapters in {given.out}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
