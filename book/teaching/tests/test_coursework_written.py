"""Answers in words: found in what was handed in, shown beside the rubric, their points read."""

import base64
import csv
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import Request, urlopen

import pytest
from unrolled_book.coursework import editions, written, written_page
from unrolled_book.coursework.personal import my_seed
from unrolled_book.coursework.reading import Reading
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Item, Question, Syllabus, Week
from unrolled_book.coursework.written import Given, Words

STATEMENT = "One\nparagraph of\n*two* lines.\n\n- a\n- b\n  goes on\n\n| t |\n|---|"
QUESTION = Question("padding", "Why <pad>?", STATEMENT, 4, ("2: names the <shape>",))
ITEMS = Item("c01_chain_rule/shift", 2, "all"), Item("c14_attention/effective_share", 3, "all")
WEEK = Week("week1", "One", None, ITEMS, (QUESTION,))
COURSE = Syllabus("A course", "a secret of the test", (WEEK,), (), 1.0, Path("course.toml"))
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
MARK = "<!-- answer: padding -->\n"
SHOWN = [
    {"output_type": "stream", "name": "stdout", "text": ["share 0.3\n"]},
    {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "<Figure>"}},
    {"output_type": "display_data", "data": {"text/html": "<script>alert(1)</script>"}},
]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The notebook of the student edition with answers in words; changed by cell id."""
    (path,) = editions.build_student(COURSE, tmp_path_factory.mktemp("edition"))
    text = path.read_text(encoding="utf-8")

    def answered(words: dict[str, str], outputs: dict[str, list] | None = None, more=()) -> bytes:
        data = json.loads(text)
        for cell in data["cells"]:
            cell["source"] = words.get(cell["id"], cell["source"])
            if cell["id"] in (outputs or {}):
                cell["outputs"] = outputs[cell["id"]]
        added = [{"cell_type": "markdown", "source": [source], "metadata": {}} for source in more]
        return json.dumps(data | {"cells": [*data["cells"], *added]}).encode()

    return answered


def test_an_answer_in_a_notebook_or_program_is_found_and_its_placeholder_is_none(notebook):
    def found(*bodies, name="padding"):
        return written.words([(f"{i}.ipynb", body) for i, body in enumerate(bodies)], name)

    for name in ("padding", "effective_share"):
        assert found(notebook({}), name=name) == Words()
    marked, bare, old = (
        notebook({"words-padding": text}) for text in (f"{MARK}New.", "Bare.", f"{MARK}Old.")
    )
    assert found(marked) == Words("New.")
    assert found(bare) == Words("Bare.")  # the mark was deleted with the placeholder
    assert found(bare, name="effective_share") == Words()
    assert found(old, marked, notebook({}), b"shift = 3\n") == Words("New.")  # the last that is one
    assert found(notebook({"words-padding": MARK + "One."}, more=["Two."])).text == "One.\n\nTwo."
    body = b"# %% [markdown]\n# <!-- answer: padding -->\n# The lengths\n# differ.\n\n# %%\nx = 1\n"
    assert found(body) == Words("The lengths\ndiffer.")  # in the comments of a program


def test_an_experiments_runs_and_pictures_are_found_beside_its_words(notebook):
    said = "<!-- answer: effective_share -->\nIt falls."
    body = notebook(
        {"runs-effective-share": "run()", "words-effective-share": said},
        {"runs-effective-share": SHOWN, "answer-shift": SHOWN, "check-effective-share": SHOWN},
    )
    found = written.words([("a.ipynb", body)], "effective_share")
    assert found == Words("It falls.", (("run()", "share 0.3\n\n<Figure>"),), (PIXEL,))


NO_PICTURE = [
    {"cell_type": "markdown", "source": "<!-- task: padding -->"},
    {"cell_type": "code", "source": "x", "outputs": [7, {"data": {"image/png": "<"}}]},
]
BROKEN = [b"{", b"\xff\xfe\x00", b"[1, 2]", b'{"cells": 7}', b"[" * 100_000]
BROKEN += [b'{"cells": [7, {"cell_type": "markdown", "source": 9}, {"outputs": 3}]}']
BROKEN += [json.dumps({"cells": NO_PICTURE}).encode()]


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: body[:30].decode("latin-1"))
def test_a_file_that_cannot_be_read_gives_no_answer_and_no_error(body):
    assert written.words([("a.ipynb", body)], "padding") == Words()


def test_the_page_shows_answers_beside_the_rubric_and_runs_nothing_of_theirs(notebook, tmp_path):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    body = notebook({"words-padding": MARK + attack})
    handed = [Submission("ada", (("a.ipynb", body),)), Submission("<b>bob</b>")]
    files = written.write(COURSE, handed, tmp_path / "read")
    assert [path.name for path in files] == ["written.csv", "effective_share.html", "padding.html"]
    text = files[2].read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "2: names the &lt;shape&gt;" in text
    assert not [tag for tag in ("<script", "<img src=x", "<b>bob", "<shape>") if tag in text]
    assert f"my_seed: {my_seed('ada', 'A course')}" in text
    assert "Nothing was found." in text
    assert "article .text, .shown { border-left" in text, "theirs is told from ours"
    assert "<em>two</em> lines.</p>\n<ul>\n<li>a</li>" in text
    assert "<th>t</th>" in text


def test_without_the_packages_for_it_the_text_stands_as_it_was_written(monkeypatch):
    monkeypatch.setattr(written_page, "_renderer", lambda tables: None)
    joined = STATEMENT.replace("One\nparagraph of\n", "One paragraph of ")  # but not its lists
    assert written_page.rendered(f"<{STATEMENT}") == f'<div class="plain">&lt;{joined}</div>'


@pytest.mark.parametrize(
    ("said", "html"),
    [
        (r"$p < \frac{1}{2}$", "<mo>&lt;</mo><mfrac><mrow><mn>1</mn></mrow>"),
        (r"$\text{<b>x</b>}$", "&lt;b&gt;x&lt;/b&gt;"),
        (r"$\frac{1}{$", r"<code>\frac{1}{</code>"),
        ("$" + "x" * 1001 + "$", "<code>xxx"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("it costs 5$ or 6$", "<p>it costs 5$ or 6$</p>"),
    ],
)
def test_formulas_are_set_and_nothing_that_is_written_becomes_markup(said, html):
    assert html in written_page.rendered(said)


@pytest.mark.parametrize(
    "said", ["|a" * 300 + "\n" + "|-" * 300 + "\n" + "|\n" * 500, "[a]: b\n" * 1500]
)
def test_no_answer_takes_long_to_be_shown(said):
    """A short text that fills a table of millions of cells, or is read again from each line."""
    began = time.process_time()
    assert len(written_page.rendered(said)) < 10 * len(said)
    assert time.process_time() - began < 3


class Browser:
    """Asks the page as a browser does."""

    def __init__(self, server):
        self.server = server

    def ask(self, path, said=None, **headers):
        body = None if said is None else json.dumps(said).encode()
        kind = {"Content-Type": "application/json"} if said is not None else {}
        request = Request(urljoin(self.server.address, path), body, kind | headers)
        try:
            with urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def reading(tmp_path):
    handed = [Submission("ada"), Submission("=bob"), Submission("</script>")]
    written.write(COURSE, handed, tmp_path / "written")
    with Reading(tmp_path, COURSE, WEEK) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Browser(server)
        server.shutdown()


ADA = {"student": "ada", "task": "padding", "points": "1", "comment": ""}


def test_points_given_on_the_page_are_in_the_table_at_once(reading):
    entry = ADA | {"points": "2,5", "comment": "Good\nstart"}
    assert reading.ask("points", entry) == (200, '{"points": 2.5}')
    status, says = reading.ask("points", entry | {"points": "5"})
    assert (status, says) == (400, "ada, padding: points is '5'; expected a number from 0 to 4")
    assert reading.ask("points", entry | {"student": "=bob", "points": ""})[0] == 200
    table = reading.server.table
    assert written.read_points(table, COURSE) == {
        ("ada", "padding"): Given(2.5, "Good start"),
        ("=bob", "padding"): Given(None, "Good start"),
    }
    _, text = reading.ask("padding.html")
    assert '"ada": ["2.5", "Good start"]' in text
    assert text.count("</script>") == 2, "no student's name ends the script"
    assert "1 with points" in reading.ask("")[1]


@pytest.mark.parametrize(
    ("path", "said", "headers", "status"),
    [
        ("points", ADA | {"student": "eve"}, {}, 400),
        ("points", ADA | {"task": "shift"}, {}, 400),
        ("points", {"student": "ada"}, {}, 400),
        ("points", [], {}, 400),
        ("points", {}, {"Content-Type": "text/plain"}, 403),
        ("points", {}, {"Host": "evil.example"}, 403),
        ("padding.html", None, {"Host": "evil.example"}, 403),
        ("../points", ADA | {"points": "1"}, {}, 403),
        ("../padding.html", None, {}, 403),
        ("written.csv", None, {}, 404),
        ("../course.toml", None, {}, 403),
    ],
)
def test_nothing_else_is_taken_or_shown(reading, path, said, headers, status):
    """Nor from another user of this computer, who does not know the key in the address."""
    before = reading.server.table.read_bytes()
    assert reading.ask(path, said, **headers)[0] == status
    door = reading.server.door()
    assert (door.stat().st_mode & 0o077, reading.server.address in door.read_text("utf8")) == (0, 1)
    assert reading.server.table.read_bytes() == before


def test_a_folder_without_answers_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="expected the folder that `grade` wrote"):
        Reading(tmp_path, COURSE, WEEK)
    with pytest.raises(ValueError, match="nothing that a person reads"):
        Reading(tmp_path, COURSE, replace(WEEK, items=ITEMS[:1], questions=()))


@pytest.mark.parametrize("bob", ["=bob", "bob;=1+1"])
def test_points_written_into_the_table_are_read_and_kept_by_the_next_run(tmp_path, bob):
    handed = [Submission("ada"), Submission(bob)]
    table = written.write(COURSE, handed, tmp_path)[0]
    text = table.read_text(encoding="utf-8")
    rows = [(row["student"], row["task"], row["of"]) for row in csv.DictReader(text.splitlines())]
    tasks = (("effective_share", "3"), ("padding", "4"))
    assert rows == [(student, *task) for task in tasks for student in ("ada", f"'{bob}")]
    text = text.replace("ada,padding,,4,", "ada,padding,2.5,4,Good start")
    table.write_text(
        text.replace(f"'{bob},padding,,4,", f"'{bob},padding,,4,=1+1"), encoding="utf-8"
    )
    found = written.read_points(table, COURSE)
    assert found == {
        ("ada", "padding"): Given(2.5, "Good start"),
        (bob, "padding"): Given(None, "=1+1"),
    }
    written.write(COURSE, handed[:1], tmp_path)  # bob is not in this folder, and is kept
    assert written.read_points(table, COURSE) == found


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ada,padding,5,4,", "line 2: points is '5'; expected a number from 0 to 4"),
        ("ada,padding,nan,4,", "points is 'nan'"),
        ("ada,padding,two,4,", "points is 'two'"),
        ("ada,pading,1,4,", "no task 'pading'; expected one of effective_share, padding"),
        (None, "with the columns student, task, points, of, comment"),
    ],
)
def test_a_mistake_in_the_table_is_told_with_its_line(tmp_path, line, says):
    text = "student,points\nada,3" if line is None else f"student,task,points,of,comment\n{line}"
    (tmp_path / "written.csv").write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        written.read_points(tmp_path / "written.csv", COURSE)
