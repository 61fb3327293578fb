"""Questions as Moodle XML, one file with a category for each week.

What is written is what Moodle reads: moodle/moodle, question/format/xml/format.php. Formulas need
its filter MathJax, which is on from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from math import isinf
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from unrolled_book.coursework.questions import Question, Quiz, Span, listed


def write(title: str, quizzes: Iterable[Quiz]) -> bytes:
    """The file. title: the course's."""
    root = Element("quiz")
    for quiz in quizzes:
        names = (name.replace("/", "//") for name in (title, quiz.title))
        category = SubElement(SubElement(root, "question", type="category"), "category")
        SubElement(category, "text").text = "/".join(["$course$", "top", *names])
        for question in quiz.questions:
            _question(root, question)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _question(root: Element, question: Question) -> None:
    kind = "multichoice" if question.options else "numerical"
    made = SubElement(root, "question", type=kind)
    SubElement(SubElement(made, "name"), "text").text = question.title
    _html(made, "questiontext", question.text)
    SubElement(made, "defaultgrade").text = "1"
    SubElement(made, "idnumber").text = question.name
    if question.options:
        for name, value in (("single", "true"), ("shuffleanswers", "false")):
            SubElement(made, name).text = value
        SubElement(made, "answernumbering").text = "abc"
        for option in question.options:
            answer = _html(made, "answer", option.text, fraction="100" if option.right else "0")
            _html(answer, "feedback", option.feedback)
        return
    # The first answer is shown as the right one, and the first span that holds a number counts.
    _number(made, replace(question.right, low=question.key, high=question.key), "100")
    _number(made, question.right, "100")
    for span in question.wrong:
        if not isinf(span.high - span.low):
            _number(made, span, "0")
    if others := [span for span in question.wrong if isinf(span.high - span.low)]:
        answer = SubElement(made, "answer", fraction="0", format="moodle_auto_format")
        SubElement(answer, "text").text = "*"
        _html(answer, "feedback", listed(others))
        SubElement(answer, "tolerance").text = "0"


def _number(made: Element, span: Span, fraction: str) -> None:
    low, high = (
        Decimal(repr(span.low)),
        Decimal(repr(span.high)),
    )  # exact: 0.15 to 0.2 is 0.175 ± 0.025
    centre, tolerance = (low + high) / 2, (high - low) / 2
    answer = SubElement(made, "answer", fraction=fraction, format="moodle_auto_format")
    SubElement(answer, "text").text = f"{centre.normalize():f}"
    _html(answer, "feedback", span.feedback)
    SubElement(answer, "tolerance").text = f"{tolerance.normalize():f}"


def _html(parent: Element, name: str, text: str, **attributes: str) -> Element:
    made = SubElement(parent, name, attributes | {"format": "html"})
    SubElement(made, "text").text = text
    return made
