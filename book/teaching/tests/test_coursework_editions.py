"""The editions: students get no answer, and a check of what they may know."""

import base64
import bz2
import csv
import io
import json
import lzma
import re
import subprocess
import sys
import zlib
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path

import pytest
from unrolled_book import exercises
from unrolled_book.coursework import editions, personal
from unrolled_book.coursework.syllabus import Syllabus
from unrolled_book.exercises.engine import travel
from unrolled_book.exercises.engine.wire import encode
from unrolled_book.exercises.examples import written_call

ALL = {f"{slug}/{n}": None for slug, names in exercises.chapters().items() for n in names}
COURSE = 'title = "A course"\nseed = "a secret of the test"\nlate = 0.5\n'
WEEK = """
[[weeks]]
name = "{name}"
title = "{name}"
due = 2026-10-09T23:59:00+02:00
exercises = {exercises}
"""
QUESTION = """
[[weeks.questions]]
name = "padding"
title = "Why pad?"
statement = "Explain [padding](term:padding)."
points = 4
rubric = ["4: says that the lengths differ"]
"""


def course(folder: Path, weeks: dict[str, list], more: str = "") -> Syllabus:
    text = COURSE + "".join(
        WEEK.format(name=name, exercises=_toml(listed)) for name, listed in weeks.items()
    )
    (folder / "course.toml").write_text(text + more, encoding="utf-8")
    return Syllabus.read(folder / "course.toml")


def _toml(listed: list) -> str:
    return "[" + ", ".join(each if each[:1] == "{" else f'"{each}"' for each in listed) + "]"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The student edition of one course with all exercises of the book, a week for each chapter."""
    folder = tmp_path_factory.mktemp("whole")
    weeks = {slug: [f"{slug}/{n}" for n in names] for slug, names in exercises.chapters().items()}
    return editions.build_student(course(folder, weeks), folder)


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


# ---- nothing leaks -------------------------------------------------------------------------------


@cache
def secrets(path: str) -> list[str]:
    """Each line of an exercise's answer, explanation, tests, oracle and wrong answers."""
    parts = re.split(r"(?m)^# %% *(\w+).*$\n?", exercises.load(path).source)[1:]
    kept = {"solution", "explanation", "tests", "oracle", "wrong"}
    texts = [body for name, body in zip(parts[::2], parts[1::2], strict=True) if name in kept]
    return [squeeze(line) for text in texts for line in text.splitlines()]


def squeeze(line: str) -> str:
    return " ".join(line.split())


def says_something(line: str) -> bool:
    """Not what stands in any program: `return x`, `else:`, `import numpy as np`, a bracket."""
    words = re.findall(r"[^\W\d_]{2,}|\d{2,}", line)
    return len(words) > 2 and not re.fullmatch(r"(from \S+ )?import .*|def .*|class .*", line)


@cache
def handed_out() -> str:
    """What students have to read: titles, statements, starters, `use`, and the engine's text."""
    found = list(travel.texts(travel.CHECKING).values())
    found.append(Path(personal.__file__).read_text(encoding="utf-8"))
    for name in ALL:
        exercise = exercises.load(name)
        found += [exercise.title, exercise.statement, exercise.starter, exercise.use_source]
        found += [written_call(exercise.name, call.args) for call in visible(exercise)]
    return "\n".join(squeeze(line) for text in found for line in text.splitlines())


def visible(exercise) -> list:
    return [] if exercise.is_value else [call for call in exercise.calls(0) if call.visible]


def texts_in(data: bytes, depth: int = 0) -> list[str]:
    """All texts in a file: as it stands, in its JSON, and in its compressed and encoded parts."""
    text = data.decode("utf-8", errors="replace")
    found = [text]
    if depth > 4:
        return found
    with suppress(ValueError):
        found += [s for s in strings(json.loads(text)) if s != text]
    for opened in unpacked(data):
        found += texts_in(opened, depth + 1)
    for each in [s for s in found if len(s) > 40]:
        for run_of in re.findall(r"[A-Za-z0-9+/_-]{24,}={0,2}", each):
            plain = run_of.rstrip("=").replace("-", "+").replace("_", "/")
            plain = plain[:-1] if len(plain) % 4 == 1 else plain
            decoded = base64.b64decode(plain + "=" * (-len(plain) % 4))
            if unpacked(decoded) or decoded.isascii():
                found += texts_in(decoded, depth + 1)
    return found


def strings(value) -> list[str]:
    if isinstance(value, dict):
        return [s for pair in value.items() for part in pair for s in strings(part)]
    if isinstance(value, list):
        joined = ["".join(value)] if value and all(isinstance(s, str) for s in value) else []
        return joined + [s for part in value for s in strings(part)]
    return [value] if isinstance(value, str) else []


