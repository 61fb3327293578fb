"""The page that one student reads: what passed, the first failing test, the likely cause.

What a student wrote (names, messages, lines of code) is text here and never markup: it is escaped
in HTML and stands in indented blocks in Markdown.
"""

from __future__ import annotations

import html as htmllib
import re
import unicodedata

from unrolled_book.coursework.marks import Grade, Mark

WORDS = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not right",
    "unwritten": "not written yet",
    "missing": "missing",
    "error": "not graded",
    "unread": "not read yet",
}
SIGNS = {
    "right": "✓",
    "partly": "◐",
    "wrong": "✗",
    "unwritten": "○",
    "missing": "–",
    "error": "!",
    "unread": "…",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&-])")
_STYLE = """
:root {
  color-scheme: light dark;
  --text: #1c2430; --soft: #55606e; --page: #ffffff; --card: #f5f7fa; --line: #d7dde5;
  --right: #0072b2; --partly: #56b4e9; --wrong: #d55e00; --unwritten: #9aa4b1;
  --missing: #c9d0d9; --error: #cc79a7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e8ee; --soft: #a3adba; --page: #14181d; --card: #1d232a; --line: #35404c;
    --right: #4aa8e0; --partly: #9ad3f5; --wrong: #f08a4b; --unwritten: #7c8794;
    --missing: #4a5561; --error: #dd9bbf;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 46rem; background: var(--page);
  color: var(--text); font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.1rem; margin: 0; }
p { margin: .5rem 0; }
.soft { color: var(--soft); }
.big { font-size: 1.25rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: 1.2rem 0; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .875rem; }
th, td { padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; padding-right: 0; font-variant-numeric: tabular-nums; }
th.n { white-space: nowrap; }
a { color: inherit; }
section {
  margin: 1rem 0; padding: .9rem 1rem; background: var(--card); border-radius: .5rem;
  border-left: .3rem solid var(--line);
}
section.right { border-color: var(--right); }
section.partly { border-color: var(--partly); }
section.wrong { border-color: var(--wrong); }
section.error { border-color: var(--error); }
pre {
  margin: .6rem 0; padding: .6rem .7rem; background: var(--page);
  white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.4;
  border: 1px solid var(--line); border-radius: .35rem;
}
pre, code { font-family: ui-monospace, "Cascadia Code", Menlo, Consolas, monospace; }
pre { font-size: .8125rem; }
code { font-size: .92em; }
.cause { border-top: 1px solid var(--line); padding-top: .5rem; }
@media print { section { break-inside: avoid; } }
"""


def markdown(grade: Grade, title: str) -> str:
    """The student's page as Markdown."""
    lines = [f"# {_plain(title)}", "", f"{_plain(visible(grade.student))}: **{_total(grade)}**"]
    lines += ["", *([_late(grade), ""] if _late(grade) else [])]
    lines += ["| exercise | points | |", "|:--|--:|:--|"]
    for mark in grade.marks:
        points = f"{mark.points:g} of {mark.out_of:g}"
        lines.append(f"| {_plain(mark.name)} | {points} | {SIGNS[mark.state]} {_result(mark)} |")
    for mark in grade.marks:
        points = f"{mark.points:g} of {mark.out_of:g} points"
        lines += ["", f"## {_plain(mark.name)}: {mark.title}", ""]
        lines += [f"{SIGNS[mark.state]} {points}. {_plain(_verdict(mark))}"]
        lines += ["", *("    " + line for line in _block(mark))] if mark.lines else []
        for cause in mark.causes:
            lines += ["", f"**Likely cause:** {sentence(cause)}"]
        lines += ["", f"**Hint:** {sentence(mark.hint)}"] if mark.hint else []
        for note in mark.notes:
            lines += ["", f"Note: {_plain(sentence(visible(note)))}"]
    if grade.problems:
        lines += ["", "## What was handed in", ""]
        lines += [f"- {_plain(visible(problem))}" for problem in grade.problems]
    return "\n".join(lines) + "\n"


