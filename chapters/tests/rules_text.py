"""Rules on a chapter's prose. Each takes a chapter and returns complaints."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from functools import cache

import pybtex.database
from book.tools.notebooks import ROOT, number
from book.tools.notebooks.weight import COLUMNS, SAID, weigh
from sphinx.util.nodes import _make_id
from unrolled_book.predictions import parse

from chapter import Chapter, items, without_fences

CLOSING = ("What goes wrong", "Summary", "Exercises", "Where next", "Sources")
LIMITS = {"minutes": 37, "visible lines": 300, "median": 8, "p90": 16, "longest cell": 25}
_LINK = re.compile(r"(!?)\[(?:[^\]\\]|\\.)*\]\(([^)\s]+)[^)]*\)")
_MYST = {
    "a role": re.compile(r"\{[a-zA-Z][\w:.+-]*\}`"),
    "a directive": re.compile(r"^\s*(?:`{3,}|~{3,}|:{3,})\s*\{", re.MULTILINE),
    "a target": re.compile(r"^\s*\([\w:-]+\)=\s*$", re.MULTILINE),
    "a block break or comment": re.compile(r"^\s*(?:\+\+\+|%\s)", re.MULTILINE),
}


def plain_markdown(chapter: Chapter) -> list[str]:
    """Markdown is plain: MyST's roles and directives show raw in Jupyter and Colab."""
    return [
        f"cell {index} holds {what} of MyST ({match[0].strip()!r}); write plain Markdown"
        for index, cell in enumerate(chapter.cells)
        if cell.cell_type == "markdown"
        for what, pattern in _MYST.items()
        for match in pattern.finditer(cell.source)
    ]


def formulas_hold_no_list(chapter: Chapter) -> list[str]:
    """No line inside a formula begins like a list item: Markdown would make one of it."""
    found = []
    for index, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown":
            text = re.sub(r"(?s)`[^`]*`|\$\$.*?\$\$", "", without_fences(cell.source))
            formulas = (f for part in re.split(r"\n\s*\n", text) for f in part.split("$")[1::2])
            broken = [f for f in formulas if re.search(r"\n\s*(?:[-+*>]|\d+[.)])\s", f)]
            found += [f"cell {index}: break the line elsewhere than in ${f}$" for f in broken]
    return found


def links_lead_somewhere(chapter: Chapter) -> list[str]:
    """Links lead to a file, heading, source or term that is there; images are our own."""
    found = []
    for index, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown":
            for is_image, target in _LINK.findall(_without_code(cell.source)):
                complaint = _bad_link(chapter, is_image, target)
                if complaint:
                    found.append(f"cell {index}: {complaint}")
    return found


def _without_code(markdown: str) -> str:
    return re.sub(r"`[^`]*`|\$[^$]*\$", "", without_fences(markdown))


def _bad_link(chapter: Chapter, is_image: str, target: str) -> str | None:
    scheme, _, key = target.partition(":")
    if scheme == "cite":
        return None if key in bibliography() else f"cite:{key} is not in book/references.bib"
    if scheme == "term":
        return None if key in glossary() else _unknown_term(key)
    if scheme in ("http", "https"):
        return f"the image {target} is on another host" if is_image else None
    if scheme in ("mailto", "attachment", "data"):
        return f"{scheme}: does not belong in a chapter"
    path, _, anchor = target.partition("#")
    if path and not (chapter.path.parent / path).exists():
        return f"{target} leads nowhere; the path is relative to chapters/"
    return f"#{anchor} is not a heading here" if not path and not _has(chapter, anchor) else None


def _unknown_term(key: str) -> str:
    close = difflib.get_close_matches(key, glossary(), n=2)
    return f"term:{key} is not in book/glossary.md" + (f"; near it: {close}" if close else "")


def _has(chapter: Chapter, anchor: str) -> bool:
    titles = [title for level in range(1, 7) for title in chapter.headings(level)]
    return anchor.lower() in {slug(title) for title in titles}


