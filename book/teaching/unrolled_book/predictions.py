"""What the chapters ask their readers to predict: the right answer, and what a wrong one betrays.

A prediction is a Markdown cell of a chapter, and reads well as one:

    **Predict.** After a context, what do the claimed probabilities of all words sum to?

    - **a.** less than 1
    - **b.** exactly 1
    - **c.** more than 1

    <details><summary>Answer: row-sums</summary>

    **c.** Every row keeps all of its own mass, and adds the shorter contexts' mass.

    - *a.* You may think of discounting, which takes mass away; this rule takes none.
    - *b.* You may think that each row is divided by its sum; nothing divides this one.

    </details>

Its kind shows in the answer's first words: `**c.**` a choice, `**b, a, c.**` an order,
`**0.31 bits** (0.2 to 0.5 counts)` a number (`**7 positions.**` where no other counts),
``**`(2, 3)`.**`` what is printed, a shape for instance, and `**row 2, column 1.**` cells of the
table in the question, counted from 1, without headings and without a first column that has none.
`**at a.**` and `**at a and c.**` are places in the last drawing before the question; the options
say in words what stands there, and `Board.place`, or a patch with the gid `place-a`, marks it.
Each line below it says whose answer it is and which belief it comes from; for numbers `*above 5.*`,
`*below 0.1.*`, `*1 to 5.*` or `*3.*`.

The cell's metadata holds the key: `{"predict": {"key": …}}` is an expression of Python, or for a
choice or places one for each option. `hold` compares it with the answer, in the chapter's own
process.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

STORED = Path(__file__).with_name("predictions.json")
KINDS = ("choice", "order", "number", "text", "cells", "places")
_PARTS = re.compile(
    r"(?P<question>\*\*Predict.*?)\s*^<details><summary>Answer: (?P<name>[a-z0-9-]+)</summary>\n\n"
    r"\*\*(?P<right>.+?)\*\*(?P<answer>.*?)\s*^</details>\s*\Z",
    re.DOTALL | re.MULTILINE,
)
_ITEM = re.compile(r"^- ([*]{1,2})(.+?)\1\s+(.+?)(?=\n- |\n\n|\Z)", re.DOTALL | re.MULTILINE)
_NUMBER = r"[-−]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?"
_SPAN = re.compile(rf"(?:({_NUMBER})(?: to ({_NUMBER}))?|(above|below) ({_NUMBER}))")


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: when it is given (as the text names it), and why somebody gives it."""

    when: str
    why: str


@dataclass(frozen=True)
class Prediction:
    """A question of a chapter with its answer; texts are Markdown."""

    name: str
    kind: str
    question: str
    right: str
    answer: str
    unit: str = ""
    counts: str = ""  # of a number: what counts as right, '0.2 to 0.5'
    options: dict[str, str] = field(default_factory=dict)
    wrong: tuple[Wrong, ...] = ()

    def is_right(self, given: str) -> bool:
        """Whether this is the answer; raises ValueError for what cannot be one."""
        if self.kind == "number":
            return inside(number(given), self.counts)
        return self._plain(given) == self._plain(self.right)

    def why(self, given: str) -> str:
        """Why somebody answers so, as far as the book knows; '' where it does not."""
        if self.is_right(given):
            return ""
        for one in self.wrong:
            if self.kind == "number" and inside(number(given), one.when):
                return one.why
            if self.kind == "order" and " before " in one.when:
                first, _, then = one.when.partition(" before ")
                letters = self._plain(given)
                if letters.index(first) < letters.index(then):
                    return one.why
            elif self.kind != "number" and self._plain(given) == self._plain(one.when):
                return one.why
        return ""

    def _plain(self, given: str) -> tuple:
        """An answer without what may be written in several ways."""
        if self.kind == "cells":
            return tuple(sorted(re.findall(r"row (\d+), column (\d+)", given)))
        words = tuple(re.findall(r"-?\w+(?:\.\w+)?", given))
        if self.kind == "text":
            return words
        letters = tuple(word.lower() for word in words)
        if self.kind == "places":
            letters = tuple(sorted(set(letters) - {"at", "and"}))
            if not letters or set(letters) - set(self.options):
                raise ValueError(f"expected letters of {', '.join(self.options)}; got {given!r}")
            return letters
        n = 1 if self.kind == "choice" else len(self.options)
        if len(letters) != n or len(set(letters) & set(self.options)) != n:
            what = "one letter" if n == 1 else "each letter once"
            raise ValueError(f"expected {what} of {', '.join(self.options)}; got {given!r}")
        return letters


