"""The index of the search: an entry for each section of a page and each term of the glossary.

An entry has a title, the page that it is on, its first sentence, its words and the names that its
code defines or takes from numpy and torch. A section in which a chapter explains a term (bold, with
a link to the glossary) has that term, its other names and its definition too. Other names stand in
`glossary.md`, in the entry, `% also: word2vec, CBOW`; a reader of the page does not see them. The
script in `assets/search` ranks the entries with MiniSearch. All of it is loaded when a reader opens
the search, and needs no server. Sphinx's own index is not made: it knows pages, not sections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html.entities import html5
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

GLOSSARY = "book/glossary"
INDEX = "search/index.js"  # below _static
SCRIPTS = ("minisearch.js", "index.js", "engine.js", "results.js")  # loaded in this order
LEFT_OUT = {"Sources", "Where next"}  # the same words at the end of each chapter
BESIDE = ("Exercise", "Summary")  # they tell it again: ranked below the road
TERM = re.compile(r"^(?:term:|https?://.*/book/glossary\.html#term-)(.+)$")
_ALSO = re.compile(r"^ *% also: (.+)$")
_NAMES = re.compile(r"\b(?:def|class)\s+(\w+)|\b(?:nn|F|torch|np)\.(\w+)")
_POINTS = re.compile(r" \((?:code|paper|experiment), .*\)$")  # of an exercise
_SPOKEN = re.compile(
    r"\\(sqrt|log|ln|exp|tanh|max|min|arg|sum|prod)\b|\\(?:operatorname|mathrm|text)\{([^}]*)\}"
)
_PAGE = """<h1>Search</h1>
<form class="bd-search d-flex align-items-center" action="search.html" method="get">
<i class="fa-solid fa-magnifying-glass"></i>
<input type="search" class="form-control" name="q" aria-label="Search the book" autocomplete="off" \
autocapitalize="off" spellcheck="false"></form>
<noscript><p>The search needs JavaScript. Without it, the <a href="book/glossary.html">glossary</a>
lists the terms, and the <a href="index.html">front page</a> the chapters.</p></noscript>"""


@dataclass
class Entry:
    """A section, or a term of the glossary; its fields are what the search weighs."""

    url: str  # below the site
    title: str
    page: str  # its title
    kind: str  # opening, section or beside of a chapter; around, of another page; term
    first: str = ""  # its first sentence, as it is shown
    terms: list[str] = field(default_factory=list)  # with their other names
    text: str = ""
    code: str = ""


# ---- text ----------------------------------------------------------------------------------------


def spoken(formula: str) -> str:
    """The words of a formula: sqrt of \\sqrt{d}, softmax of \\operatorname{softmax}."""
    return " ".join(a or b for a, b in _SPOKEN.findall(formula))


def shown(formula: str) -> str:
    """A short formula as plain characters: \\sqrt{d_k} is √(d_k), \\alpha is α."""
    text = re.sub(r"\\(?:operatorname|math\w+|text|hat|bar|tilde)\{([^{}]*)\}", r"\1", formula)
    text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}|\\frac(\w)(\w)", r"\1\3/\2\4", text)
    text = re.sub(r"\\sqrt\{([^{}]*)\}", r"√(\1)", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: html5.get(f"{m[1]};", m[1]), text)
    return re.sub(r"[\\{}]|(?<=√)\((\w)\)", r"\1", text)


def words(node: nodes.Node, formula: Any) -> str:
    """The node's text, its formulas as the function gives them."""
    if isinstance(node, nodes.math | nodes.math_block):
        return f" {formula(node.astext())} " if formula is spoken else formula(node.astext())
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, nodes.raw | nodes.comment | nodes.image | nodes.system_message):
        return ""
    between = "" if isinstance(node, nodes.TextElement) else " "
    return between.join(words(child, formula) for child in node.children)


def sentence(text: str) -> str:
    """The first sentence of a text, in at most 200 characters."""
    text = " ".join(text.split())
    first = re.split(r"(?<=.{20}[.?!]) (?=[A-Z“\"])", text)[0]  # "Predict." is not yet one
    return first if len(first) <= 200 else first[:200].rpartition(" ")[0] + " …"


# ---- pages ---------------------------------------------------------------------------------------


def _own(section: nodes.Element) -> Iterator[nodes.Node]:
    """What stands in the section itself: no outputs, and nothing that is folded, as answers are."""
    folds = 0
    for node in section.children:
        if isinstance(node, nodes.raw):
            folds += node.astext().count("<details") - node.astext().count("</details")
        elif isinstance(node, nodes.container) and "cell" in node["classes"]:
            yield from (c for c in node.children if "cell_input" in c.get("classes", []))
        elif not folds and not isinstance(node, nodes.section | nodes.title | nodes.comment):
            yield node


def _explained(node: nodes.Node) -> Iterator[str]:
    """The terms that are set in bold and linked in the node."""
    for link in node.findall(nodes.reference) if isinstance(node, nodes.Element) else ():
        key = TERM.match(link.get("refuri", ""))
        if key and (isinstance(link.parent, nodes.strong) or link.next_node(nodes.strong)):
            yield key[1]