def slug(text: str) -> str:
    """The anchor of a heading: lower case, everything else one hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@cache
def bibliography() -> frozenset[str]:
    """The keys of book/references.bib."""
    path = ROOT / "book" / "references.bib"
    return frozenset(pybtex.database.parse_file(str(path), encoding="utf-8").entries)


@cache
def glossary() -> frozenset[str]:
    """The slugs of the terms of book/glossary.md, as Sphinx makes them: Jacobian, chain-rule-of-…

    The terms are the lines at the margin of its {glossary}.
    """
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^`{3,}\{glossary\}\n(.*?)^`{3,}", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in block.splitlines())
    terms = (line.strip() for line in lines if re.match(r"[^\s:]", line))
    return frozenset(_make_id(f"term-{term}").removeprefix("term-") for term in terms)


def opens_as_every_chapter(chapter: Chapter) -> list[str]:
    """The opening: '# 7. Title', a promise, what you need, one to five outcomes, the minutes."""
    found, opening = [], chapter.opening
    n = number(chapter.path.stem)
    title, _, rest = opening.partition("\n")
    if not re.fullmatch(rf"# {n}\. \S.*", title):
        found.append(f"the first line is {title!r}, expected '# {n}. Title'")
    promise = rest.strip().split("\n\n")[0]
    if not re.match(r"[^\W\d_]|[“\"*\[]", promise) or len(items(promise)):
        found.append(f"after the title comes the promise, one sentence; got {promise[:60]!r}")
    if not re.search(r"you need", opening, re.IGNORECASE):
        found.append("the opening does not say what you need ('What you need')")
    if not 1 <= len(items(opening)) <= 5:
        found.append(
            f"the opening lists {len(items(opening))} outcomes; expected a list of one to five"
        )
    if not re.search(r"\d+\s*(?:–\s*\d+\s*)?(?:minutes?|seconds?)|\bone minute\b", opening):
        found.append("the opening does not say how long the chapter runs ('2 minutes on …')")
    return found


def closes_as_every_chapter(chapter: Chapter) -> list[str]:
    """The closing sections stand in order at the end; at most two 'Going further' before them."""
    found = []
    ends = [h for h in chapter.headings(2) if not h.startswith("Going further")]
    headings = [h for h in ends if h.startswith(CLOSING)]
    order = [next(c for c in CLOSING if h.startswith(c)) for h in headings]
    if order != list(CLOSING):
        found.append(f"the closing sections are {order}, expected {list(CLOSING)}")
    elif ends[-len(CLOSING) :] != headings:
        found.append("a section stands among or after the closing ones; move it up")
    every = chapter.headings(2)
    for k, heading in enumerate(every):
        if heading.startswith("Going further") and not every[k + 1].startswith(
            ("Going further", "Exercises")
        ):
            found.append(f"'## {heading}' stands elsewhere than right before '## Exercises'")
    if (beside := sum(h.startswith("Going further") for h in every)) > 2:
        found.append(f"{beside} sections 'Going further'; expected at most two")
    points = items(chapter.section("Summary"))
    if not 1 <= len(points) <= 5:
        found.append(f"the summary has {len(points)} points; expected a list of one to five")
    return found


def says_how_long_it_takes(chapter: Chapter) -> list[str]:
    """The opening says '… minutes to read' as counted (words / 180 + lines / 12 + figures)."""
    said, counted = SAID.search(chapter.opening), weigh(chapter.notebook).minutes
    if said and int(said[1]) == counted:
        return []
    return [
        f"the opening says {said[1] if said else 'no'} minutes to read, counted: {counted};"
        " run `python -m book.tools.notebooks.weight --write`"
    ]


def is_light(chapter: Chapter) -> list[str]:
    """The main road: at most 37 minutes, 300 visible lines, cells of 8 (median) to 25 lines."""
    w = weigh(chapter.notebook)
    counted = {
        "minutes": w.minutes, "visible lines": w.lines, "median": w.quantile(0.5),
        "p90": w.quantile(0.9), "longest cell": w.quantile(1),
    }  # fmt: skip
    found = [
        f"{what}: {counted[what]}, at most {limit}; fold what does not teach (`hide-input`), or"
        " move it under '## Going further: …'"
        for what, limit in LIMITS.items()
        if counted[what] > limit
    ]
    return found + [f"wider than {COLUMNS} columns: {line}" for line in w.wide]


def predictions_are_in_form(chapter: Chapter) -> list[str]:
    """A prediction's answer is in the form that the page reads, and its key is computed."""
    found = []
    for index, cell in enumerate(chapter.cells):
        key = cell.metadata.get("predict", {}).get("key")
        try:
            one = parse(cell.source) if cell.cell_type == "markdown" else None
        except ValueError as error:
            found.append(f"cell {index}: {error}")
            continue
        if bool(one) != bool(key):
            found.append(f"cell {index}: an answer and the key in the metadata belong together")
        elif one and isinstance(key, dict) != (one.kind in ("choice", "places")):
            found.append(f"cell {index}: the key of a {one.kind} is not a {type(key).__name__}")
        elif one:
            found += [f"cell {index}: the key {k!r} names nothing that the chapter computes"
                      for k in _expressions(key) if not _looks_up(k)]  # fmt: skip
    return found


def _expressions(key: str | dict[str, str]) -> list[str]:
    return list(key.values()) if isinstance(key, dict) else [key]


def _looks_up(expression: str) -> bool:
    names = (node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name))
    return bool(set(names) - set(dir(builtins)) - {"np", "torch"})


def has_one_title(chapter: Chapter) -> list[str]:
    """The title is the only heading of level 1."""
    titles = chapter.headings(1)
    return [] if len(titles) == 1 else [f"headings of level 1: {titles}; expected the title alone"]
