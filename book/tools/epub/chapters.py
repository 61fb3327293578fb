"""A page of the site → the body of an XHTML file of the EPUB."""

from __future__ import annotations

import html
import re

from bs4 import BeautifulSoup, Tag
from unrolled_book.figures.palette import COLOURS, PALETTE

from book.tools.epub.drawings import Drawing, drawing

# What keeps its class, and as what. Every other class belongs to the web page.
KEPT = {
    "u-predict": "predict", "u-number": "number", "text-right": "number", "u-mark": "mark",
    "u-typed": "typed", "u-typed-token": "token", "u-typed-bytes": "bytes", "u-game-text": "game",
    "u-term": "term", "u-no": "no", "u-equation": "equation", "math": "math", "output": "output",
    "live": "live", "state": "state",
}  # fmt: skip
ATTRIBUTES = {"id", "href", "scope", "colspan", "rowspan", "start"}
PICTURE = {"id", "src", "alt", "style"}
WORDS = dict.fromkeys(("k", "kc", "kd", "kn", "ow"), "b") | dict.fromkeys(("c", "c1", "sd"), "i")
DEEPEST = 10  # code that starts this far in, in twos, or farther is wrapped as if it started there
KEPT |= {f"i{n}": f"i{n}" for n in range(DEEPEST + 1)}


def without_controls(body: Tag, moving: str, live: str) -> None:
    """Leave of what a reader of the web page moves or fills in what a still book can show.

    moving: a selector of the figures that move; live: the page's address.
    """
    _answers(body)
    for figure in body.select(moving):
        _still(figure, live)
    for drawing_of_links in body.select(".u-map"):  # a list below it says the same
        link = f'<p class="live"><a href="{live}">The drawing is on the web page</a></p>'
        drawing_of_links.replace_with(_parsed(link))
    for cell in body.select(".tag_exercise"):
        if cell.select_one("pre").get_text().lstrip().startswith("check("):
            cell.decompose()
    for sample in body.select(".u-swatches span"):
        sample.replace_with(_sample(sample["style"]))
    for fold in body.select("details"):
        if fold.summary.get_text() != "Solution":
            fold.summary.name = "h3"
            fold.unwrap()
    for number in body.select("a.u-no"):  # a link to its own place, to be copied on the web page
        number.name = "span"
        del number["href"]
    for unwanted in body.select("style, script, noscript, form, button, .headerlink"):
        unwanted.decompose()


def _answers(body: Tag) -> None:
    """Take the answers out of the predictions, to the end of the chapter; links lead both ways."""
    section = _parsed("<section><h2>Answers to the predictions</h2></section>").section
    for box in body.select(".u-asked"):
        name, fold = box["data-name"], box.find("details", recursive=False)
        box["id"] = f"asked-{name}"
        fold.insert_before(_parsed(f'<p class="live"><a href="#answer-{name}">Answer</a></p>'))
        fold.summary.decompose()
        answer = _new("div", {"id": f"answer-{name}"})
        answer.extend(fold.extract().contents[:])
        back = _parsed(f' <a href="#asked-{name}">(the question)</a>')
        answer.p.append(back)
        section.append(answer)
    if section.div:
        body.append(section)


def _sample(style: str) -> Tag:
    """A square of a colour of the book, as a drawing: `background:var(--u-accent)`."""
    light = PALETTE[style[style.index("--u-") + 4 : -1]]
    role = next(role for role, colours in COLOURS.items() if colours[0] == light)
    fill = f"fill: var(--u-{role}, {light})"
    return _parsed(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12" aria-label="{role}:">'
        f'<path d="M 0 0 h 12 v 12 h -12 z" style="{fill}"/></svg>'
    )


def _still(figure: Tag, live: str) -> None:
    state = ""
    if still := figure.select_one(".u-still"):
        figure.select_one(".u-frame").decompose()
        still.unwrap()
    else:
        state = "; ".join(_setting(axis) for axis in figure.select(".u-axis"))
    for column in reversed([i for i, th in enumerate(figure.select("thead th")) if i]):
        cells = [row.find_all(["td", "th"])[column] for row in figure.select("tbody tr")]
        if not any(cell.get_text().strip() for cell in cells):  # what a game has yet to fill in
            for cell in [*cells, figure.select("thead th")[column]]:
                cell.decompose()
    section = figure.find_parent("section", id=True)
    anchor = section["id"].split("--", 1)[1] if section else ""
    if not figure.figcaption:
        figure.append(_new("figcaption", {}))
    if state:
        figure.figcaption.insert_before(_parsed(f'<p class="state">{state}</p>'))
    link = f' <a class="live" href="{live}#{anchor}">Move it on the web page</a>'
    figure.figcaption.append(_parsed(link))


