"""The page *Today*: the cards of all chapters, a deck for Anki; and each chapter's at its end."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import genanki
from docutils import nodes
from formulas import holder, set_all
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from unrolled_book.cards import Card, of_chapter

PAGE, MAP = "book/today", "book/map"
FILE, CARDS = "unrolled.apkg", "cards.js"
FROM, FIRST = ("book/cards/", "chapters/"), datetime.date(2026, 1, 1)  # FIRST: without a history
DECK, KIND = 1_706_311_201, 1_706_311_202  # Anki knows the deck and its kind of card by these
# A formula and the mark after it, which stay on one line (see kept_marks.py).
_MARKED = re.compile(r'<span class="math inline">[^<]*<span[^>]*>[^<]*</span></span>[.,;:!?)\]]+')
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def renew(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The page has the cards of all chapters."""
    return [PAGE] if PAGE in env.all_docs else []


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the page its cards, and each chapter that has some its own, with a link to it."""
    if doctree is None or app.builder.format != "html" or "body" not in context:
        return
    if page == PAGE:
        decks, script = _decks(app.env), _script(app.env)
        version = hashlib.sha256(script.encode()).hexdigest()[:8]
        told = {"chapters": decks, "cards": f"../_static/{CARDS}?v={version}"}
        text = json.dumps(told, ensure_ascii=False).replace("</", "<\\/")
        items = "".join(f'<li id="deck-{one["name"]}">{escape(one["title"])}</li>' for one in decks)
        context["body"] = context["body"].replace("<noscript>", f"<ul>{items}</ul><noscript>", 1)
        context["body"] += f'\n<script type="application/json" id="u-cards">{text}</script>\n'
        context["formulas"] = True  # the cards have some
        app.add_js_file("today.js", loading_method="defer")
    elif page == MAP:
        app.add_js_file("map.js", loading_method="defer")
    elif page.startswith("chapters/") and (cards := of_chapter(app.env.doc2path(page))):
        link = f"{context['pathto'](PAGE)}#deck-{page.rpartition('/')[2]}"
        context["body"] += at_the_end(cards, link)


def at_the_end(cards: list[Card], link: str) -> str:
    """A chapter's cards, folded, each with its back folded, and a link to where they come again."""
    items = "".join(
        f'<li><div class="u-front">{html(card.front)}</div>'
        f"<details><summary>Answer</summary><div>{html(card.back)}</div></details></li>"
        for card in cards
    )
    return (
        f'<details class="u-cards"><summary>Remember this chapter: {len(cards)} cards</summary>'
        f'<ol>{items}</ol></details><p class="u-remember">'
        f'<a href="{link}">Have them asked again, after longer and longer times</a></p>'
    )


def _decks(env: BuildEnvironment) -> list[dict[str, Any]]:
    """The chapters that have cards: name, title, page, how many."""
    found = [(stem, title, of_chapter(env.doc2path(f"chapters/{stem}")))
             for stem, title in _titles(env).items()]  # fmt: skip
    return [{"name": stem, "title": title, "page": f"../chapters/{stem}.html", "n": len(own)}
            for stem, title, own in found if own]  # fmt: skip


def _script(env: BuildEnvironment) -> str:
    """The cards as a script, which the page asks for when a chapter has been added."""
    cards = _cards(env)
    sides = iter(set_all(html(side) for card in cards for side in (card.front, card.back)))
    found = [{"name": card.name, "chapter": card.chapter, "front": next(sides),
              "back": next(sides)} for card in cards]  # fmt: skip
    return f"window.unrolledCards = {json.dumps(found, ensure_ascii=False)};\n"


def _titles(env: BuildEnvironment) -> dict[str, str]:
    found = {page.rpartition("/")[2]: title.astext() for page, title in env.titles.items()
             if page.startswith("chapters/")}  # fmt: skip
    return dict(sorted(found.items()))


def _cards(env: BuildEnvironment) -> list[Card]:
    return [card for stem in _titles(env) for card in of_chapter(env.doc2path(f"chapters/{stem}"))]


def html(markdown: str) -> str:
    """The Markdown as HTML, links as words, formulas as Anki's MathJax reads them."""
    renderer = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_formula)
    text = renderer.render(_LINK.sub(r"\1", markdown)).strip()
    text = _MARKED.sub(r'<span class="u-joined">\g<0></span>', text)
    return text.removeprefix("<p>").removesuffix("</p>") if text.count("<p>") == 1 else text


def _formula(text: str, options: dict[str, bool]) -> str:
    return holder(text, options["display_mode"])


def write_deck(app: Sphinx, error: Exception | None) -> None:
    """All cards beside the pages: as a script, and as a deck for Anki, by chapter as a tag."""
    if error or app.builder.format != "html":
        return
    Path(app.outdir, "_static", CARDS).write_text(_script(app.env), "utf8")
    model = genanki.Model(
        KIND, app.imprint.title, fields=[{"name": "Front"}, {"name": "Back"}, {"name": "Chapter"}],
        templates=[{"name": "Card", "qfmt": "{{Front}}",
                    "afmt": '{{Front}}<hr id="answer">{{Back}}<p><small>{{Chapter}}</small></p>'}],
        css=".card { font: 1.15rem/1.5 sans-serif; max-width: 34rem; margin: 1rem auto; }",
    )  # fmt: skip
    deck, titles = genanki.Deck(DECK, app.imprint.whole), _titles(app.env)
    for card in _cards(app.env):
        fields = [html(card.front), html(card.back), titles[card.chapter]]
        tag = f"chapter-{card.chapter.partition('_')[0]}"
        deck.add_note(genanki.Note(model, fields, tags=[tag], guid=card.name))
    changed = [day for name, day in app.last_changes.items() if name.startswith(FROM)]
    genanki.Package(deck).write_to_file(
        str(Path(app.outdir, "_static", FILE)), timestamp=moment(changed)
    )


def moment(changed: list[datetime.date]) -> float:
    """When the deck was written, in seconds: the last change of a card, the same on each machine.

    Anki takes a note from a deck that it knows only if it is newer, and cannot open a note number
    0, which the moment 0 would give to the first.
    """
    days = max(changed, default=FIRST) - datetime.date(1970, 1, 1)
    return days.total_seconds()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-updated", renew)
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", write_deck)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
