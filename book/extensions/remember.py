"""The page *Today*: the cards of all chapters, a deck for Anki, and a link in each chapter."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import Any

import genanki
from docutils import nodes
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from unrolled_book.cards import Card, of_chapter

PAGE, MAP = "book/today", "book/map"
FILE = "unrolled.apkg"
DECK, KIND = 1_706_311_201, 1_706_311_202  # Anki knows the deck and its kind of card by these
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def renew(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The page has the cards of all chapters."""
    return [PAGE] if PAGE in env.all_docs else []


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the page its cards, and each chapter that has some a link to it."""
    if doctree is None or app.builder.format != "html" or "body" not in context:
        return
    if page == PAGE:
        text = json.dumps(_told(app.env), ensure_ascii=False).replace("</", "<\\/")
        context["body"] += f'\n<script type="application/json" id="u-cards">{text}</script>\n'
        app.add_js_file("today.js", loading_method="defer")
    elif page == MAP:
        app.add_js_file("map.js", loading_method="defer")
    elif page.startswith("chapters/") and (n := len(of_chapter(app.env.doc2path(page)))):
        link = f"{context['pathto'](PAGE)}#{page.rpartition('/')[2]}"
        said = f"Remember this chapter: {n} cards"
        context["body"] += f'<p class="u-remember"><a href="{link}">{said}</a></p>'


def _told(env: BuildEnvironment) -> dict[str, Any]:
    found = _cards(env)
    titles = _titles(env)
    with_cards = dict.fromkeys(card.chapter for card in found)
    return {
        "chapters": [{"name": stem, "title": titles[stem], "page": f"../chapters/{stem}.html"}
                     for stem in with_cards],
        "cards": [{"name": card.name, "chapter": card.chapter, "front": html(card.front),
                   "back": html(card.back)} for card in found],
    }  # fmt: skip


def _titles(env: BuildEnvironment) -> dict[str, str]:
    found = {page.rpartition("/")[2]: title.astext() for page, title in env.titles.items()
             if page.startswith("chapters/")}  # fmt: skip
    return dict(sorted(found.items()))


def _cards(env: BuildEnvironment) -> list[Card]:
    return [card for stem in _titles(env) for card in of_chapter(env.doc2path(f"chapters/{stem}"))]


def html(markdown: str) -> str:
    """The Markdown as HTML, links as words, formulas as MathJax reads them here and in Anki."""
    renderer = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_formula)
    text = renderer.render(_LINK.sub(r"\1", markdown)).strip()
    return text.removeprefix("<p>").removesuffix("</p>") if text.count("<p>") == 1 else text


def _formula(text: str, options: dict[str, bool]) -> str:
    left, right = (r"\[", r"\]") if options["display_mode"] else (r"\(", r"\)")
    return f'<span class="math notranslate nohighlight">{left}{escape(text)}{right}</span>'


def write_deck(app: Sphinx, error: Exception | None) -> None:
    """All cards as a deck for Anki, beside the pages, with the chapter's number as a tag."""
    if error or app.builder.format != "html":
        return
    model = genanki.Model(
        KIND, "Unrolled", fields=[{"name": "Front"}, {"name": "Back"}, {"name": "Chapter"}],
        templates=[{"name": "Card", "qfmt": "{{Front}}",
                    "afmt": '{{Front}}<hr id="answer">{{Back}}<p><small>{{Chapter}}</small></p>'}],
        css=".card { font: 1.15rem/1.5 sans-serif; max-width: 34rem; margin: 1rem auto; }",
    )  # fmt: skip
    deck, titles = genanki.Deck(DECK, "Unrolled: language models"), _titles(app.env)
    for card in _cards(app.env):
        fields = [html(card.front), html(card.back), titles[card.chapter]]
        tag = f"chapter-{card.chapter.partition('_')[0]}"
        deck.add_note(genanki.Note(model, fields, tags=[tag], guid=card.name))
    genanki.Package(deck).write_to_file(str(Path(app.outdir, "_static", FILE)), timestamp=0)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-updated", renew)
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", write_deck)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
