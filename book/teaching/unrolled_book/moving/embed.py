"""One writer of all figures that move in a page: style, data as JSON, body, script, caption.

The script finds its data in the first `<script>` of its figure. Nothing else is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path

from unrolled_book import figures


def embed(
    classes: str, body: str, *, data: object, style: Path, script: Path, caption: str = ""
) -> str:
    """A `<figure>` that needs nothing outside itself.

    classes: its CSS classes. body: the HTML that is seen before the script runs, and in print.
    data: what JSON can hold. style, script: files with CSS and JavaScript. caption: a
    `<figcaption>`. Raises ValueError for NaN and infinities, which JSON does not know.
    """
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # "</script" would end the script, and "<!--" hides its end.
    written = written.replace("</", r"<\/").replace("<!", r"<\u0021")
    return f"""<figure class="{classes}">
<style>
{figures.css()}{style.read_text(encoding="utf-8")}</style>
<script type="application/json">{written}</script>
{body}
<script>
{script.read_text(encoding="utf-8")}</script>
{caption}</figure>"""


def with_script(figure: str, style: str, script: Path) -> str:
    """The figure that `embed` wrote, with rules of CSS and a script more, for what not all have."""
    more = f"<style>{style}</style>\n<script>\n{script.read_text(encoding='utf-8')}</script>\n"
    return f"{figure.removesuffix('</figure>')}{more}</figure>"
