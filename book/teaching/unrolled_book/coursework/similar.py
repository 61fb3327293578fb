"""Pairs of answers that are alike, listed for a person to look at; no points depend on it.

Of a program the names of variables, comments, strings and line breaks do not count. What was given
and what much of the class has written do not count either: short right answers are alike. Compared
are runs of tokens, as in Schleimer, Wilkerson and Aiken, "Winnowing" (2003), all of them.
"""

from __future__ import annotations

import builtins
import html
import io
import keyword
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from unrolled_book.coursework import written
from unrolled_book.coursework.extract import Missing, extract, program_for
from unrolled_book.coursework.feedback import page as whole_page
from unrolled_book.coursework.feedback import text as escaped
from unrolled_book.coursework.item_tests import ItemTests
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus, Week

RUN = {"code": 8, "words": 4}  # tokens in a row that two answers must have in common
LEAST = 0.6  # the share of their own tokens from which on a pair is listed
_OWN = 30  # tokens of somebody's own, below which an answer tells nothing
_MANY = 5  # whatever more students than these, and than a third of the class, wrote is common
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip
_KEPT = {*keyword.kwlist, *dir(builtins)}

Token = tuple[str, int, int]  # what it counts as, and where it stands in the text


@dataclass(frozen=True)
class Answer:
    """One student's text of a task, as tokens."""

    student: str
    text: str
    tokens: tuple[Token, ...]
    run: int

    def runs(self) -> list[tuple[str, ...]]:
        """All runs of tokens, by where they begin."""
        kinds = [kind for kind, _, _ in self.tokens]
        return [tuple(kinds[i : i + self.run]) for i in range(len(kinds) - self.run + 1)]

    def covered(self, runs: set[tuple[str, ...]]) -> set[int]:
        """The places of the tokens that lie in one of these runs."""
        begins = [i for i, run in enumerate(self.runs()) if run in runs]
        return {i + j for i in begins for j in range(self.run)}


@dataclass(frozen=True)
class Pair:
    """Two answers to a task. share: of their own tokens, those in common, of the answer that has
    more of its own; alike: in each, the places of the tokens in common.
    """

    title: str
    share: float
    answers: tuple[Answer, Answer]
    alike: tuple[set[int], set[int]]


def similar(syllabus: Syllabus, week: Week, submissions: Iterable[Submission]) -> list[Pair]:
    """The pairs of a week's answers whose share is at least `LEAST`, the most alike first."""
    found = []
    for title, given, answers in _tasks(syllabus, week, list(submissions)):
        found += _pairs(title, given, answers)
    return sorted(found, key=lambda pair: -pair.share)


def _tasks(
    syllabus: Syllabus, week: Week, submissions: list[Submission]
) -> Iterator[tuple[str, str, list[Answer]]]:
    """Each task's title, the text that was given, and the answers."""
    files = {each.student: extract(each, week)[0] for each in submissions}
    for item in week.items:
        tests = ItemTests(syllabus, item)
        answers = []
        for student, of_student in files.items():
            try:
                program, _ = program_for(tests.exercise, of_student, tests.given)
            except Missing:
                continue
            answers.append(Answer(student, program, _of_code(program), RUN["code"]))
        yield tests.exercise.title, f"{tests.given}\n{tests.exercise.starter}", answers
    for question in week.questions:
        said = {each.student: written.words(each.files, question.name).text for each in submissions}
        answers = [Answer(s, text, _of_words(text), RUN["words"]) for s, text in said.items()]
        yield question.title, question.statement, answers


def _pairs(title: str, given: str, answers: list[Answer]) -> Iterator[Pair]:
    runs = {each.student: set(each.runs()) for each in answers}
    times = Counter(run for of_student in runs.values() for run in of_student)
    most = max(_MANY, len(answers) / 3)
    common = {run for run, n in times.items() if n > most}
    for read, size in ((_of_code, RUN["code"]), (_of_words, RUN["words"])):
        common |= set(Answer("", given, read(given), size).runs())
    own = {each.student: len(each.tokens) - len(each.covered(common)) for each in answers}
    told = [each for each in answers if own[each.student] >= _OWN]
    for one, other in combinations(told, 2):
        shared = runs[one.student] & runs[other.student] - common
        if not shared:
            continue
        alike = one.covered(shared), other.covered(shared)
        new = (len(a.covered(shared | common)) - len(a.covered(common)) for a in (one, other))
        share = min(new) / max(own[one.student], own[other.student])
        if share >= LEAST:
            yield Pair(title, share, (one, other), alike)


def _of_code(text: str) -> tuple[Token, ...]:
    """The tokens of a program; those of its words where it is none."""
    begins = [0]
    for line in io.StringIO(text):  # as tokenize counts lines
        begins.append(begins[-1] + len(line))
    found: list[Token] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _LAYOUT:
                continue
            kind = token.string
            attribute = bool(found) and found[-1][0] == "."
            if token.type == tokenize.NAME and kind not in _KEPT and not attribute:
                kind = "a name"
            elif token.type == tokenize.STRING:
                kind = "a string"
            start, end = (begins[row - 1] + column for row, column in (token.start, token.end))
            found.append((kind, start, end))
    except (tokenize.TokenError, SyntaxError):
        return _of_words(text)
    return tuple(found)


def _of_words(text: str) -> tuple[Token, ...]:
    return tuple((m[0].casefold(), m.start(), m.end()) for m in re.finditer(r"\w+", text))


_STYLE = """
body { max-width: 90rem; } .pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: none; color: inherit; font-weight: 700; text-decoration: underline; }
@media (max-width: 48rem) { .pair { display: block; } }
"""


def page(title: str, pairs: list[Pair]) -> str:
    """The pairs as one HTML file that needs no other: both texts, with what they share marked."""
    head = (
        f"<h1>{escaped(title)}: answers that are alike</h1><p>What two answers have in common, and "
        "not with much of the class, is bold and underlined. It proves nothing: read both.</p>"
    )
    parts = [] if pairs else ["<p>No pair shares much.</p>"]
    for pair in pairs:
        names = " and ".join(escaped(each.student) for each in pair.answers)
        both = "".join(
            f"<div><h3>{escaped(each.student)}</h3><pre>{_marked(each, alike)}</pre></div>"
            for each, alike in zip(pair.answers, pair.alike, strict=True)
        )
        title = f"<h2>{names}: {pair.share:.0%} of {escaped(pair.title)}</h2>"
        parts.append(f'<section>{title}<div class="pair">{both}</div></section>')
    return whole_page(title, head + "".join(parts), _STYLE)


def _marked(answer: Answer, alike: set[int]) -> str:
    parts, at = [], 0
    for i, (_, start, end) in enumerate(answer.tokens):
        if i in alike:
            parts.append(html.escape(answer.text[at:start]))
            parts.append(f"<mark>{html.escape(answer.text[start:end])}</mark>")
            at = end
    return "".join([*parts, html.escape(answer.text[at:])])
