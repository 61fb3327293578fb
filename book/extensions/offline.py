"""The book without a network: visited pages stay readable, and the book can be installed.

`book/assets/offline` has the scripts. The worker that keeps the pages must lie at their root, or a
browser lets it answer for its own folder only; the manifest is written beside it.

To take the worker back from readers who have it, set `keep_visited_pages: false` in `_config.yml`
and publish: in its place they get one that throws away what was kept and removes itself. (A missing
`sw.js` would not do: browsers then go on with the one they have.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = "offline"  # below _static
FAREWELL = """\
// The book keeps no pages any more: this worker removes what was kept, and itself.
oninstall = () => skipWaiting();
onactivate = (event) =>
  event.waitUntil(caches.delete("unrolled").then(() => registration.unregister()));
"""


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    if app.builder.format == "html":
        manifest = context["pathto"]("manifest.webmanifest", resource=True)
        context["metatags"] = (
            f'{context.get("metatags", "")}\n<link rel="manifest" href="{manifest}">'
        )


def manifest(title: str, subtitle: str) -> str:
    """What a browser asks of a book before it installs it."""
    icon = {"src": "_static/favicon.svg", "sizes": "any", "type": "image/svg+xml"}
    return json.dumps({
        "name": title, "short_name": title, "description": subtitle, "lang": "en",
        "start_url": "./", "scope": "./", "display": "minimal-ui", "icons": [icon],
    }, indent=2)  # fmt: skip


def lay_at_root(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    root = Path(app.outdir)
    (root / "_static" / FOLDER / "sw.js").replace(root / "sw.js")
    (root / "manifest.webmanifest").write_text(
        manifest(app.imprint.title, app.imprint.subtitle), "utf8"
    )
    if not app.config.keep_visited_pages:
        (root / "sw.js").write_text(FAREWELL, "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("keep_visited_pages", True, "", types=(bool,))
    app.add_js_file(f"{FOLDER}/offline.js", loading_method="defer")
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", lay_at_root, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