def number(text: str) -> float:
    """The number that a reader has written: 1,000, 0.5, −3, 1e6, 2/3."""
    plain = re.sub(r",(?=\d{3}(?!\d))", "", text.replace("−", "-").replace("\u202f", ""))
    plain = plain.strip().rstrip("%")
    above, slash, below = plain.partition("/")
    try:
        found = float(above) / float(below) if slash else float(plain)
    except (ValueError, ZeroDivisionError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"expected a number such as 0.5, 1000 or 1e6; got {text!r}")
    return found


def inside(x: float, span: str) -> bool:
    """Whether the number lies in '1 to 5' (ends included), 'above 5', 'below 1', or is '3'."""
    low, high = ends(span)
    return low < x < high or (x in (low, high) and not span.startswith(("above", "below")))


def ends(span: str) -> tuple[float, float]:
    """The ends of '1 to 5', 'above 5', 'below 1' or '3'."""
    match = _SPAN.fullmatch(span.strip())
    if not match:
        raise ValueError(f"expected '1 to 5', 'above 5', 'below 1' or '3'; got {span!r}")
    low, high, side, bound = match.groups()
    if side:
        return (number(bound), math.inf) if side == "above" else (-math.inf, number(bound))
    return number(low), number(high or low)


def parse(source: str) -> Prediction | None:
    """The prediction in a Markdown cell, or None where it asks for none.

    Raises ValueError, with what is wrong, for a cell that has an answer and is not in the form.
    """
    if "<details><summary>Answer" not in source:
        return None
    match = _PARTS.search(source)
    if not match:
        raise ValueError(
            "expected '**Predict.** …', then the answer in <details>: see predictions.py"
        )
    question, options = _without_options(match["question"])
    right, text = match["right"].strip(), match["answer"].strip()
    lines = tuple(Wrong(m[2].rstrip("."), _flat(m[3])) for m in _ITEM.finditer(text) if m[1] == "*")
    answer = text[: text.index("- *")].strip() if lines else text
    kind, right = _kind(right, options, question)
    unit = counts = ""
    if kind == "number":
        found = re.match(rf"({_NUMBER})\s*(.*)", right)
        spans = re.match(r"\(([^)]*) counts?\)\.?\s*", answer)
        if not found:
            raise ValueError("a number stands as '**0.31 bits** (0.2 to 0.5 counts)'")
        right, unit, counts = found[1], found[2].rstrip("."), spans[1] if spans else found[1]
        answer = answer[spans.end() if spans else 0 :]
    made = Prediction(
        name=match["name"], kind=kind, question=question, right=right, answer=answer.strip(),
        unit=unit, counts=counts, options=options, wrong=lines,
    )  # fmt: skip
    _check(made)
    return made