def html(grade: Grade, title: str) -> str:
    """The student's page as one HTML file that needs no other."""
    rows = "".join(
        f'<tr><td><a href="#e{i}"><code>{text(mark.name)}</code></a></td>'
        f"<td>{SIGNS[mark.state]} {_result(mark)}</td>"
        f'<td class="n">{mark.points:g} of {mark.out_of:g}</td></tr>'
        for i, mark in enumerate(grade.marks)
    )
    late = f'<p class="soft">{text(_late(grade))}</p>' if _late(grade) else ""
    problems = ""
    if grade.problems:
        listed = "".join(f"<li>{code(problem)}</li>" for problem in grade.problems)
        problems = f"<section><h2>What was handed in</h2><ul>{listed}</ul></section>"
    sections = "".join(_section(i, mark) for i, mark in enumerate(grade.marks))
    body = (
        f"<h1>{text(title)}</h1>"
        f'<p class="soft">{text(grade.student)}</p><p class="big">{_total(grade)}</p>{late}'
        '<table><thead><tr><th>exercise</th><th>result</th><th class="n">points</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{sections}{problems}"
    )
    return page(f"{title}: {grade.student}", body)


def page(title: str, body: str, style: str = "") -> str:
    """A whole page around the body, readable in the dark, on a phone and on paper."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title><style>{_STYLE}{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def text(value: str) -> str:
    """A text for HTML: nothing in it is markup."""
    return htmllib.escape(visible(value), quote=True)


def code(value: str) -> str:
    """The same, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def visible(value: str) -> str:
    """On one line, without characters that do not print or that turn the direction around."""
    bad = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return "".join(" " if unicodedata.category(c) in bad else c for c in value)


# ---- parts of both -------------------------------------------------------------------------------


def _section(i: int, mark: Mark) -> str:
    points = f"{mark.points:g} of {mark.out_of:g} points"
    parts = [f'<section class="{mark.state}" id="e{i}"><h2>{code(mark.title)}</h2>']
    parts.append(f'<p class="soft"><code>{text(mark.name)}</code> · {points}</p>')
    parts.append(f"<p>{SIGNS[mark.state]} {code(_verdict(mark))}</p>")
    if mark.lines:
        parts.append(f"<pre>{htmllib.escape(chr(10).join(_block(mark)))}</pre>")
    for cause in mark.causes:
        parts.append(f'<p class="cause"><strong>Likely cause:</strong> {code(sentence(cause))}</p>')
    if mark.hint:
        parts.append(f"<p><strong>Hint:</strong> {code(sentence(mark.hint))}</p>")
    for note in mark.notes:
        parts.append(f'<p class="soft">Note: {code(sentence(note))}</p>')
    return "".join([*parts, "</section>"])


def _block(mark: Mark) -> list[str]:
    return [visible(line) for each in mark.lines for line in each.split("\n")]


def _total(grade: Grade) -> str:
    unread = sum(mark.out_of for mark in grade.marks if mark.state == "unread")
    later = f", {unread:g} of them not read yet" if unread else ""
    return f"{grade.total:g} of {grade.out_of:g} points{later}"


def _late(grade: Grade) -> str:
    if not grade.late:
        return ""
    if grade.kept == 1:
        return "Handed in late; the points count in full."
    return f"Handed in late: {grade.kept:.0%} of the {grade.points:g} points count."


def _result(mark: Mark) -> str:
    if mark.state == "partly" and mark.n_tests:
        return f"{mark.n_passed} of {mark.n_tests} right"
    return WORDS[mark.state]


def _verdict(mark: Mark) -> str:
    said = sentence(visible(mark.verdict))
    return said[:1].upper() + said[1:]


def sentence(said: str) -> str:
    """The text with a mark at its end."""
    return said if said.endswith((".", "!", "?", ":")) else f"{said}."


def _plain(said: str) -> str:
    """The text for Markdown: nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", said)