def unpacked(data: bytes) -> list[bytes]:
    found = []
    for opener in (zlib.decompress, bz2.decompress, lzma.decompress, _gunzip):
        try:
            found.append(opener(data))
        except (OSError, ValueError, zlib.error, lzma.LZMAError, EOFError):
            continue
    return found


def _gunzip(data: bytes) -> bytes:
    return zlib.decompress(data, 31)


def leaks(files: list[Path]) -> list[str]:
    """The lines of the exercises' secret parts that stand somewhere in these files."""
    lines = {
        squeeze(line) for f in files for t in texts_in(f.read_bytes()) for line in t.split("\n")
    }
    there = "\n".join(sorted(lines))
    allowed = handed_out()
    secret = {line for name in ALL for line in secrets(name) if says_something(line)}
    return sorted(line for line in secret if line in there and line not in allowed)


def test_no_line_of_an_answer_stands_in_the_student_edition(whole):
    assert len(whole) == len(exercises.chapters())
    assert not (found := leaks(whole)), "\n".join(found)


@pytest.mark.parametrize("where", ["cell", "metadata", "compressed"])
def test_a_leak_would_be_found(whole, tmp_path, where):
    notebook = json.loads(whole[0].read_text(encoding="utf-8"))
    leaked = exercises.load("c01_chain_rule/posterior").explanation
    if where == "cell":
        notebook["cells"][3]["source"] += leaked.splitlines(keepends=True)
    else:
        packed = base64.b64encode(zlib.compress(leaked.encode())).decode()
        about = {"note": leaked if where == "metadata" else packed}
        notebook["cells"][3]["metadata"] = about
    (path := tmp_path / "leaky.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert leaks([path])


def test_no_hidden_test_stands_in_the_student_edition(whole):
    """Neither its arguments nor its hint, for the seed that the visible cases are made with."""
    text = "\n".join(t for path in whole for t in texts_in(path.read_bytes()))
    for name in ALL:
        exercise = exercises.load(name)
        if exercise.is_value:
            continue
        seen = {json.dumps(encode(call.args)) for call in visible(exercise)}
        for call in exercise.calls(0):
            args = json.dumps(encode(call.args), ensure_ascii=False, separators=(",", ":"))
            if not call.visible and len(args) > 60 and json.dumps(encode(call.args)) not in seen:
                assert args[9:-1] not in text, f"{name}: {args[:200]}"
            if not call.visible and len(call.hint) > 30:
                assert call.hint not in text, f"{name}: {call.hint}"


# ---- both editions run ---------------------------------------------------------------------------


def test_the_student_edition_runs_with_nothing_written(whole):
    lines = [line for path in whole for line in run(path).splitlines() if line[:1] in "✓✗○"]
    assert len(lines) == len(ALL)
    assert {line[0] for line in lines} == {"○"}


def test_a_right_answer_passes_the_self_check_which_says_what_that_is_worth(whole):
    answers = {name: exercises.load(name).solution_source for name in ALL}
    answers = {f"answer-{n.split('/')[1].replace('_', '-')}": text for n, text in answers.items()}
    said = "\n".join(run(path, answers) for path in whole)
    blocks = re.findall(r"(?m)^([✓✗○]) (\w+): (.*(?:\n    .*)*)", said)
    assert len(blocks) == len(ALL)
    untried = [name for sign, name, text in blocks if sign != "✓"]
    assert all(not visible(e) or e.judge for e in map(exercises.load, untried))
    said = [squeeze(text) for sign, _, text in blocks if sign == "✓"]
    assert all("hidden tests" in text or "whether it is right is" in text for text in said)


@pytest.fixture
def two_weeks(tmp_path):
    weeks = {
        "week1": ["c01_chain_rule/shift", "c01_chain_rule/two_roads"],
        "week2": [
            "c04_tokens/replay_merges",
            "c01_chain_rule/both_ways",
            "c14_attention/effective_share",
        ],
    }
    return course(tmp_path, weeks, QUESTION)


def test_the_teacher_edition_passes_all_its_tests(two_weeks, tmp_path):
    files = editions.build_teacher(two_weeks, tmp_path)
    said = [line for path in files for line in run(path).splitlines() if line[:1] in "✓✗○"]
    assert [line[0] for line in said] == ["✓"] * 5
    assert said[:2] == ["✓ shift: all 5 tests passed", "✓ two_roads: right"]


def test_the_teacher_edition_knows_a_wrong_value(two_weeks, tmp_path):
    path = editions.build_teacher(two_weeks, tmp_path)[0]
    wrong = 'two_roads = {"first": 0.8, "then": 0.2, "last": 0.35, "before": "4/7"}'
    assert "✗ two_roads: at ['then']: 0.2 is not right" in run(path, {"answer-two-roads": wrong})


def test_the_teacher_edition_has_all_that_the_students_lacks(two_weeks, tmp_path):
    files = editions.build_teacher(two_weeks, tmp_path)
    text = "\n".join(cell["source"] for path in files for cell in cells(path))
    exercise = exercises.load("c01_chain_rule/shift")
    assert exercise.solution_source in text
    assert all(mistake in text for mistake in exercise.wrong)
    assert "an empty text is still asked whether it ends" in text
    assert "4: says that the lengths differ" in text


def test_a_wrong_answer_is_told_what_the_book_tells_as_far_as_the_visible_case_goes(
    two_weeks, tmp_path
):
    path = editions.build_student(two_weeks, tmp_path)[0]
    shift = exercises.load("c01_chain_rule/shift")
    wrong = shift.solution_source.replace("return inputs, targets", "return targets, inputs")
    said = run(path, {"answer-shift": wrong})
    assert "✗ shift: 0 of 1 visible case passed; the first that fails:" in said
    assert "shift([[5, 6, 7], [8]], 1, 2, 0)" in said
    assert "inputs: differs most at" in said
    assert "exchanged" not in said  # the likely cause is known from the wrong answers only


VALUES = {  # the value: what is said
    '{"first": ..., "then": 1, "last": ..., "before": 2}': "○ two_roads: not written yet: first,",
    '{"first": 1, "then": "1/4", "last": 3, "before": ...}': "○ two_roads: not written yet: before",
    '{"first": 1, "then": "1/4", "last": 3, "before": 0.2}': "✓ two_roads: written, and readable",
    '{"first": 1, "then": "a fifth", "last": 3, "before": 0.2}': "expected a number",
    '{"frist": 1, "then": 2, "last": 3, "before": 0.2}': "the key 'first' is missing",
    "7": "expected a dict with the keys first, then, last, before",
    "...": "○ two_roads: not written yet",
}


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_checked_for_its_form_only(value, two_weeks, tmp_path):
    path = editions.build_student(two_weeks, tmp_path)[0]
    assert VALUES[value] in squeeze(run(path, {"answer-two-roads": f"two_roads = {value}"}))


def test_only_weeks_that_need_the_library_install_it(two_weeks, tmp_path):
    without, needed = editions.build_student(two_weeks, tmp_path)
    assert "%pip" not in cells(without)[1]["source"]
    assert "%pip" in cells(needed)[1]["source"]
    program = (
        "import json, sys; sys.modules['unrolled'] = None\n"
        "for cell in json.load(open(sys.argv[1], encoding='utf-8'))['cells']:\n"
        "    if cell['cell_type'] == 'code':\n"
        "        exec(compile(''.join(cell['source']), cell['id'], 'exec'), globals())\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(without)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("○") == 2


def test_every_task_and_answer_can_be_found_by_its_mark_and_metadata(two_weeks, tmp_path):
    for path in editions.build_student(two_weeks, tmp_path):
        found = cells(path)
        ids = [cell["id"] for cell in found]
        assert len(set(ids)) == len(ids)
        for cell in found:
            about = cell["metadata"].get("unrolled", {})
            if about.get("role") == "answer":
                assert cell["source"].startswith(("def ", about["task"]))
            if about.get("role") == "words":
                assert cell["source"].startswith(f"<!-- answer: {about['task']} -->")


def test_the_head_says_when_and_how_to_hand_in(two_weeks, tmp_path):
    head = cells(editions.build_student(two_weeks, tmp_path)[0])[0]["source"]
    assert "**Due** Friday, 09 October 2026, 23:59 (UTC+02:00)" in head
    assert "keeps 50% of its points" in head
    assert "passing it is not full marks" in head


def test_links_into_the_book_lead_to_its_published_pages():
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


def test_no_statement_keeps_a_link_that_only_the_book_knows(whole):
    text = "\n".join(cell["source"] for path in whole for cell in cells(path)[3:])
    assert not re.findall(r"\]\((?:cite:|term:|#|[^)\s]*\.ipynb)", text)


# ---- numbers of one's own ------------------------------------------------------------------------


@pytest.fixture
def roster(tmp_path):
    with (tmp_path / "roster.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["student", "name"], ["ada", "Ada"], ["bob", "Bob"]])
    return tmp_path / "roster.csv"


def test_a_personal_task_differs_between_students_and_is_marked_as_their_own(tmp_path, roster):
    task = '{exercise = "c01_chain_rule/posterior", personal = true}'
    syllabus = course(tmp_path, {"week1": [task]})
    with pytest.raises(ValueError, match="expected a roster"):
        editions.build_student(syllabus, tmp_path)
    ada, bob = editions.build_student(syllabus, tmp_path, roster)
    assert [path.stem for path in (ada, bob)] == ["ada", "bob"]
    texts = ["\n".join(cell["source"] for cell in cells(path)) for path in (ada, bob)]
    assert 'STUDENT = "ada"' in texts[0]
    assert texts[0].replace("ada", "bob") != texts[1]
    assert "posterior_result = ..." in texts[0]
    assert "○ posterior_result: not written yet" in run(ada)