def of_notebook(path: str | Path) -> list[Prediction]:
    """The predictions of a chapter, in its order; raises ValueError for one not in the form."""
    cells = json.loads(Path(path).read_text("utf8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return [one for one in map(parse, texts) if one]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _without_options(question: str) -> tuple[str, dict[str, str]]:
    found = {m[2].rstrip("."): _flat(m[3]) for m in _ITEM.finditer(question) if m[1] == "**"}
    text = question[: question.index("\n- **a.**")] if found else question
    return re.sub(r"\A\*\*Predict\.?\*\*\s*", "", text).strip(), found


def _kind(right: str, options: Mapping[str, str], question: str) -> tuple[str, str]:
    if options:
        letters = right.rstrip(".")
        if letters.startswith("at "):
            return "places", letters
        return ("order" if "," in letters else "choice"), letters
    if right.startswith("row "):
        if "|" not in question:
            raise ValueError(f"{right!r} is a cell, and the question holds no table")
        return "cells", right.rstrip(".")
    if right.startswith("`"):
        return "text", right.rstrip(".").strip("`")
    return "number", right


def _check(one: Prediction) -> None:
    """Raise ValueError where the answers contradict each other or a reason is missing."""
    if not one.is_right(one.right):
        raise ValueError(f"{one.name}: its own answer {one.right!r} is not right {one.counts}")
    for wrong in one.wrong:
        if len(wrong.why.split()) < 4:
            raise ValueError(f"{one.name}: {wrong.when!r} needs a sentence, the belief behind it")
        if one.kind == "number" and _overlap(wrong.when, one.counts):
            raise ValueError(f"{one.name}: {wrong.when} is called wrong, and {one.counts} counts")
        if one.kind in ("choice", "text", "cells", "places") and one.is_right(wrong.when):
            raise ValueError(f"{one.name}: {wrong.when} is right and is called wrong")
    told = {wrong.when for wrong in one.wrong}
    if one.kind == "choice" and told != set(one.options) - {one.right}:
        raise ValueError(f"{one.name}: reasons for {sorted(told)}, wrong options are "
                         f"{sorted(set(one.options) - {one.right})}")  # fmt: skip
    if not told:
        raise ValueError(f"{one.name}: no wrong answer has a reason")


def _overlap(span: str, other: str) -> bool:
    """Whether two spans have more in common than an end, or one is a single number in the other."""
    (low, high), (start, stop) = ends(span), ends(other)
    if start == stop:
        return inside(start, span)
    return max(low, start) < min(high, stop)


def hold(source: str, key: object) -> None:
    """Compare a cell's answer with its key, as the chapter has computed it.

    key: for a choice or places whether each option holds, by letter; otherwise the answer's value.
    Raises AssertionError with both.
    """
    one = parse(source)
    if one.kind in ("choice", "places"):
        holds = sorted(letter for letter, true in key.items() if true)
        assert set(key) == set(one.options), f"{one.name}: keys for {sorted(key)}"
        said = list(one._plain(one.right))
        assert holds == said, f"{one.name}: {one.right} is said, {holds} hold"
    elif one.kind == "number":
        assert inside(float(key), one.counts), f"{one.name}: {key} is computed, not {one.counts}"
        for wrong in one.wrong:
            assert not inside(float(key), wrong.when), f"{one.name}: {key} is in {wrong.when}"
        said, half = number(one.right), _half_unit(one.right)
        near = abs(float(key) - said) <= 1.01 * half
        assert near, f"{one.name}: {one.right} is said, {float(key)} is computed"
    else:
        if one.kind == "cells":
            key = "; ".join(f"row {row}, column {column}" for row, column in key)
        elif one.kind == "order":
            key = ", ".join(key)
        assert one.is_right(str(key)), f"{one.name}: {one.right} is said, {key} is computed"


def _half_unit(text: str) -> float:
    """Half a unit of the last digit; zeros at the end of a whole number count as no digits."""
    mantissa, _, power = text.replace(",", "").partition("e")
    whole, _, decimals = mantissa.partition(".")
    digits = -len(decimals) if decimals else len(whole) - len(whole.rstrip("0") or whole)
    return 0.5 * 10.0 ** (digits + int(power or 0))


# ---- in a notebook ----------------------------------------------------------------------------


@cache
def by_chapter() -> dict[str, list[Prediction]]:
    """The predictions of each chapter, as `make pages` has taken them: {"01_chain_rule": […]}."""
    return {
        chapter: [
            Prediction(**one | {"wrong": tuple(Wrong(**each) for each in one["wrong"])})
            for one in given
        ]
        for chapter, given in json.loads(STORED.read_text("utf8")).items()
    }


@cache
def stored() -> dict[str, Prediction]:
    """All predictions of the book by name."""
    return {one.name: one for found in by_chapter().values() for one in found}


def to_json(chapters: Mapping[str, Iterable[Prediction]]) -> str:
    """The text of the file that `stored` reads; by chapter."""
    plain = {chapter: [asdict(one) for one in found] for chapter, found in chapters.items()}
    return json.dumps(plain, ensure_ascii=False, indent=1) + "\n"


def predict(name: str, guess: object) -> None:
    """Commit to a guess for one of the chapter's predictions, and see what the book says.

    name: what stands behind "Answer:" below the question. guess: a letter, a number, an order such
    as "b, a, c", a shape or the text that is printed, "row 2, column 1", or places, "a and c".
    """
    every = stored()
    if name not in every:
        near = difflib.get_close_matches(str(name), every, n=3)
        raise ValueError(
            f"no prediction is named {name!r}" + (f"; near it: {near}" if near else "")
        )
    one = every[name]
    if one.is_right(str(guess)):
        print(f"✓ {one.answer}")
    else:
        print(one.why(str(guess)) or "Not so. Read on, and compare; the answer is folded above.")
