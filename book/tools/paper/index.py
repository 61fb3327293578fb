"""The index: the glossary's terms and the authors who are cited, each with its pages."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field

from bs4 import BeautifulSoup, NavigableString, Tag
from pybtex.database import BibliographyData, Entry, Person
from pybtex.richtext import Text

from book.tools.epub.leaves import Leaf

GLOSSARY, BIBLIOGRAPHY = "book-glossary--", "book-bibliography--"
RUNNING = ("p", "li", "dd")  # where a term is looked for: not in code, headings, captions, tables
Pages = dict[str, int]


@dataclass
class Heading:
    """A line of the index. places: ids in the text; main: those where the term is introduced."""

    name: str
    places: list[str] = field(default_factory=list)
    main: set[str] = field(default_factory=set)

    @property
    def order(self) -> str:
        plain = unicodedata.normalize("NFKD", self.name.lower())
        return re.sub(r"[^\w ]", "", plain)


def headings(leaves: list[Leaf], works: BibliographyData) -> list[Heading]:
    """The index of these pages, which get ids at the places that it names.

    works: the bibliography, which knows the authors of what is cited.
    """
    terms = [Heading(name) for name in _terms(leaves)]
    for leaf in leaves:
        if terms and leaf.path.startswith("chapters/"):
            _introduced(leaf, terms)
            _mentioned(leaf, terms)
    found = [*terms, *_authors(leaves, works)]
    return sorted((one for one in found if one.places), key=lambda one: one.order)


def as_html(found: list[Heading], pages: Pages) -> str:
    """The lines of the index. pages: without them each place gets its own number, to be known."""
    lines, letter = [], ""
    for one in found:
        if one.order[:1] != letter:
            letter = one.order[:1]
            lines.append(f'<p class="p-letter">{html.escape(letter.upper())}</p>')
        lines.append(f'<p class="p-entry">{html.escape(one.name)}, {_numbers(one, pages)}</p>')
    return "".join(lines)


def _numbers(one: Heading, pages: Pages) -> str:
    main = {pages.get(place, place) for place in one.main}
    first = {pages.get(place, place): place for place in reversed(one.places)}
    links = []
    for page, place in sorted(first.items(), key=lambda each: str(each[0]).zfill(9)):
        number = f'<a href="#{place}"><span class="p-number" data-of="{place}"></span></a>'
        links.append(f"<b>{number}</b>" if page in main else number)
    return ", ".join(links)


def _terms(leaves: list[Leaf]) -> list[str]:
    glossary = [leaf.body for leaf in leaves if leaf.path == "book/glossary.html"]
    return [" ".join(term.get_text().split()) for body in glossary
            for term in body.select("dl.glossary > dt")]  # fmt: skip


def _introduced(leaf: Leaf, terms: list[Heading]) -> None:
    """Where the text links to the glossary, it introduces the term."""
    named = {_key(one.name): one for one in terms}
    for i, link in enumerate(leaf.body.select(f"a[href^='#{GLOSSARY}term-']")):
        one = named.get(_key(link["href"].split("--term-")[1]))
        if one:
            link["id"] = link.get("id") or f"{leaf.key}--term-{i}"
            one.places.append(link["id"])
            one.main.add(link["id"])


def _mentioned(leaf: Leaf, terms: list[Heading]) -> None:
    """The first place of a chapter that says the term in its running text."""
    words = {one.name.lower(): one for one in terms}
    longest = sorted(words, key=len, reverse=True)
    said = re.compile(rf"\b({'|'.join(map(re.escape, longest))})(?:e?s)?\b", re.IGNORECASE)
    done = {id(one) for one in terms if any(p.startswith(leaf.key + "--") for p in one.places)}
    for text in leaf.body.find_all(string=said):
        if not _running(text):
            continue
        pieces, end = [], 0
        for found in said.finditer(text):
            one = words[found[1].lower()]
            if id(one) in done:
                continue
            done.add(id(one))
            place = f"{leaf.key}--said-{len(done)}"
            one.places.append(place)
            before, word = _text(text[end : found.start()]), _text(found[0])
            pieces.append(f'{before}<span id="{place}">{word}</span>')
            end = found.end()
        if pieces:
            marked = "".join(pieces) + _text(text[end:])
            text.replace_with(BeautifulSoup(marked, "html.parser"))


def _running(text: NavigableString) -> bool:
    around = [tag.name for tag in text.parents if isinstance(tag, Tag)]
    kept = not {"figure", "pre", "code", "table", "a", "svg", "math", "details"} & set(around)
    return kept and any(name in RUNNING for name in around)


def _authors(leaves: list[Leaf], works: BibliographyData) -> list[Heading]:
    found: dict[str, Heading] = defaultdict(lambda: Heading(""))
    for leaf in leaves:
        for i, link in enumerate(leaf.body.select(f"a[href^='#{BIBLIOGRAPHY}cite-']")):
            key = link["href"].split("--cite-")[1]
            link["id"] = link.get("id") or f"{leaf.key}--cited-{i}"
            for name in _named(works.entries[key]):
                found[name].name = name
                found[name].places.append(link["id"])
    return list(found.values())


def _named(work: Entry) -> list[str]:
    """The authors whom a citation names: up to three, of more the first."""
    people = work.persons.get("author") or work.persons.get("editor") or []
    people = people if len(people) <= 3 else people[:1]
    return [_name(p) for p in people if str(p) != "others"]


def _name(person: Person) -> str:
    last = " ".join([*person.prelast_names, *person.last_names])
    first = " ".join([*person.first_names, *person.middle_names])
    return str(Text.from_latex(f"{last}, {first}" if first else last))


def _text(words: str) -> str:
    return html.escape(words, quote=False)


def _key(term: str) -> str:
    return re.sub(r"\W+", "-", term.lower()).strip("-")