def sections(page: str, doctree: nodes.document, glossary: dict[str, Entry]) -> Iterator[Entry]:
    """The entries of a page. glossary: of each term, by its key."""
    top = next(doctree.findall(nodes.section), None)
    if top is None:
        return
    name = words(top.next_node(nodes.title), shown)
    for section in doctree.findall(nodes.section):
        title = _POINTS.sub("", words(section.next_node(nodes.title), shown))
        if title in LEFT_OUT:
            continue
        kind = "opening" if section is top else "beside" if title.startswith(BESIDE) else "section"
        kind = kind if page.startswith("chapters/") else "around"
        anchor = "" if section is top else f"#{section['ids'][0]}"
        entry = Entry(f"{page}.html{anchor}", title, name, kind)
        prose, code = [], []
        for node in _own(section):
            literal = isinstance(node, nodes.literal_block) or "cell_input" in node.get(
                "classes", []
            )
            (code if literal else prose).append(words(node, spoken))
            if not entry.first and isinstance(node, nodes.paragraph):
                entry.first = sentence(words(node, shown))
            for key in () if literal else _explained(node):
                if (term := glossary.get(key)) and term.title not in entry.terms:
                    entry.terms += term.terms
                    prose.append(term.text)
        entry.text, entry.code = " ".join(prose), " ".join(code)
        if entry.text.strip():
            yield entry


def also(source: str) -> dict[str, list[str]]:
    """The other names of the terms in the source of the glossary.

    Raises ValueError for a line `% also:` that stands in no entry.
    """
    found: dict[str, list[str]] = {}
    term = ""
    for line in source.splitlines():
        if other := _ALSO.match(line):
            if not term:
                raise ValueError(f"glossary.md: {line.strip()!r} stands in no entry")
            found.setdefault(term, []).extend(name.strip() for name in other[1].split(","))
        elif re.match(r"[^\s:`{.#]", line):
            term = line.strip()
        elif not line.strip():
            term = ""
    return found


def terms(doctree: nodes.document, names: dict[str, list[str]]) -> dict[str, Entry]:
    """The entries of the glossary by their keys, those of Sphinx's anchors."""
    found = {}
    for item in doctree.findall(nodes.definition_list_item):
        text = " ".join(words(item.next_node(nodes.definition), shown).split())
        for node in item.findall(nodes.term):
            title, key = node.astext(), node["ids"][0]
            entry = Entry(f"{GLOSSARY}.html#{key}", title, "Glossary", "term", sentence(text),
                          [title, *names.get(title, [])], text)  # fmt: skip
            found[key.removeprefix("term-")] = entry
    return found


def entries(app: Sphinx) -> list[Entry]:
    """All entries, in the order of the pages' names."""
    known: dict[str, Entry] = {}
    if GLOSSARY in app.env.found_docs:
        source = Path(app.env.doc2path(GLOSSARY)).read_text("utf8")
        known = terms(app.env.get_doctree(GLOSSARY), also(source))
    pages = sorted(set(app.env.found_docs) - {GLOSSARY})
    found = [e for page in pages for e in sections(page, app.env.get_doctree(page), known)]
    return [*found, *known.values()]


# ---- the build -----------------------------------------------------------------------------------


def packed(entry: Entry, stopwords: set[str]) -> dict[str, Any]:
    """The entry without what no search needs: order does not count, nor what stands everywhere."""

    def lean(text: str) -> str:
        found = re.findall(r"[^\W\d_][\w'’–-]*", text.lower())
        return " ".join(sorted(word for word in found if word not in stopwords))

    names = {a or b for a, b in _NAMES.findall(entry.code)}
    return {**asdict(entry), "text": lean(entry.text), "code": " ".join(sorted(names))}


def script(found: list[Entry]) -> str:
    """The index as a script, which a page from a folder can load too."""
    english = SearchEnglish({})
    told = json.dumps([packed(one, english.stopwords) for one in found], ensure_ascii=False)
    stop = json.dumps(sorted(english.stopwords))
    return (
        f"window.unrolledIndex = {{ entries: {told}, stopwords: new Set({stop}) }};\n"
        f"(function () {{{english.js_stemmer_code}\n"
        "window.unrolledIndex.stem = (word) => new Stemmer().stemWord(word); })();\n"
    )


def without_sphinx_index(app: Sphinx) -> None:
    if app.builder.format == "html":
        app.builder.search = False


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    yield "search", {"title": "Search", "body": _PAGE}, "page.html"


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Each page names the scripts of the search in a template, which loads nothing."""
    if app.builder.format != "html" or "body" not in context:
        return
    paths = [context["pathto"](f"_static/search/{name}", resource=True) for name in SCRIPTS]
    tags = "".join(f'<script src="{path}"></script>' for path in paths)
    context["body"] += f'\n<template id="u-search">{tags}</template>\n'


def write_index(app: Sphinx, error: Exception | None) -> None:
    if not error and app.builder.format == "html":
        Path(app.outdir, "_static", INDEX).write_text(script(entries(app)), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_js_file("search/load.js", loading_method="defer")
    app.connect("builder-inited", without_sphinx_index, priority=100)
    app.connect("html-collect-pages", search_page)
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", write_index, priority=850)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
