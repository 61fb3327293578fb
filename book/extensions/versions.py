"""Scripts and styles with their content's hash in their address.

A host such as GitHub Pages lets browsers keep a file for ten minutes: a new page with an old script
would break. So every page asks for `a11y.js?v=4a0ef87d`, and a module for the modules that it
imports in the same way; what is asked for under one such address never changes. It is done after
the build, on the files as they are then: Sphinx versions only a part of them, and before others
trim them. (The fonts of formulas have none; they change only with KaTeX's release. The bundle of
Python: see `live.mjs`.)
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

# In a page: what it loads of `_static`.
ASKED = re.compile(
    r"""\b(href|src)="([^":?#]*?)(_static/[^"?#]+\.(?:css|m?js|svg))(?:\?v=\w+)?\""""
)
# In a script or module: the modules beside it.
MODULE = re.compile(r"""(["'])\./([\w-]+\.mjs)(?:\?v=\w+)?\1""")


def version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def stamp_modules(folder: Path) -> None:
    """Version what the scripts of a folder import, the imported ones first."""

    @cache
    def stamped(name: str) -> str:
        path = folder / name
        old = path.read_text("utf8")
        new = MODULE.sub(lambda m: f"{m[1]}./{m[2]}?v={stamped(m[2])}{m[1]}", old)
        if new != old:
            path.write_text(new, "utf8")
        return version(new.encode())

    for path in [*folder.glob("*.mjs"), *folder.glob("*.js")]:
        stamped(path.name)


def stamp_page(page: str, versions: dict[str, str]) -> str:
    """The page with a version at what it loads; what the book does not have stays as it is."""

    def asked(m: re.Match[str]) -> str:
        if m[3] not in versions:
            return m[0]
        return f'{m[1]}="{m[2]}{m[3]}?v={versions[m[3]]}"'

    return ASKED.sub(asked, page)


def stamp(site: Path) -> None:
    """Version all scripts and styles of a built book; the same when done again."""
    stamp_modules(site / "_static" / "exercises")
    versions = {
        path.relative_to(site).as_posix(): version(path.read_bytes())
        for path in (site / "_static").rglob("*")
        if path.suffix in {".css", ".js", ".mjs", ".svg"}
    }
    for path in site.rglob("*.html"):
        old = path.read_text("utf8")
        new = stamp_page(old, versions)
        if new != old:
            path.write_text(new, "utf8")


def after_build(app: Sphinx, error: Exception | None) -> None:
    if not error and app.builder.format == "html":
        stamp(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", after_build, priority=960)  # on what the others have written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
