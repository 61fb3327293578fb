"""The page of a task that a person reads: the rubric on the left, the answers on the right.

Markdown and formulas are set where the packages for it are there (`pip install
"unrolled-book[reading]"`); without them the texts stand as they were written. Whatever a student
writes stays a text: no markup of theirs gets through.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from unrolled_book.coursework.personal import my_seed
from unrolled_book.coursework.syllabus import Syllabus

if TYPE_CHECKING:
    from unrolled_book.coursework.written import Task, Words

_LONGEST_FORMULA = 1000  # characters
_MOST_CELLS = 20_000  # of a table, whose rows are filled up to the longest


def page(syllabus: Syllabus, task: Task, answers: Iterable[tuple[str, Words]], table: str) -> str:
    """The page as one HTML file. table: the name of the file for points and comments."""
    rubric = "".join(f"<li>{rendered(line)}</li>" for line in task.rubric)
    given = "".join(_article(syllabus, student, said) for student, said in answers)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html.escape(task.title)}</title><style>{_STYLE}</style></head><body>
<aside><h1>{html.escape(task.title)}</h1>
<p>{task.points:g} points · {html.escape(syllabus.title)}</p>
<div class="text">{rendered(task.statement)}</div><h2>Rubric</h2><ul>{rubric}</ul>
<p class="how">Points and comments go into <code>{table}</code>, task <code>{task.name}</code>.</p>
</aside><main>{given}</main></body></html>
"""


def _article(syllabus: Syllabus, student: str, said: Words) -> str:
    runs = "".join(
        f"<details open><summary>A cell of theirs</summary><pre>{html.escape(source)}</pre>"
        f"<pre class='shown'>{html.escape(shown)}</pre></details>"
        for source, shown in said.runs
    )
    pictures = "".join(
        f'<img alt="A picture of {html.escape(student)}" src="data:image/png;base64,{data}">'
        for data in said.pictures
    )
    text = f"<div class='text'>{rendered(said.text)}</div>" if said.text else ""
    nothing = "" if text or runs else "<p><em>Nothing was found.</em></p>"
    seed, name = my_seed(student, syllabus.title), html.escape(student)
    return (
        f'<article data-student="{name}"><h2>{name}</h2><p class="seed">my_seed: {seed}</p>'
        f"{text}{runs}{pictures}{nothing}</article>"
    )


def rendered(text: str) -> str:
    """The text as HTML: its Markdown and formulas set, or else as it was written."""
    longest = max((line.count("|") for line in text.split("\n")), default=0)
    if render := _renderer(longest * (text.count("\n") + 1) <= _MOST_CELLS):
        return render(text)
    return f'<div class="plain">{html.escape(_rejoined(text))}</div>'


@cache
def _renderer(tables: bool) -> Callable[[str], str] | None:
    try:
        from latex2mathml.converter import convert_to_element
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError:
        return None

    def formula(tex: str, how: dict[str, bool]) -> str:
        display = "block" if how["display_mode"] else "inline"
        try:
            if len(tex) > _LONGEST_FORMULA:
                raise ValueError(f"a formula of {len(tex)} characters")
            element = convert_to_element(tex, display=display)
        except Exception:  # whatever a student has written between dollars
            return f"<code>{html.escape(tex)}</code>"
        for part in element.iter():  # its texts are entities, as if they were written already
            part.text = html.unescape(part.text or "")
        return ET.tostring(element, "unicode")

    markdown = MarkdownIt("commonmark", {"html": False})
    markdown.disable("reference")  # each looks through all that follows
    markdown.enable("table" if tables else [])
    return markdown.use(dollarmath_plugin, renderer=formula, allow_digits=False).render


def _rejoined(text: str) -> str:
    """The text with its paragraphs on one line each; lists, tables and formulas keep theirs."""
    return re.sub(r"(?<=[^\n|$])\n(?!\s|[-*#>] |\||\$\$|```|\d+\. )", " ", text)


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'self'; "
    "connect-src 'self'"
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; gap: 2rem;
  grid-template-columns: minmax(18rem, 1fr) minmax(0, 2fr); padding: 1.5rem; }
aside { position: sticky; top: 1.5rem; align-self: start; max-height: calc(100vh - 3rem);
  overflow: auto; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; }
article { border-top: 1px solid; padding: .5rem 0 1.5rem; }
.plain, pre { white-space: pre-wrap; }
.text, pre { overflow-wrap: anywhere; }
td, th { border: 1px solid; padding: .1rem .5rem; } table { border-collapse: collapse; }
.given { display: flex; gap: .5rem 1rem; flex-wrap: wrap; align-items: start; margin-top: .7rem; }
.given textarea { width: 24rem; max-width: 100%; box-sizing: border-box; font: inherit;
  vertical-align: top; } .given input { width: 4rem; font: inherit; }
article:focus-within { outline: 2px solid; outline-offset: .5rem; }
pre { font: 14px/1.45 ui-monospace, monospace; margin: .3rem 0; }
article .text, .shown { border-left: 3px solid; padding-left: .7rem; }
.seed { font-size: .85rem; } img { max-width: 100%; }
@media (max-width: 48rem) { body { display: block; } aside { position: static; max-height: none; } }
"""
