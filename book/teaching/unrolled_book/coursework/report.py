"""What the instructor reads about the class: for each exercise a figure, mistakes and times."""

from __future__ import annotations

from collections import Counter
from statistics import mean, median

from unrolled_book.coursework.feedback import SIGNS, WORDS, code, page, text
from unrolled_book.coursework.marks import STATES, Grade, Mark

_MOST_MISTAKES = 8
_BINS = 10
_STYLE = """
body { max-width: 60rem; }
.facts { display: flex; flex-wrap: wrap; gap: .6rem 2rem; margin: 1rem 0 1.5rem; padding: 0; }
.facts div { min-width: 6rem; }
.facts dt { color: var(--soft); font-size: .875rem; }
.facts dd { margin: 0; font-size: 1.35rem; font-weight: 600; }
section { border-left: 0; }
.bar { display: flex; height: 1.5rem; margin: .7rem 0 .4rem; border-radius: .3rem; overflow: hidden;
  gap: 2px; }
.bar span { min-width: 3px; }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .2rem 0 .6rem; padding: 0;
  list-style: none; font-size: .9375rem; }
.key i { display: inline-block; width: .75rem; height: .75rem; margin-right: .35rem;
  border-radius: .15rem; vertical-align: -.05rem; }
.right i, span.right, .bins span { background: var(--right); }
.partly i, span.partly { background: var(--partly); }
.wrong i, span.wrong { background: var(--wrong); }
.unwritten i, span.unwritten { background: var(--unwritten); }
.missing i, span.missing { background: var(--missing); }
.error i, span.error { background: var(--error); }
.unread i, span.unread { background: var(--line); }
.bins { display: flex; align-items: flex-end; gap: 3px; height: 7rem; margin: .5rem 0 0;
  border-bottom: 1px solid var(--line); }
.bins div { flex: 1; display: flex; flex-direction: column; justify-content: flex-end;
  height: 100%; text-align: center; font-size: .8125rem; color: var(--soft); }
.bins span { display: block; border-radius: .2rem .2rem 0 0; }
.scale { display: flex; justify-content: space-between; font-size: .8125rem; color: var(--soft); }
td.n { width: 4rem; text-align: right; padding-right: .8rem; }
.mistakes { margin: .3rem 0 .6rem; }
.mistakes th { white-space: nowrap; }
.mistakes th.n { padding-right: .8rem; }
"""


def html(grades: list[Grade], title: str) -> str:
    """The class report as one HTML file that needs no other."""
    marks = zip(*(grade.marks for grade in grades), strict=True)
    parts = [f"<h1>{text(title)}</h1>", _facts(grades), _totals(grades)]
    parts += [_exercise(each) for each in marks]
    parts.append(_errors(grades))
    return page(f"{title}: the class", "".join(parts), _STYLE)


def _facts(grades: list[Grade]) -> str:
    handed_in = [grade for grade in grades if grade.submitted]
    totals = [grade.total for grade in handed_in]
    out_of = grades[0].out_of if grades else 0.0
    facts = {"students": f"{len(grades)}", "handed in": f"{len(handed_in)}"}
    if totals:
        facts["median"] = f"{median(totals):.3g} of {out_of:g}"
        facts["mean"] = f"{mean(totals):.3g} of {out_of:g}"
    late = sum(bool(grade.late) for grade in grades)
    errors = sum(bool(grade.error) for grade in grades)
    facts |= {"late": f"{late}"} if late else {}
    facts |= {"not graded whole": f"{errors}"} if errors else {}
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _totals(grades: list[Grade]) -> str:
    """How many students have a tenth, two tenths, … of the points."""
    handed_in = [grade for grade in grades if grade.submitted and grade.out_of]
    if not handed_in:
        return ""
    bins = [0] * _BINS
    for grade in handed_in:
        bins[min(_BINS - 1, int(_BINS * grade.total / grade.out_of))] += 1
    columns = "".join(
        f'<div>{n or ""}<span style="height:{85 * n / max(bins):.1f}%"></span></div>' for n in bins
    )
    said = ", ".join(f"{i * 10} to {i * 10 + 10} %: {n}" for i, n in enumerate(bins) if n)
    return (
        "<section><h2>Points</h2>"
        f'<div class="bins" role="img" aria-label="Students by share of the points. {said}">'
        f"{columns}</div>"
        '<div class="scale" aria-hidden="true"><span>0 %</span><span>50 %</span>'
        "<span>100 % of the points</span></div></section>"
    )


def _exercise(marks: tuple[Mark, ...]) -> str:
    first, n = marks[0], len(marks)
    count = Counter(mark.state for mark in marks)
    shown = [state for state in STATES if count[state]]
    said = ", ".join(f"{count[s]} {WORDS[s]}" for s in shown)
    bar = "".join(f'<span class="{s}" style="flex:{count[s]}"></span>' for s in shown)
    key = "".join(
        f'<li class="{s}"><i></i>{SIGNS[s]} {count[s]} {WORDS[s]} ({count[s] / n:.0%})</li>'
        for s in shown
    )
    read = [mark.points for mark in marks if mark.state != "unread"]
    average = f"on average {mean(read):.3g} of " if read else ""
    return (
        f"<section><h2>{code(first.title)}</h2>"
        f'<p class="soft"><code>{text(first.name)}</code> · {average}{first.out_of:g} points'
        f"{_times(marks)}</p>"
        f'<div class="bar" role="img" aria-label="{said}">{bar}</div>'
        f'<ul class="key">{key}</ul>{_mistakes(marks)}</section>'
    )


def _times(marks: tuple[Mark, ...]) -> str:
    seconds = [mark.seconds for mark in marks if mark.seconds]
    if not seconds:
        return ""
    return f" · CPU time: median {median(seconds):.2f} s, at most {max(seconds):.2f} s"


def _mistakes(marks: tuple[Mark, ...]) -> str:
    found: Counter[str] = Counter()
    for mark in marks:
        if mark.state in ("partly", "wrong"):
            found.update(mark.causes or filter(None, (mark.slip,)))
    if not found:
        return ""
    common = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    rows = "".join(
        f'<tr><td class="n">{n}</td><td>{code(slip)}</td></tr>'
        for slip, n in common[:_MOST_MISTAKES]
    )
    left = len(common) - _MOST_MISTAKES
    more = f'<p class="soft">and {left} more kinds</p>' if left > 0 else ""
    head = '<thead><tr><th class="n">students</th><th>mistake</th></tr></thead>'
    return f'<table class="mistakes">{head}<tbody>{rows}</tbody></table>{more}'


def _errors(grades: list[Grade]) -> str:
    found = [(grade.student, [grade.error, *grade.flags, *grade.problems]) for grade in grades]
    rows = "".join(
        f"<tr><td>{text(student)}</td><td>{code('; '.join(filter(None, said)))}</td></tr>"
        for student, said in found
        if any(said)
    )
    if not rows:
        return ""
    head = "<thead><tr><th>student</th><th>what was odd</th></tr></thead>"
    return f"<section><h2>Files to look at</h2><table>{head}<tbody>{rows}</tbody></table></section>"
