"""The book for programs that read text: each chapter as Markdown beside its page, and llms.txt.

The Markdown has the chapter's prose, its open code with what it prints, the figures' words, and the
exercises with the mistakes that their checks know, but no solution: an assistant that helps a
student can read it (see the page *For a tutor that is a program*).
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from numbering import Numbers
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from unrolled_book import exercises

FOLDED = "hide-input"
_SOLUTION = "<details><summary>Solution</summary>"


def chapter(path: Path, beliefs: list[dict[str, str]]) -> str:
    """A notebook as Markdown, with the beliefs of its students and no solution."""
    cells = json.loads(path.read_text("utf8"))["cells"]
    setup = next(i for i, cell in enumerate(cells) if cell["cell_type"] == "code")
    numbers = Numbers.of(f"chapters/{path.stem}")
    parts = [_markdown(cell, i == setup, numbers) for i, cell in enumerate(cells)]
    if beliefs:
        parts.append("## What students believe")
        parts.append("\n".join(f"- *{one['believes']}* {one['cure']}" for one in beliefs))
    if mistakes := _mistakes(path.stem):
        parts.append("## What the checks of the exercises know")
        parts.append(mistakes)
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(cell: dict[str, Any], is_setup: bool, numbers: Numbers) -> str:
    source, told = "".join(cell["source"]).strip(), cell["metadata"].get("tags", [])
    if cell["cell_type"] == "markdown":
        numbered = numbers.in_markdown(source)
        return "" if source.startswith(_SOLUTION) else numbered
    code = "" if FOLDED in told or is_setup else f"```python\n{source}\n```"
    texts = [numbers.in_text(*_forms(output)) for output in cell["outputs"]]
    shown = "\n".join(text.rstrip() for text in texts if text.strip())
    return "\n\n".join(part for part in (code, shown and f"```text\n{shown}\n```") if part)


def _forms(output: dict[str, Any]) -> tuple[str, str]:
    """The output as HTML, empty where it has none, and as text."""
    data = output.get("data", {})
    return "".join(data.get("text/html", "")), "".join(
        output.get("text") or data.get("text/plain", "")
    )


def _mistakes(stem: str) -> str:
    lines = []
    for name in exercises.chapters().get(f"c{stem}", ()):
        one = exercises.load(f"c{stem}/{name}")
        known = "".join(f"\n  - {mistake}" for mistake in one.wrong)
        lines.append(
            f'- *{one.title}*, checked by `check("{name}", {name})`; known mistakes:{known}'
        )
    return "\n".join(lines)


def contents(titles: dict[str, tuple[str, str]], site: str, name: str, about: str) -> str:
    """The text of llms.txt. titles: (title, the page's first sentence) by page."""

    def line(page: str) -> str:
        title, first = titles[page]
        end = "md" if page.startswith("chapters/") else "html"
        return f"- [{title}]({site}{page}.{end}): {first}"

    own = [page for page in titles if page.startswith("chapters/")]
    others = [page for page in titles if page.startswith("book/")]
    head = f"# {name}\n\n> {about}\n\nEach chapter as Markdown, without the exercises' solutions."
    return "\n".join([head, "", "## Chapters", "", *map(line, own), "", "## Around them", "",
                      *map(line, others), ""])  # fmt: skip


def _titles(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    found = {}
    for page in sorted(env.titles):
        first = next(env.get_doctree(page).findall(nodes.paragraph), None)
        text = " ".join(first.astext().split()) if first else ""
        sentence = re.split(r"(?<=[.?!]) (?=[A-Z])", text)[0]
        found[page] = (env.titles[page].astext(), sentence[:300])
    return found


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """A chapter's page names its Markdown."""
    if doctree is not None and page.startswith("chapters/") and "metatags" in context:
        name = page.rpartition("/")[2]
        context["metatags"] += (
            f'\n    <link rel="alternate" type="text/markdown" href="{name}.md" />'
        )


def write_files(app: Sphinx, error: Exception | None) -> None:
    """The chapters' Markdown and llms.txt."""
    if error or app.builder.format != "html":
        return
    out, env = Path(app.outdir), app.env
    beliefs = tomllib.loads(Path(app.srcdir, "book", "misconceptions.toml").read_text("utf8"))
    titles = _titles(env)
    for page in titles:
        if page.startswith("chapters/"):
            text = chapter(Path(env.doc2path(page)), beliefs.get(page.rpartition("/")[2], []))
            (out / f"{page}.md").write_text(text, "utf8")
    about = titles[app.config.root_doc][1]
    said = contents(titles, app.config.html_baseurl, app.config.project, about)
    (out / "llms.txt").write_text(said, "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", tell_page, priority=600)
    app.connect("build-finished", write_files, priority=960)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
