"""Questions as a package of QTI 2.1: an item for each, a test for each week.

The texts stand in it as XHTML, formulas as TeX in \\(…\\), which a reader needs MathJax for.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from unrolled_book.coursework.packing import zipped
from unrolled_book.coursework.questions import Question, Quiz, Span
from unrolled_book.coursework.questions_canvas import add_resource, manifest

QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"
_ITEM, _TEST = "imsqti_item_xmlv2p1", "imsqti_test_xmlv2p1"


def write(title: str, quizzes: Iterable[Quiz]) -> bytes:
    """The zip file. title: the course's."""
    quizzes, files, items = list(quizzes), {}, {}
    for quiz in quizzes:
        for question in quiz.questions:
            items[question.name] = f"items/{question.name}.xml"
            files[items[question.name]] = _text(item(question))
        files[f"{quiz.name}.xml"] = _text(_test(quiz, items))
    listing = manifest(PACKAGE, _ITEM, items)
    resources = listing.find("resources")
    for quiz in quizzes:
        path = f"{quiz.name}.xml"
        test = add_resource(resources, quiz.name, _TEST, path)
        for question in quiz.questions:
            SubElement(test, "dependency", identifierref=question.name)
    return zipped(files | {"imsmanifest.xml": _text(listing)})


def _text(root: Element) -> bytes:
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _test(quiz: Quiz, paths: dict[str, str]) -> Element:
    root = Element("assessmentTest", xmlns=QTI, identifier=quiz.name, title=quiz.title)
    modes = {"navigationMode": "nonlinear", "submissionMode": "individual"}
    part = SubElement(root, "testPart", modes, identifier="part")
    about = {"identifier": "section", "title": quiz.title, "visible": "true"}
    section = SubElement(part, "assessmentSection", about)
    for question in quiz.questions:
        name = question.name
        SubElement(section, "assessmentItemRef", identifier=name, href=paths[name])
    return root


def item(question: Question) -> Element:
    """The question as an assessmentItem."""
    flags = {"adaptive": "false", "timeDependent": "false"}
    root = Element(
        "assessmentItem",
        {"xmlns": QTI, "identifier": question.name, "title": question.title} | flags,
    )
    of_choice = bool(question.options)
    declared = SubElement(
        root, "responseDeclaration", identifier="RESPONSE", cardinality="single",
        baseType="identifier" if of_choice else "float",
    )  # fmt: skip
    for name, kind in (("SCORE", "float"), ("FEEDBACK", "identifier")):
        SubElement(root, "outcomeDeclaration", identifier=name, cardinality="single", baseType=kind)
    body = SubElement(root, "itemBody")
    body.append(_xhtml(question.text))
    marked = SubElement(root, "responseProcessing")
    if of_choice:
        [key] = (option.name for option in question.options if option.right)
        SubElement(SubElement(declared, "correctResponse"), "value").text = key
        choices = SubElement(
            body,
            "choiceInteraction",
            responseIdentifier="RESPONSE",
            shuffle="false",
            maxChoices="1",
        )
        for option in question.options:
            choice = SubElement(choices, "simpleChoice", identifier=option.name)
            choice.append(_xhtml(option.text))
            _modal(root, option.name, option.feedback)
        _conditions(marked, [(_match(option.name), option.name, option.right)
                             for option in question.options])  # fmt: skip
    else:
        line = SubElement(body, "p")
        SubElement(line, "textEntryInteraction", responseIdentifier="RESPONSE")
        spans = [("right", question.right)]
        spans += [(f"wrong{n}", span) for n, span in enumerate(question.wrong, 1)]
        for name, span in spans:
            _modal(root, name, span.feedback)
        _conditions(marked, [(_within(span), name, name == "right") for name, span in spans])
    return root


def _conditions(marked: Element, cases: Iterable[tuple[Element, str, bool]]) -> None:
    """The first case that holds gives the feedback, and the score if it is right."""
    condition = SubElement(marked, "responseCondition")
    for n, (holds, name, right) in enumerate(cases):
        case = SubElement(condition, "responseElseIf" if n else "responseIf")
        case.append(holds)
        for outcome, kind, value in (
            ("SCORE", "float", "1" if right else "0"), ("FEEDBACK", "identifier", name),
        ):  # fmt: skip
            sets = SubElement(case, "setOutcomeValue", identifier=outcome)
            SubElement(sets, "baseValue", baseType=kind).text = value


def _match(name: str) -> Element:
    match = Element("match")
    SubElement(match, "variable", identifier="RESPONSE")
    SubElement(match, "baseValue", baseType="identifier").text = name
    return match


def _within(span: Span) -> Element:
    both = Element("and")
    strict = inf in (-span.low, span.high)  # "above 5" leaves out 5
    for name, bound in (("gt", span.low), ("lt", span.high)):
        if abs(bound) != inf:
            compare = SubElement(both, name if strict else f"{name}e")
            SubElement(compare, "variable", identifier="RESPONSE")
            SubElement(compare, "baseValue", baseType="float").text = repr(bound)
    return both


def _modal(root: Element, name: str, text: str) -> None:
    about = {"outcomeIdentifier": "FEEDBACK", "showHide": "show", "identifier": name}
    SubElement(root, "modalFeedback", about).append(_xhtml(text))


def _xhtml(text: str) -> Element:
    return ElementTree.fromstring(f"<div>{text}</div>")
