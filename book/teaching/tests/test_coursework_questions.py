"""Predictions in other systems: each marks as the book does, and says the same."""

from __future__ import annotations

import io
import math
import operator
import re
import zipfile
from decimal import Decimal
from xml.etree import ElementTree

import pytest
from unrolled_book.coursework import __main__ as program
from unrolled_book.coursework import questions, questions_canvas, questions_moodle, questions_qti
from unrolled_book.coursework.questions import LEFT_OUT, Quiz, question, rendered
from unrolled_book.predictions import Prediction, by_chapter, ends

ASKED = [(c, one) for c, found in by_chapter().items() for one in found if one.kind not in LEFT_OUT]
NUMBERS = [one for _, one in ASKED if one.kind == "number"]
QUIZ = Quiz("week1", "All/of it", tuple(question(one, chapter) for chapter, one in ASKED))
COURSE = """
title = "A course"
seed = "0123456789abcdef"
[[weeks]]
name = "week1"
title = "One"
exercises = ["c08_neural_lm/adagrad", "c16_multihead/unmix"]
[[weeks]]
name = "week2"
title = "Two"
exercises = ["c08_neural_lm/table_gradient", "c03_perplexity/perplexity_by_hand"]
"""


def plain(text: bytes) -> ElementTree.Element:
    """The XML without its namespaces."""
    return ElementTree.fromstring(re.sub(rb' xmlns="[^"]*"', b"", text))


@pytest.fixture(scope="module")
def moodle() -> dict[str, ElementTree.Element]:
    root = plain(questions_moodle.write("A course", [QUIZ]))
    assert root.findtext("question/category/text") == "$course$/top/A course/All//of it"
    return {q.findtext("idnumber"): q for q in root.iter("question") if q.find("name") is not None}


@pytest.fixture(scope="module")
def canvas() -> dict[str, ElementTree.Element]:
    files = unzipped(questions_canvas.write("A course", [QUIZ]))
    return {item.get("ident"): item for item in plain(files["week1/week1.xml"]).iter("item")}


@pytest.fixture(scope="module")
def qti() -> dict[str, ElementTree.Element]:
    files = unzipped(questions_qti.write("A course", [QUIZ]))
    items = [plain(body) for name, body in files.items() if name.startswith("items/")]
    return {item.get("identifier"): item for item in items}


