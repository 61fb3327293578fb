"""The editions: students get no answer, and a check of what they may know."""

import base64
import bz2
import io
import json
import lzma
import re
import sys
import zlib
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from unrolled_book import exercises
from unrolled_book.coursework import editions, personal
from unrolled_book.coursework.syllabus import Item, Question, Syllabus, Week
from unrolled_book.exercises.engine import travel
from unrolled_book.exercises.engine.wire import encode
from unrolled_book.exercises.examples import written_call

ALL = [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]
FIRST, KEPT = "c01_chain_rule", {"solution", "explanation", "tests", "oracle", "wrong"}
DUE = datetime.fromisoformat("2026-10-09T23:59:00+02:00")
STATEMENT, RUBRIC = "Explain [padding](term:padding).", "4: says that the lengths differ"
QUESTION = Question("padding", "Why pad?", STATEMENT, 4, (RUBRIC,))


def course(weeks: dict[str, list[str]], *questions: Question, personal=False) -> Syllabus:
    """A course of these weeks with these exercises, and with the questions in its last week."""
    found = []
    for name, listed in weeks.items():
        items = tuple(Item(each, 2.0, "all", personal) for each in listed)
        found.append(Week(name, name, DUE, items))
    found[-1] = replace(found[-1], questions=questions)
    return Syllabus("A course", "a secret of the test", tuple(found), (), 0.5, Path("course.toml"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The student edition of one course with all exercises of the book, a week for each chapter."""
    weeks = {slug: [f"{slug}/{n}" for n in names] for slug, names in exercises.chapters().items()}
    return editions.build_student(course(weeks), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def two_weeks(tmp_path_factory):
    """A course of two weeks: the students' notebooks and the teacher's."""
    second = ["c04_tokens/replay_merges", f"{FIRST}/both_ways", "c14_attention/effective_share"]
    weeks = {"week1": [f"{FIRST}/shift", f"{FIRST}/two_roads"], "week2": second}
    files = editions.build(course(weeks, QUESTION), tmp_path_factory.mktemp("two_weeks"))
    return files[:2], files[2:]


def cells(path: Path) -> list[dict]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"]]


def run(path: Path, answers: dict[str, str] | None = None) -> str:
    """What the notebook's cells print; answers: other sources for cells, by their ids."""
    names: dict = {}
    with redirect_stdout(io.StringIO()) as printed:
        for cell in cells(path):
            if cell["cell_type"] == "code":
                source = (answers or {}).get(cell["id"], cell["source"])
                exec(compile(source.replace("%pip", "pass  #"), cell["id"], "exec"), names)
    return printed.getvalue()


def squeeze(line: str) -> str:
    return " ".join(line.split())


def lines_of(texts) -> set[str]:
    return {squeeze(line) for text in texts for line in text.split("\n")}


@pytest.fixture(scope="module")
def secret() -> list[str]:
    """The telling lines of the exercises' secret parts, and the hidden tests' arguments and hints,
    but for what students have to read: titles, statements, starters, visible cases, the engine."""
    told = [*travel.texts(travel.CHECKING).values(), Path(personal.__file__).read_text("utf-8")]
    kept, hidden = [], []
    for exercise in map(exercises.load, ALL):
        told += [exercise.title, exercise.statement, exercise.starter, exercise.use_source]
        parts = re.split(r"(?m)^# %% *(\w+).*$\n?", exercise.source)[1:]
        kept += [body for name, body in zip(parts[::2], parts[1::2], strict=True) if name in KEPT]
        for call in [] if exercise.is_value else exercise.calls(0):
            args = json.dumps(encode(call.args), ensure_ascii=False, separators=(",", ":"))[9:-1]
            told += [written_call(exercise.name, call.args), args] if call.visible else []
            hidden += [] if call.visible else [args] * (len(args) > 50)
            hidden += [] if call.visible else [call.hint] * (len(call.hint) > 30)
    # Not what stands in any program: `return x`, `else:`, `import numpy as np`, a bracket.
    usual, word = r"(from \S+ )?import .*|def .*|class .*", r"[^\W\d_]{2,}|\d{2,}"
    lines = [line for line in lines_of(kept) if not re.fullmatch(usual, line)]
    kept = [line for line in lines if len(re.findall(word, line)) > 2]
    known = "\n".join(lines_of(told))
    return [line for line in [*kept, *lines_of(hidden)] if line not in known]


def texts_in(path: Path) -> list[str]:
    """The text in a notebook's JSON, and what is encoded or compressed there."""
    text = path.read_text(encoding="utf-8")
    found = [re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), text)]
    for encoded in set(re.findall(r"[A-Za-z0-9+/]{24,}", text)):
        for open_ in (bytes, zlib.decompress, bz2.decompress, lzma.decompress):
            with suppress(ValueError, OSError, zlib.error, lzma.LZMAError):
                found.append(open_(base64.b64decode(encoded + "===")).decode())
    return found


