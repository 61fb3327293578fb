"""Light pages: leave out what the theme ships and this book does not use.

The templates in ``book/templates`` already ask for less: no icon font (half a megabyte gzipped), no
Bootstrap script. What is left is the style sheet, half of which names icons and widgets; its rules
go here, and the files nobody asks for too.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

UNUSED = (
    "vendor",
    "locales",
    "scripts/fontawesome.js",
    "scripts/fontawesome.js.LICENSE.txt",
    "scripts/bootstrap.js",
    "scripts/bootstrap.js.LICENSE.txt",
    "images",
    "language_data.js",
    "searchtools.js",
    "sphinx_highlight.js",
    "katex/katex.min.js",  # it has set the formulas
    "webpack-macros.html",
    "sbt-webpack-macros.html",
)
# Families of widgets from Bootstrap, Sphinx Design or Font Awesome that no page of ours shows.
FAMILIES = (
    "accordion alert badge breadcrumb btn-group btn-outline btn-close card carousel dropdown fa"
    " form-check form-floating form-range form-select form-switch input-group list-group modal"
    " nav-pills nav-tabs offcanvas pagination placeholder popover progress sd spinner toast"
    " tooltip bs-popover bs-tooltip version-switcher"
)
UNUSED_CLASS = re.compile(rf"\.({'|'.join(FAMILIES.split())})(?![\w])")
ICON_FONT = re.compile(r"@font-face\{[^}]*fontawesome[^}]*\}", re.IGNORECASE)
RULE = re.compile(r"(?<=[{};])([^{}@;]+)\{[^{}]*\}")
SOURCE_MAP = re.compile(r"\s*(/\*|//)# sourceMappingURL=\S+\.map(\s*\*/)?")


def without_unused_rules(css: str) -> str:
    """The style sheet without the rules all of whose selectors name an unused family."""

    def kept(rule: re.Match[str]) -> str:
        selectors = rule[1].split(",")
        return "" if all(UNUSED_CLASS.search(one) for one in selectors) else rule[0]

    return RULE.sub(kept, ICON_FONT.sub("", css))


def trim(app: Sphinx, error: Exception | None) -> None:
    """Trim ``_static`` after the build; harmless when run twice."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    for name in UNUSED:
        path = static / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in (static / "styles").glob("*.css"):
        path.write_text(without_unused_rules(path.read_text("utf8")), "utf8")
    for path in [*(static / "styles").glob("*.css"), *(static / "scripts").glob("*.js")]:
        path.write_text(SOURCE_MAP.sub("", path.read_text("utf8")), "utf8")
    for path in static.rglob("*.map"):
        path.unlink()


def leave_out_highlighting(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Sphinx's marks of what was searched for, and the button that takes them away."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "sphinx_highlight" not in str(getattr(script, "filename", script))
    ]


def open_contents(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Show the chapters beside a chapter (16b under 16) always, without a button to unfold them."""
    generate = context.get("generate_toctree_html")
    if generate is None:
        return

    def opened(*args: Any, **kwargs: Any) -> Any:
        contents = generate(*args, **kwargs)
        for fold in contents.select("details") if contents else ():
            fold.summary.decompose()
            fold.unwrap()
        return contents

    context["generate_toctree_html"] = opened


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", open_contents, priority=900)
    app.connect("html-page-context", leave_out_highlighting, priority=950)
    app.connect("build-finished", trim, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
