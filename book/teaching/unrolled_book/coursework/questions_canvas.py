"""Questions as a package of QTI 1.2 for Canvas's classic quizzes, a quiz for each week.

The forms are those that Canvas writes itself: instructure/canvas-lms, lib/cc/qti. It tells feedback
to an option or to a right number; of a wrong number it says what wrong numbers may come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from unrolled_book.coursework.packing import zipped
from unrolled_book.coursework.questions import Question, Quiz, listed

QTI = "http://www.imsglobal.org/xsd/ims_qtiasiv1p2"
PACKAGE = "http://www.imsglobal.org/xsd/imsccv1p1/imscp_v1p1"
SETTINGS = "http://canvas.instructure.com/xsd/cccv1p0"
_ABOUT = "associatedcontent/imscc_xmlv1p1/learning-application-resource"
_RESPONSE = "response1"


def write(title: str, quizzes: Iterable[Quiz]) -> bytes:
    """The zip file, to be imported as "QTI .zip file". title: the course's."""
    quizzes = list(quizzes)
    files = {f"{quiz.name}/{quiz.name}.xml": _text(_assessment(quiz)) for quiz in quizzes}
    resources = {quiz.name: f"{quiz.name}/{quiz.name}.xml" for quiz in quizzes}
    listing = manifest(PACKAGE, "imsqti_xmlv1p2", resources)
    for quiz, resource in zip(quizzes, listing.findall(".//resource"), strict=True):
        path, about = f"{quiz.name}/assessment_meta.xml", f"{quiz.name}_about"
        files[path] = _text(_settings(quiz))
        SubElement(resource, "dependency", identifierref=about)
        add_resource(listing.find("resources"), about, _ABOUT, path)
    return zipped(files | {"imsmanifest.xml": _text(listing)})


def manifest(namespace: str, kind: str, resources: dict[str, str]) -> Element:
    """The list of a package's files. resources: identifier -> path, all of one kind."""
    root = Element("manifest", xmlns=namespace, identifier="unrolled_questions")
    about = SubElement(root, "metadata")
    SubElement(about, "schema").text = "IMS Content"
    SubElement(about, "schemaversion").text = "1.1.3"
    SubElement(root, "organizations")
    listed = SubElement(root, "resources")
    for name, path in resources.items():
        add_resource(listed, name, kind, path)
    return root


def add_resource(listed: Element, name: str, kind: str, path: str) -> Element:
    """One file more in the list."""
    resource = SubElement(listed, "resource", identifier=name, type=kind, href=path)
    SubElement(resource, "file", href=path)
    return resource


def _settings(quiz: Quiz) -> Element:
    """A quiz for practice, whose options stay in their order."""
    root = Element("quiz", xmlns=SETTINGS, identifier=quiz.name)
    for name, value in (
        ("title", quiz.title), ("description", ""), ("shuffle_answers", "false"),
        ("quiz_type", "practice_quiz"), ("points_possible", str(len(quiz.questions))),
    ):  # fmt: skip
        SubElement(root, name).text = value
    return root


def _text(root: Element) -> bytes:
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _assessment(quiz: Quiz) -> Element:
    root = Element("questestinterop", xmlns=QTI)
    assessment = SubElement(root, "assessment", ident=quiz.name, title=quiz.title)
    section = SubElement(assessment, "section", ident="root_section")
    for question in quiz.questions:
        _item(section, question)
    return root


def _item(section: Element, question: Question) -> None:
    item = SubElement(section, "item", ident=question.name, title=question.title)
    fields = SubElement(SubElement(item, "itemmetadata"), "qtimetadata")
    kind = "multiple_choice_question" if question.options else "numerical_question"
    for label, entry in (("question_type", kind), ("points_possible", "1")):
        field = SubElement(fields, "qtimetadatafield")
        SubElement(field, "fieldlabel").text = label
        SubElement(field, "fieldentry").text = entry
    shown = SubElement(item, "presentation")
    _material(shown, question.text)
    marked = SubElement(item, "resprocessing")
    score = {"maxvalue": "100", "minvalue": "0", "varname": "SCORE", "vartype": "Decimal"}
    SubElement(SubElement(marked, "outcomes"), "decvar", score)
    (_choice if question.options else _number)(item, shown, marked, question)


def _choice(item: Element, shown: Element, marked: Element, question: Question) -> None:
    given = SubElement(shown, "response_lid", ident=_RESPONSE, rcardinality="Single")
    labels = SubElement(given, "render_choice")
    for option in question.options:
        _material(SubElement(labels, "response_label", ident=option.name), option.text)
    # Canvas takes feedback with "wrong" or "correct" in its name for that of the whole question.
    for option in question.options:
        _feedback(item, f"{option.name}_fb", option.feedback)
        _says(_if_equal(marked, option.name, "Yes"), f"{option.name}_fb")
    [right] = (option.name for option in question.options if option.right)
    _scores(_if_equal(marked, right, "No"))


def _number(item: Element, shown: Element, marked: Element, question: Question) -> None:
    given = SubElement(shown, "response_str", ident=_RESPONSE, rcardinality="Single")
    SubElement(given, "render_fib", fibtype="Decimal")
    span = question.right
    condition = SubElement(marked, "respcondition", {"continue": "No"})
    holds = SubElement(condition, "conditionvar")
    if span.low == span.high:
        holds = SubElement(holds, "or")
        SubElement(holds, "varequal", respident=_RESPONSE).text = repr(span.low)
        holds = SubElement(holds, "and")
    for name, bound in (("vargte", span.low), ("varlte", span.high)):
        SubElement(holds, name, respident=_RESPONSE).text = repr(bound)
    _scores(condition)
    _says(condition, "correct_fb")
    _feedback(item, "correct_fb", span.feedback)
    otherwise = SubElement(marked, "respcondition", {"continue": "Yes"})
    SubElement(SubElement(otherwise, "conditionvar"), "other")
    _says(otherwise, "general_incorrect_fb")
    _feedback(item, "general_incorrect_fb", listed(question.wrong))


def _if_equal(marked: Element, ident: str, goes_on: str) -> Element:
    condition = SubElement(marked, "respcondition", {"continue": goes_on})
    equal = SubElement(SubElement(condition, "conditionvar"), "varequal", respident=_RESPONSE)
    equal.text = ident
    return condition


def _scores(condition: Element) -> None:
    SubElement(condition, "setvar", action="Set", varname="SCORE").text = "100"


def _says(condition: Element, feedback: str) -> None:
    SubElement(condition, "displayfeedback", feedbacktype="Response", linkrefid=feedback)


def _feedback(item: Element, ident: str, text: str) -> None:
    _material(SubElement(SubElement(item, "itemfeedback", ident=ident), "flow_mat"), text)


def _material(parent: Element, text: str) -> None:
    material = SubElement(parent, "material")
    SubElement(material, "mattext", texttype="text/html").text = text