def _setting(axis: Tag) -> str:
    name = axis.select_one("label, legend")
    chosen = axis.select_one("label:has(input[checked])") or axis.output
    return f"{name.get_text().strip()}: {html.escape(chosen.get_text().strip(), quote=False)}"


def drawings(body: Tag) -> list[Drawing]:
    """Replace each drawing by its picture, and return the drawings."""
    found = []
    for svg in body.select("svg"):
        one = drawing(svg)
        size = f"width: {one.width:g}em"
        source = f"../pictures/{one.name}"
        svg.replace_with(_new("img", {"src": source, "alt": one.alt, "style": size}))
        found.append(one)
    return found


def solutions(body: Tag, page: str, own: str) -> list[Tag]:
    """Take the solutions out of a page: each with its exercise's heading, and links both ways.

    page: the name of the page's file; own: that of the file of its solutions.
    """
    found = []
    folds = [fold for fold in body.select("details") if fold.summary.get_text() == "Solution"]
    for i, fold in enumerate(folds, 1):
        exercise = fold.find_parent("section", id=True)
        title = exercise.find(["h2", "h3"]).decode_contents()
        there = f'<p class="live"><a href="{own}#solution-{i}">Solution</a></p>'
        fold.insert_before(_parsed(there))
        fold.summary.decompose()
        section = _new("section", {"id": f"solution-{i}"})
        section.append(_parsed(f'<h2><a href="{page}#{exercise["id"]}">{title}</a></h2>'))
        section.extend(fold.contents[:])
        fold.decompose()
        found.append(section)
    return found


def headed(title: str, sections: list[Tag]) -> Tag:
    """A page of sections below a title."""
    body = _new("article", {})
    body.append(_parsed(f"<h1>{html.escape(title, quote=False)}</h1>"))
    body.extend(sections)
    return body


def on_the_web(live: str, moving: int) -> Tag:
    """The last line of a chapter: where its page is."""
    figures = f" with {moving} figures that move" if moving > 1 else ""
    link = f'<a href="{live}">{live}</a>'
    return _parsed(f'<p class="live">This chapter on the web{figures}: {link}</p>')


def tidy(body: Tag) -> None:
    """Plain XHTML: code line by line, no wrappers, no classes or attributes of the web page."""
    for pre in body.select("pre"):
        _code(pre)
    for code in body.select(":not(pre) > code"):
        code.string = code.get_text()
    for tag in body.find_all(True):
        classes = [KEPT[each] for each in tag.get("class", "").split() if each in KEPT]
        allowed = PICTURE if tag.name == "img" else ATTRIBUTES
        tag.attrs = {name: value for name, value in tag.attrs.items() if name in allowed}
        if classes:
            tag["class"] = " ".join(classes)
    for wrapper in body.select("div, span"):
        if not wrapper.attrs:
            wrapper.unwrap()
    for table in body.select("table"):
        table.wrap(_new("div", {"class": "scroll"}))
    for paragraph in body.select(":is(td, th) > p:only-child"):
        paragraph.unwrap()


def _code(pre: Tag) -> None:
    """Lines that can wrap, each hanging from where it starts; key words bold, comments italic."""
    lines: list[str] = [""]
    for text in pre.find_all(string=True):
        kind = WORDS.get(text.parent.get("class", ""), "")
        for i, piece in enumerate(text.split("\n")):
            if i:
                lines.append("")
            escaped = html.escape(piece, quote=False)
            lines[-1] += f"<{kind}>{escaped}</{kind}>" if kind and piece else escaped
    spans = []
    for line in "\n".join(lines).strip("\n").split("\n"):
        plain = re.sub(r"<.*?>", "", line)
        start = min((len(plain) - len(plain.lstrip())) // 2, DEEPEST)
        spans.append(f'<span class="i{start}">{line}\n</span>')
    output = pre.css.closest(".cell_output")
    kind = ' class="output"' if output else ""
    pre.replace_with(_parsed(f"<pre{kind}><code>{''.join(spans)}</code></pre>"))


def _new(name: str, attributes: dict[str, str]) -> Tag:
    return BeautifulSoup("", "html.parser").new_tag(name, attrs=attributes)


def _parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser", multi_valued_attributes=None)