def unzipped(data: bytes) -> dict[str, bytes]:
    """The files of a package; all and only those that its manifest names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    named = {file.get("href") for file in plain(files["imsmanifest.xml"]).iter("file")}
    assert named == set(files) - {"imsmanifest.xml"}
    return files


def probes(one: Prediction) -> set[float]:
    """Numbers that a reader may give: of each span its ends, its middle, and some beyond them."""
    found = {questions.number_of(one.right)}
    for span in (one.counts, *(wrong.when for wrong in one.wrong)):
        low, high = ends(span)
        low, high = max(low, high - 2 * abs(high) - 1), min(high, low + 2 * abs(low) + 1)
        found |= {low, high, (low + high) / 2, low - 0.001, high + 0.001}
    return {x for x in found if math.isfinite(x)}


def in_moodle(item: ElementTree.Element, x: float) -> tuple[bool, str]:
    """Whether x is right, and what is said: by the first answer whose tolerance reaches it."""
    for answer in item.iter("answer"):
        text, reach = answer.findtext("text"), Decimal(answer.findtext("tolerance"))
        if text == "*" or abs(Decimal(repr(x)) - Decimal(text)) <= reach:
            return answer.get("fraction") == "100", answer.findtext("feedback/text")
    return False, ""


def in_qti(item: ElementTree.Element, x: float) -> tuple[bool, str]:
    for case in item.find("responseProcessing/responseCondition"):
        bounds = [(c.tag, float(c.findtext("baseValue"))) for c in case.find("and")]
        tests = {"gte": operator.ge, "lte": operator.le, "gt": operator.gt, "lt": operator.lt}
        if all(tests[name](x, bound) for name, bound in bounds):
            score, name = (sets.findtext("baseValue") for sets in case.iter("setOutcomeValue"))
            said = item.find(f"modalFeedback[@identifier='{name}']/div")
            return score == "1", inside(said)
    return False, ""


def inside(element: ElementTree.Element) -> str:
    text = ElementTree.tostring(element, encoding="unicode").strip()
    return text.removeprefix("<div>").removesuffix("</div>")


@pytest.mark.parametrize("one", NUMBERS, ids=lambda one: one.name)
def test_a_number_is_marked_and_answered_as_in_the_book(one, moodle, canvas, qti):
    for x in probes(one):
        right, why = one.is_right(repr(x)), one.why(repr(x))
        verdict, said = in_moodle(moodle[one.name], x)
        assert verdict == right, f"Moodle on {x}"
        assert bare(rendered(why)) in bare(said)
        verdict, said = in_qti(qti[one.name], x)
        assert verdict == right, f"QTI on {x}"
        assert right or bare(said) == bare(rendered(why))
        item = canvas[one.name]
        low, high = (float(item.findtext(f".//{name}")) for name in ("vargte", "varlte"))
        assert (low <= x <= high) == right, f"Canvas on {x}"
        assert bare(rendered(why)) in " ".join(map(bare, feedback(item).values()))
    first = moodle[one.name].find("answer")
    assert float(first.findtext("text")) == questions.number_of(one.right), "shown as the answer"


def bare(markup: str) -> str:
    """The words, however the markup was written."""
    words = "".join(ElementTree.fromstring(f"<p>{markup}</p>").itertext())
    return " ".join(words.split())


def feedback(item: ElementTree.Element) -> dict[str, str]:
    return {f.get("ident"): f.findtext(".//mattext") for f in item.iter("itemfeedback")}


def test_of_the_options_one_is_right_and_each_other_says_whose_belief_it_is(moodle, canvas, qti):
    for chapter, one in ASKED:
        if one.kind == "number":
            continue
        options = question(one, chapter).options
        given = {o.name: o.name if one.kind == "choice" else bare(o.text) for o in options}
        assert len(options) == len(one.wrong) + 1
        [right] = (name for name, answer in given.items() if one.is_right(answer))
        told = {name: rendered(one.why(answer)) for name, answer in given.items()}
        told[right] = rendered(one.answer)
        answers = moodle[one.name].findall("answer")
        assert [a.get("fraction") == "100" for a in answers] == [n == right for n in given]
        assert [a.findtext("feedback/text") for a in answers] == list(told.values())
        item = canvas[one.name]
        assert feedback(item) == {f"{name}_fb": text for name, text in told.items()}
        scores = [r for r in item.iter("respcondition") if r.find("setvar") is not None]
        assert [r.findtext("conditionvar/varequal") for r in scores] == [right]
        assert qti[one.name].findtext("responseDeclaration/correctResponse/value") == right
        said = {m.get("identifier"): bare(inside(m)) for m in qti[one.name].iter("modalFeedback")}
        assert said == {name: bare(text) for name, text in told.items()}


def test_formulas_are_tex_in_parentheses_and_tables_stay_tables():
    assert rendered("If $a < b$ & `x`,") == r"<p>If \(a &lt; b\) &amp; <code>x</code>,</p>"
    assert rendered("| a |\n|--:|\n| $x$ |").count("<td>\\(x\\)</td>") == 1
    assert not [q.name for q in QUIZ.questions if re.search(r"\$|\*\*|style=", q.text)]


@pytest.mark.parametrize(("system", "ending"), [("canvas", "zip"), ("moodle", "xml")])
def test_a_chapter_asks_in_its_first_week_and_what_no_system_marks_is_named(
    tmp_path, capsys, system, ending
):
    (tmp_path / "course.toml").write_text(COURSE, "utf8")
    out = tmp_path / f"questions.{ending}"
    command = ["questions", str(tmp_path / "course.toml"), "--for", system, "--out", str(out)]
    assert program.main(command) == 0
    asked = {c: [p for p in by_chapter()[c] if p.kind not in LEFT_OUT] for c in by_chapter()}
    n = sum(len(asked[c]) for c in ("08_neural_lm", "16_multihead", "03_perplexity"))
    said = capsys.readouterr().out
    assert said.startswith(f"{n} questions in ")
    assert "left out, as an order or places in a drawing: largest-part" in said
    text = out.read_bytes() if ending == "xml" else unzipped(out.read_bytes())["week2/week2.xml"]
    assert b"Chapter 3<" in text.replace(b"&lt;", b"<")
    assert (b"Chapter 8<" in text.replace(b"&lt;", b"<")) == (ending == "xml")
