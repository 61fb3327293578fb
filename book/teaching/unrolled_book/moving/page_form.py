"""A figure that moves as one piece of HTML: all states drawn, no kernel, nothing to load.

Neighbouring states share most of their lines. So the page holds a table of lines and, for each
state, the indices of its lines; `explore.js` puts the drawing together.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import math
import re
from collections import Counter
from pathlib import Path

from unrolled_book import figures
from unrolled_book.figures.inline_svg import HANDLE
from unrolled_book.moving.embed import embed, with_script
from unrolled_book.moving.states import Axis, Plan

PREFIX = "unrolled-explore"  # of the identifiers until the whole figure is drawn


def page_form(plan: Plan, max_kilobytes: float) -> str:
    """Draw every state and return the `<figure>`. Raises ValueError if it is too heavy.

    The weight is estimated after 2, 4, 8, … states, so a grid that is far too fine fails early.
    """
    states = plan.states()
    drawings: list[str] = []
    first = 0.0
    for state in states:
        drawings.append(plan.svg(state, PREFIX))
        n = len(drawings)
        if _size(drawings[-1]) != _size(drawings[0]):
            raise ValueError(
                f"draw must return figures of one size; {plan.values(state)} gives"
                f" {_size(drawings[-1])}, the first state {_size(drawings[0])} (points)"
            )
        if n == 1:
            first = _kilobytes(_document(plan, states[:1], drawings))
        elif n & (n - 1) == 0 and n < len(states):  # 2, 4, 8, …: is it worth drawing on?
            so_far = _kilobytes(_document(plan, states[:n], drawings))
            expected = first + (so_far - first) / (n - 1) * (len(states) - 1)
            if expected > 1.5 * max_kilobytes:
                raise ValueError(_too_heavy(plan, "about ", expected, max_kilobytes))
    document = _document(plan, states, drawings)
    if (weight := _kilobytes(document)) > max_kilobytes:
        raise ValueError(_too_heavy(plan, "", weight, max_kilobytes))
    return document.replace(PREFIX, "u" + hashlib.sha256(document.encode()).hexdigest()[:8])


def _size(drawing: str) -> str:
    return drawing.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].replace(" ", " × ")


def _kilobytes(document: str) -> float:
    return len(gzip.compress(document.encode(), mtime=0)) / 1000


def _too_heavy(plan: Plan, about: str, kilobytes: float, limit: float) -> str:
    frames = math.prod(len(axis.values) for axis in plan.axes)
    longest = max(plan.axes, key=lambda axis: len(axis.values))
    grid = " × ".join(f"{axis.name} {len(axis.values)}" for axis in plan.axes)
    keep = max(1, int(len(longest.values) * limit / kilobytes))
    return (
        f"{frames} frames ({grid}) would weigh {about}{kilobytes:.0f} kB gzipped, more than"
        f" max_kilobytes={limit:g}. Thin an axis (about {keep} values of {longest.name} would fit),"
        " draw fewer points in each frame, or raise max_kilobytes."
    )


def _document(plan: Plan, states: list[tuple[int, ...]], drawings: list[str]) -> str:
    lines, runs = _table(drawings)
    data = {
        "lines": lines,
        "frames": runs,
        "alts": [plan.alt(state) for state in states],
        "axes": [{"texts": axis.texts} for axis in plan.axes],
    }
    handles = [_handle(drawing) for drawing in drawings]
    if all(handles):
        data["handles"] = handles
    first = drawings[states.index(plan.start)] if plan.start in states else drawings[0]
    controls = "\n".join(_control(axis, f"{PREFIX}-axis{k}", k) for k, axis in enumerate(plan.axes))
    paper = _for_paper(plan, states, drawings)
    body = f"""{paper}<div class="u-frame">{figures.label(first, plan.alt(plan.start))}</div>
<form onsubmit="return false" autocomplete="off">
{controls}
</form>
<p class="u-status" role="status"></p>"""
    here = Path(__file__)
    figure = embed(
        "u-explore", body, data=data, style=here.with_name("explore.css"),
        script=here.with_name("explore.js"), caption=figures.figcaption(plan.caption),
    )  # fmt: skip
    if "handles" not in data:
        return figure
    style = ".u-handle{cursor:grab;touch-action:none}"
    return with_script(figure, style, here.with_name("drag.js"))


def _for_paper(plan: Plan, states: list[tuple[int, ...]], drawings: list[str]) -> str:
    """The still, if it is not the start: hidden on a screen, the only thing shown on paper."""
    if plan.still == plan.start or plan.still not in states:
        return ""
    drawing = drawings[states.index(plan.still)].replace(PREFIX, f"{PREFIX}-still")
    rules = ".u-still[hidden]{display:block!important}.u-still~:is(.u-frame,form){display:none}"
    return (
        f"<style>@media print{{{rules}}}</style>\n"
        f'<div class="u-still" hidden>{figures.label(drawing, plan.alt(plan.still))}</div>\n'
    )


def _handle(drawing: str) -> list[float] | None:
    """Where the marker named "handle" stands, in the units of the viewBox."""
    _, found, group = drawing.partition(f'class="u-{HANDLE}"')
    marker = re.search(r"<use [^>]*>", group)
    if not found or not marker:
        return None
    return [float(re.search(rf' {side}="([^"]*)"', marker[0])[1]) for side in "xy"]


def _table(drawings: list[str]) -> tuple[list[str], list[list[int]]]:
    """Each line once, and each drawing as runs [from, to, from, to, …] of lines.

    The k-th copy of a line within a drawing counts as a new line, so that a drawing similar to the
    first is one long run with a few exceptions.
    """
    rows: dict[tuple[str, int], int] = {}
    runs: list[list[int]] = []
    for drawing in drawings:
        copies: Counter[str] = Counter()
        run: list[int] = []
        for line in drawing.split("\n"):
            at = rows.setdefault((line, copies[line]), len(rows))
            copies[line] += 1
            if run and run[-1] == at:
                run[-1] = at + 1
            else:
                run += [at, at + 1]
        runs.append(run)
    return [line for line, _ in rows], runs


def _control(axis: Axis, name: str, k: int) -> str:
    label = html.escape(axis.label)
    texts = [html.escape(text) for text in axis.texts]
    if not axis.slides:
        choices = "".join(
            f'<label><input type="radio" name="{name}" value="{i}"'
            f"{' checked' if i == axis.start else ''}>{text}</label>"
            for i, text in enumerate(texts)
        )
        return (
            f'<fieldset class="u-axis" data-axis="{k}"><legend>{label}</legend>'
            f'<div class="u-choices">{choices}</div></fieldset>'
        )
    last = len(texts) - 1
    at_end = [' aria-disabled="true"' if axis.start == end else "" for end in (0, last)]
    return (
        f'<div class="u-axis" data-axis="{k}">'
        f'<div class="u-name"><label for="{name}">{label}</label>'
        f'<output for="{name}" aria-live="off">{texts[axis.start]}</output></div>'
        f'<div class="u-track"><button type="button" value="-1"{at_end[0]}'
        f' aria-label="previous {label}">‹</button>'
        f'<input type="range" id="{name}" min="0" max="{last}" value="{axis.start}"'
        f' aria-valuetext="{texts[axis.start]}">'
        f'<button type="button" value="1"{at_end[1]} aria-label="next {label}">›</button></div>'
        "</div>"
    )
