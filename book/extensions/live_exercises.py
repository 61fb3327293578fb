"""Exercises solved in the page: what a page is told, and the bundle that it loads on a click.

`python -m book.tools.live` makes the bundle (Python and numpy as WebAssembly, the book's check) in
`_build/live`; here it is copied beside the pages, into `_static/live`. Without a bundle the pages
stay as they are in print: starter, check, folded solution.

What a server has to know: nothing. The parts of the bundle are gzipped files that the page unpacks
itself, so it does not matter that GitHub Pages sends `.gz` as application/gzip and compresses only
what it knows (html, css, js, json, svg; not .wasm.gz, .tar.gz). It sends `.mjs` as text/javascript,
as any server must, or no browser runs it as a module.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from unrolled_book import exercises
from unrolled_book.experiments import ladder
from unrolled_book.predictions import of_notebook
from unrolled_book.workbench.page import LINE, models
from unrolled_book.workbench.run import BATCHES, OPTIMIZERS, SHORTEST, WIDTHS, WINDOWS, Settings

STATIC = "exercises"  # below _static
PROGRESS = "book/progress"
WORKBENCH = "book/workbench"


def _bundle(app: Sphinx) -> Path:
    return Path(app.srcdir, "_build", "live")


def _manifest(app: Sphinx) -> dict[str, Any] | None:
    path = _bundle(app) / "manifest.json"
    return json.loads(path.read_text("utf8")) if path.exists() else None


def _size(manifest: dict[str, Any]) -> str:
    return f"{manifest['total_bytes'] / 1e6:.1f} MB"


def _version(app: Sphinx) -> str:
    """Of the bundle: its manifest names every file with its hash."""
    return hashlib.sha256((_bundle(app) / "manifest.json").read_bytes()).hexdigest()[:8]


def note_bundle(app: Sphinx, config: Config) -> None:
    """What the pages say of the bundle: where it changes, all are written anew."""
    manifest = _manifest(app)
    config.live_bundle = (
        [_size(manifest), manifest["elsewhere"], _version(app)] if manifest else None
    )


def renew_progress(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The page of progress links into all chapters."""
    return [PROGRESS] if PROGRESS in env.all_docs else []


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with exercises their script, and say what the script has to know."""
    if doctree is None or app.builder.format != "html" or "body" not in context:
        return
    if page == PROGRESS:
        _add(app, context, {"chapters": _contents(app)})
        return
    manifest = _manifest(app)
    if page == WORKBENCH and manifest:
        _add(app, context, _bundle_of(app, context, manifest) | workbench())
        app.add_css_file(f"{STATIC}/workbench.css")
    chapter = "c" + page.rpartition("/")[2]
    names = exercises.chapters().get(chapter, ())
    if not page.startswith("chapters/") or not names or manifest is None:
        return
    elsewhere = {n: why for n, why in manifest["elsewhere"].items() if n.startswith(f"{chapter}/")}
    told = {"chapter": chapter, "elsewhere": elsewhere}
    _add(app, context, _bundle_of(app, context, manifest) | told)


def _bundle_of(app: Sphinx, context: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Where a page finds the bundle."""
    base = context["pathto"]("_static/live/", resource=True)
    return {"base": base, "version": _version(app), "size": _size(manifest)}


def workbench() -> dict[str, Any]:
    """What the page of the workbench offers, and the ladder's best rows."""
    best = [row for row in ladder.rows() if row["model"].startswith(("7-gram", "LSTM", "Trans"))]
    first = Settings()
    sizes = {"width": ("Width", WIDTHS), "window": ("Window", WINDOWS), "batch": ("Batch", BATCHES)}
    return {
        "models": models(),
        "sizes": {name: {"label": label, "options": options, "first": getattr(first, name)}
                  for name, (label, options) in sizes.items()},
        "optimizers": list(OPTIMIZERS), "orders": [1, 2, 3, 4, 5],
        "shortest": SHORTEST, "line": LINE,
        "texts": [["shakespeare", "Shakespeare"], ["chesterton", "Chesterton"],
                  ["names", "first names"]],
        "ladder": {"text": ladder.CORPUS,
                   "rows": [[row["model"].partition(" (")[0].partition(",")[0] + " *",
                             row["test_bits_per_byte"]] for row in best]},
    }  # fmt: skip


def _add(app: Sphinx, context: dict[str, Any], told: dict[str, Any]) -> None:
    text = json.dumps(told, ensure_ascii=False).replace("</", "<\\/")
    context["body"] += f'\n<script type="application/json" id="u-live">{text}</script>\n'
    app.add_js_file(f"{STATIC}/load.js", loading_method="defer")
    app.add_css_file(f"{STATIC}/exercises.css")


def _contents(app: Sphinx) -> list[dict[str, Any]]:
    """The chapters with exercises, in the book's order: title, page, what is asked there."""
    order = exercises.chapters()
    found = []
    for page, title in app.env.titles.items():
        slug = "c" + page.rpartition("/")[2]
        if page.startswith("chapters/") and order.get(slug):
            items = [exercises.load(f"{slug}/{name}") for name in order[slug]]
            links = app.env.tocs[page].findall(nodes.reference)
            anchors = [e["anchorname"] for e in links if e.astext().startswith("Exercise ")]
            listed = [
                {"name": f"{slug}/{one.name}", "title": one.title, "anchor": anchor}
                for one, anchor in zip(items, anchors, strict=True)
            ]
            asked = [one.name for one in of_notebook(app.env.doc2path(page))]
            found.append({"title": title.astext(), "page": page, "exercises": listed,
                          "predictions": asked})  # fmt: skip
    return sorted(found, key=lambda chapter: chapter["page"])  # 02_ngrams before 02b_smoothing


def copy_bundle(app: Sphinx, error: Exception | None) -> None:
    """The bundle beside the pages; an old one goes."""
    if error or app.builder.format != "html":
        return
    target = Path(app.outdir, "_static", "live")
    shutil.rmtree(target, ignore_errors=True)
    if _manifest(app):
        shutil.copytree(_bundle(app), target, ignore=shutil.ignore_patterns(".*"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("live_bundle", None, "html", types=(list, type(None)))
    app.connect("config-inited", note_bundle)
    app.connect("env-updated", renew_progress)
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", copy_bundle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
