"""The landing page: what it counts, cites and lists is made when the book is built.

`index.md` has the words. Its comments `<!-- front -->`, `<!-- rungs -->` and `<!-- contents -->`
become the buttons and the citation (CITATION.cff), a short ladder (the recorded runs) and the
chapters (`_toc.yml`) with their minutes; a name such as ((exercises)) becomes a number.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from unrolled_book import coursework, exercises
from unrolled_book.experiments import ladder, record

_MINUTES = re.compile(r"\b(\d+) minutes to read")
_NUMBER = re.compile(r"\(\((\w+)\)\)")
_MARK = re.compile(r"<!-- (front|rungs|contents) -->")
LONG = 70  # characters: a longer promise is cut at its first clause


@dataclass(frozen=True)
class Chapter:
    """A chapter as the contents show it. number: "16b"; minutes: counted, see `weight.py`."""

    page: str
    number: str
    title: str
    line: str
    minutes: int

    @classmethod
    def read(cls, root: Path, page: str) -> Chapter:
        """The chapter from its opening. Raises ValueError where it does not say its minutes."""
        opening = "".join(
            json.loads((root / f"{page}.ipynb").read_text("utf8"))["cells"][0]["source"]
        )
        heading, _, rest = opening.partition("\n")
        number, _, title = heading.removeprefix("# ").partition(". ")
        if not (minutes := _MINUTES.search(opening)):
            raise ValueError(f"{page}.ipynb: the opening says no '… minutes to read'")
        promise = " ".join(rest.strip().partition("\n\n")[0].split()).strip("*")
        return cls(page, number, title.strip(), one_line(promise), int(minutes[1]))


def one_line(promise: str) -> str:
    """The promise without its opening words, if it is long as far as its first clause goes."""
    text = re.sub(r"^(In this chapter )?(we )?", "", promise, flags=re.IGNORECASE)
    text = re.split(r"(?<=[.?!])[\"”]? ", text)[0]
    if len(text) > LONG:
        text = re.split(r"(?<=.{40})[,;:] ", text)[0]
    text = re.sub(r'"([^"]*)"', r"“\1”", text.rstrip(".,;:"))
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


def parts(root: Path) -> dict[str, list[Chapter]]:
    """The parts with chapters, by caption."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
    found = {}
    for part in toc["parts"]:
        files = [e["file"] for each in part["chapters"] for e in (each, *each.get("sections", ()))]
        chapters = [Chapter.read(root, name) for name in files if name.startswith("chapters/")]
        if chapters:
            found[part["caption"]] = chapters
    return found


def contents(found: dict[str, list[Chapter]]) -> str:
    """The list of the chapters; one with a letter stands below the one that has its number."""
    out = []
    for caption, chapters in found.items():
        items: list[str] = []
        for one in chapters:
            entry = (
                f'<span class="u-n">{one.number}</span> '
                f'<a href="{one.page}.html">{escape(one.title)}</a> '
                f'<span class="u-min">{one.minutes}&nbsp;min</span>'
                f'<span class="u-one">{escape(one.line)}</span>'
            )
            if one.number[-1].isalpha():
                items[-1] = f"{items[-1].removesuffix('</li>')}<ul><li>{entry}</li></ul></li>"
            else:
                items.append(f"<li>{entry}</li>")
        out.append(
            f'<section class="u-part"><h3>{escape(caption)}</h3><ol>{"".join(items)}</ol></section>'
        )
    return f'<div class="u-road">{"".join(out)}</div>'


# ---- the citation --------------------------------------------------------------------------------


def cited(cff: dict[str, Any], year: str, url: str) -> tuple[str, str]:
    """The citation as a line and as BibTeX, from what CITATION.cff says."""
    names = [a.get("name") or f"{a['given-names']} {a['family-names']}" for a in cff["authors"]]
    title, version = cff["title"], cff["version"]
    line = f"{', '.join(names)} ({year}). {title}. Version {version}. {url}"
    authors = " and ".join(f"{{{n}}}" if a.get("name") else n
                           for n, a in zip(names, cff["authors"], strict=True))  # fmt: skip
    fields = {"author": authors, "title": f"{{{title}}}", "year": year,
              "note": f"Version {version}", "url": url}  # fmt: skip
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    key = re.findall(r"\w+", title)[0].lower()
    return line, f"@misc{{{key},\n{body}\n}}"


def front(app: Sphinx, first: Chapter) -> str:
    """Authors, version and date, the buttons, and how to cite the book."""
    cff = yaml.safe_load(Path(app.srcdir, "CITATION.cff").read_text("utf8"))
    line, bibtex = cited(cff, app.config.copyright, app.config.html_baseurl)
    day = max(app.last_changes.values(), default=None)
    dated = f', <time datetime="{day}">{day.day} {day:%B %Y}</time>' if day else ""
    return f"""<p class="u-by">{escape(app.config.author)} · version {app.config.release}{dated}</p>
<p class="u-buttons"><a class="u-button u-go" href="{first.page}.html">Start with chapter \
{first.number} · {first.minutes} minutes</a> <!-- editions --></p>
<details class="u-cite-it" id="cite"><summary>Cite</summary><p>{escape(line)}</p>
<div class="highlight"><pre>{escape(bibtex)}</pre></div></details>"""