def leaks(files: list[Path], secret: list[str]) -> list[str]:
    there = "\n".join(lines_of(text for path in files for text in texts_in(path)))
    return [line for line in secret if line in there]


def test_no_line_of_an_answer_and_no_hidden_test_stands_in_the_student_edition(whole, secret):
    assert len(whole) == len(exercises.chapters())
    assert not (found := leaks(whole, secret)), "\n".join(found)


def test_a_leak_would_be_found(whole, secret, tmp_path):
    notebook = json.loads(whole[0].read_text(encoding="utf-8"))
    leaked = exercises.load("c01_chain_rule/posterior").explanation
    encoded = [base64.b64encode(pack(leaked.encode())).decode() for pack in (bytes, zlib.compress)]
    for hidden in (leaked, leaked.splitlines(keepends=True), *encoded):
        notebook["cells"][3]["metadata"] = {"note": hidden}
        (path := tmp_path / "leaky.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        assert leaks([path], secret), hidden


def test_the_student_edition_runs_with_nothing_written(whole):
    lines = [line for path in whole for line in run(path).splitlines() if line[:1] in "✓✗○"]
    assert [line[0] for line in lines] == ["○"] * len(ALL)


def test_a_right_answer_passes_the_self_check_which_says_what_that_is_worth(whole):
    solutions = {exercise.name: exercise.solution_source for exercise in map(exercises.load, ALL)}
    answers = {f"answer-{n.replace('_', '-')}": source for n, source in solutions.items()}
    said = "\n".join(run(path, answers) for path in whole)
    blocks = re.findall(r"(?m)^([✓✗○]) (\w+): (.*(?:\n    .*)*)", said)
    assert len(blocks) == len(ALL)
    for untried in [exercises.load(name) for sign, name, _ in blocks if sign != "✓"]:
        assert untried.judge or not any(call.visible for call in untried.calls(0))
    said = [squeeze(text) for sign, _, text in blocks if sign == "✓"]
    assert all("hidden tests" in text or "whether it is right is" in text for text in said)


def test_the_teacher_edition_passes_its_tests_and_has_what_the_students_lacks(two_weeks):
    _, files = two_weeks
    said = [line for path in files for line in run(path).splitlines() if line[:1] in "✓✗○"]
    assert [line[0] for line in said] == ["✓"] * 5
    assert said[:2] == ["✓ shift: all 6 tests passed", "✓ two_roads: right"]
    wrong = 'two_roads = {"first": 0.8, "then": 0.2, "last": 0.35, "before": "4/7"}'
    said = run(files[0], {"answer-two-roads": wrong})
    assert "✗ two_roads: at ['then']: 0.2 is not right" in said
    text = "\n".join(cell["source"] for path in files for cell in cells(path))
    shift = exercises.load("c01_chain_rule/shift")
    hint = "an empty text is still asked whether it ends"
    for part in (shift.solution_source, *shift.wrong, hint, RUBRIC):
        assert part in text


CHECKED = {  # what stands for the value: what the self-check says, of its form and no more
    '{"first": 1, "then": "1/4", "last": 3, "before": ...}': "○ two_roads: not written yet: before",
    '{"first": 1, "then": "1/4", "last": 3, "before": 0.2}': "✓ two_roads: written, and readable",
    '{"first": 1, "then": "a fifth", "last": 3, "before": 0.2}': "expected a number",
    '{"frist": 1, "then": 2, "last": 3, "before": 0.2}': "the key 'first' is missing",
    "7": "expected a dict with the keys first, then, last, before",
    "...": "○ two_roads: not written yet",
}


def test_the_students_check_knows_the_visible_case_and_the_form_of_a_value(two_weeks):
    path = two_weeks[0][0]
    for value, says in CHECKED.items():
        assert says in squeeze(run(path, {"answer-two-roads": f"two_roads = {value}"}))
    shift = exercises.load("c01_chain_rule/shift").solution_source
    wrong = shift.replace("return inputs, targets", "return targets, inputs")
    said = squeeze(run(path, {"answer-shift": wrong}))
    told = "✗ shift: 0 of 1 visible case passed; the first that fails: shift([[5, 6, 7], [8]], 1, 2"
    assert told in said
    assert "inputs: differs most at" in said
    assert "exchanged" not in said  # the likely cause is known from the wrong answers only


def test_only_weeks_that_need_the_library_install_it(two_weeks, monkeypatch):
    without, needed = two_weeks[0]
    assert "%pip" not in cells(without)[1]["source"]
    assert "%pip" in cells(needed)[1]["source"]
    for name in [*sys.modules, "unrolled", "unrolled_book"]:
        if name.partition(".")[0] in ("unrolled", "unrolled_book"):
            monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    assert run(without).count("○") == 2
    with pytest.raises(ModuleNotFoundError):
        run(needed)


def test_the_head_says_when_to_hand_in_and_every_task_can_be_found(two_weeks):
    for path, n_answers, n_words in zip(two_weeks[0], (2, 3), (0, 3), strict=True):
        found = cells(path)
        assert "**Due** Friday, 09 October 2026, 23:59 (UTC+02:00)" in found[0]["source"]
        assert "keeps 50% of its points" in found[0]["source"]
        assert "passing it is not full marks" in found[0]["source"]
        assert len({cell["id"] for cell in found}) == len(found)
        marked = {"answer": [], "words": []}
        for cell in found:
            about = cell["metadata"].get("unrolled", {"role": "none"})
            marked.setdefault(about["role"], []).append((cell["source"], about.get("task")))
        assert (len(marked["answer"]), len(marked["words"])) == (n_answers, n_words)
        assert all(source.startswith(("def ", task)) for source, task in marked["answer"])
        assert all(s.startswith(f"<!-- answer: {task} -->") for s, task in marked["words"])


def test_links_into_the_book_lead_to_its_published_pages(whole):
    text = (
        "[a](cite:vaswani2017) [b](term:padding) [c](15_masking.ipynb) [d](#going-further) "
        "[e](https://example.org) `f[0](x)` [g](other.ipynb) [h](../book/notation.md)"
    )
    pages = editions.PAGES
    assert re.fullmatch(r"https://[\w.-]+/[\w.-]+", pages)
    assert editions.portable(text, "c07_backprop") == (
        f"[a]({pages}/book/bibliography.html#cite-vaswani2017) "
        f"[b]({pages}/book/glossary.html#term-padding) [c]({pages}/chapters/15_masking.html) "
        f"[d]({pages}/chapters/07_backprop.html#going-further) "
        f"[e](https://example.org) `f[0](x)` g [h]({pages}/book/notation.html)"
    )
    text = "\n".join(cell["source"] for path in whole for cell in cells(path)[3:])
    assert not re.findall(r"\]\((?:cite:|term:|#|[^)\s]*\.ipynb)", text)


def test_a_personal_task_differs_between_students_and_is_marked_as_their_own(tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_bytes("\ufeffname,student\r\nAda,ada\r\nBob,bob \r\n".encode())  # of a spreadsheet
    syllabus = course({"week1": [f"{FIRST}/posterior"]}, personal=True)
    with pytest.raises(ValueError, match="expected a roster"):
        editions.build_student(syllabus, tmp_path)
    ada, bob = editions.build_student(syllabus, tmp_path, roster)
    assert [path.stem for path in (ada, bob)] == ["ada", "bob"]
    texts = ["\n".join(cell["source"] for cell in cells(path)) for path in (ada, bob)]
    assert 'STUDENT = "ada"' in texts[0]
    assert texts[0].replace("ada", "bob") != texts[1]
    assert "posterior_result = ..." in texts[0]
    assert "○ posterior_result: not written yet" in run(ada)
