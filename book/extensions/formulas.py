"""Formulas, set while the book is built: HTML for the eye, MathML with the TeX for the rest.

KaTeX sets them, in the Node that Playwright brings along, so that a build needs no other one. A
page with formulas asks for a style sheet and its fonts; it needs no script.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import playwright
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

SCRIPT = Path(__file__).with_suffix(".js")
STYLE, COPY = "katex/katex-swap.min.css", "katex/copy-tex.min.js"
Formula = tuple[str, bool]  # its TeX, and whether it stands on a line of its own

_HOLDER = re.compile(
    r'(<(span|div)\b[^>]*\bclass="[^"]*\bmath\b[^"]*"[^>]*>)\\([(\[])(.*?)\\[)\]](</\2>)', re.DOTALL
)
_CAPTION = re.compile(r'(<((?:fig)?caption) class="tex2jax_process">)(.*?)(</\2>)', re.DOTALL)
_IN_CAPTION = re.compile(r"\$([^$]+)\$")


def holder(tex: str, display: bool = False) -> str:
    """A formula that is still to be set, as Sphinx's and Anki's MathJax know it."""
    tag, left, right = ("div", r"\[", r"\]") if display else ("span", r"\(", r"\)")
    return f'<{tag} class="math notranslate nohighlight">{left}{html.escape(tex)}{right}</{tag}>'


def set_all(texts: Iterable[str]) -> list[str]:
    """The HTML texts with their formulas set, also those that stand as $…$ in captions.

    Raises ValueError for TeX that KaTeX does not understand.
    """
    marked = [_CAPTION.sub(_mark, text) for text in texts]
    wanted = dict.fromkeys(_formula(found) for text in marked for found in _HOLDER.finditer(text))
    made = katex(list(wanted)) if wanted else {}
    return [_HOLDER.sub(lambda m: f"{m[1]}{made[_formula(m)]}{m[5]}", text) for text in marked]


def katex(formulas: list[Formula]) -> dict[Formula, str]:
    """The HTML of each formula. Raises ValueError for TeX that KaTeX does not understand."""
    done = subprocess.run(
        [node(), SCRIPT], input=json.dumps(formulas), capture_output=True, text=True,
        encoding="utf8", check=True,
    )  # fmt: skip
    made = dict(zip(formulas, json.loads(done.stdout), strict=True))
    for (tex, _), found in made.items():
        if not isinstance(found, str):
            raise ValueError(f"KaTeX does not understand {tex!r}: {found['wrong']}")
    return made


def node() -> str:
    """The path of Playwright's own Node; of the machine's, where a Playwright has none."""
    folder = Path(playwright.__file__).parent / "driver"
    own = next((path for name in ("node", "node.exe") if (path := folder / name).is_file()), None)
    found = str(own) if own else shutil.which("node")
    if found is None:
        raise FileNotFoundError(f"formulas are set by Node: none in {folder}, no `node` here")
    return found


def _mark(caption: re.Match[str]) -> str:
    words = _IN_CAPTION.sub(lambda m: holder(html.unescape(m[1])), caption[3])
    return f"{caption[1]}{words}{caption[4]}"


def _formula(found: re.Match[str]) -> Formula:
    return html.unescape(found[4]).strip(), found[3] == "["


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(holder(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    if node.get("number"):
        raise ValueError(f"the book numbers no formulas, got the label {node['label']!r}")
    self.body.append(holder(node.astext(), display=True) + "\n")
    raise nodes.SkipNode


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Set a page's formulas; one whose script brings some says `formulas` in its context."""
    if app.builder.format != "html" or not context.get("body"):
        return
    (context["body"],) = set_all([context["body"]])
    if not context.get("formulas") and 'class="katex"' not in context["body"]:
        return
    app.add_css_file(STYLE)
    app.add_js_file(COPY, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_block, None))
    app.connect("html-page-context", tell_page, priority=950)  # on what the others have written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