# ---- the ladder ----------------------------------------------------------------------------------


def rungs() -> list[dict[str, Any]]:
    """The lowest rung, and of each record the best one by the validation text."""
    best = {"": ladder.rows()[0]}
    for name in ladder.RECORDS:
        if name in record.names():
            rows = record.load(name)["metrics"]["rows"]
            best[name] = min(rows, key=lambda row: row["valid_bits_per_byte"])
    return list(best.values())


def _name(row: dict[str, Any]) -> str:
    return row["model"].partition(" (")[0].partition(",")[0]


def _bits(row: dict[str, Any]) -> float:
    return row["test_bits_per_byte"]


def verdict(rows: list[dict[str, Any]], later: list[dict[str, Any]]) -> str:
    """Which of the two best needs fewer bits after the same time, and which after twice the time.

    Raises ValueError where the two did not take the same time, to within a twentieth.
    """
    best, second = sorted(rows, key=_bits)[:2]
    if not 0.95 < best["seconds"] / second["seconds"] < 1.05:
        raise ValueError(f"{best['model']} and {second['model']} took different times; say it so")
    winner = _name(best)
    then = "still so" if _name(min(later, key=_bits)) == winner else "the other way round"
    return (
        "Bits per byte on plays that no model has read; fewer are better. <b>After the same time"
        f" our {winner} is ahead of our {_name(second)}</b>, {_bits(best):.3f} to"
        f" {_bits(second):.3f}; after twice that time it is {then}"
    )


def short_ladder() -> str:
    """The rungs as bars, with the sentence that they bear out."""
    rows = rungs()
    most = max(map(_bits, rows))
    bars = "".join(
        f'<li><b>{escape(_name(row))}</b><span><i style="--p:{_bits(row) / most:.4f}"></i>'
        f"<em>{_bits(row):.2f}</em></span></li>"
        for row in rows
    )
    said = verdict(rows, record.load("c20_longer")["metrics"]["rows"])
    return f"""<figure class="u-rungs"><ol class="u-bars">{bars}</ol><figcaption>{said}
(<a href="chapters/20_transformer_lm.html#the-plays-at-equal-time-or-at-equal-text">chapter 20</a>).
<a href="book/ladder.html">The whole ladder</a></figcaption></figure>"""


# ---- the page ------------------------------------------------------------------------------------


def numbers(root: Path, found: dict[str, list[Chapter]]) -> dict[str, int]:
    """What the page counts, by the names that index.md gives it."""
    chapters = [one for some in found.values() for one in some]
    tasks = [exercises.load(f"{folder}/{name}")
             for folder, names in exercises.chapters().items() for name in names]  # fmt: skip
    mistakes = tomllib.loads((root / "book" / "misconceptions.toml").read_text("utf8"))
    syllabi = Path(coursework.__file__).with_name("syllabi").glob("*.toml")
    return {
        "chapters": len(chapters),
        "hours": round(sum(one.minutes for one in chapters) / 60),
        "exercises": len(tasks),
        "wrong": sum(len(one.wrong) for one in tasks),
        "beliefs": sum(map(len, mistakes.values())),
        "syllabi": sum(1 for _ in syllabi),
    }


def filled(body: str, made: dict[str, str], counted: dict[str, int]) -> str:
    """The page's HTML with what its comments and names stand for.

    Raises ValueError for a name that nothing is counted under, and for a comment that is missing.
    """
    if missing := sorted(set(made) - set(_MARK.findall(body))):
        raise ValueError(f"index.md has no <!-- {missing[0]} -->")
    if unknown := sorted(set(_NUMBER.findall(body)) - set(counted)):
        raise ValueError(f"index.md asks for (({unknown[0]})); counted are {sorted(counted)}")
    body = _NUMBER.sub(lambda m: f"{counted[m[1]]:,}", body)
    return _MARK.sub(lambda m: made[m[1]], body)


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Fill the landing page."""
    if doctree is None or page != app.config.root_doc or app.builder.format != "html":
        return
    root = Path(app.srcdir)
    found = parts(root)
    first = next(iter(found.values()))[0]
    made = {"front": front(app, first), "rungs": short_ladder(), "contents": contents(found)}
    context["body"] = filled(context["body"], made, numbers(root, found))


def renew(app: Sphinx, *_: object) -> list[str]:
    """The page counts all others: it is written in every build."""
    return [app.config.root_doc]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("env-updated", renew)
    app.connect("html-page-context", tell_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
