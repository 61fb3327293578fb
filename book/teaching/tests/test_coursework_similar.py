"""Answers that are alike: what is listed, what is not, and the page."""

import pytest
from unrolled_book import exercises
from unrolled_book.coursework.__main__ import main
from unrolled_book.coursework.similar import page, similar
from unrolled_book.coursework.submissions import Submission

from book.teaching.tests.test_coursework_grading import SYLLABUS, handed_in, notebook, syllabus

__all__ = ["syllabus"]
OWN = """
def shift(text, n, pad):
    # walks backwards, and keeps a list of what it has seen
    rows, width, seen = [], len(text), {}
    for place in reversed(range(width)):
        history = [text[place - back] if place >= back else pad for back in range(1, n)]
        seen[place] = tuple(history[::-1])
    while seen:
        place, history = seen.popitem()
        rows.append((*history, text[place]))
    return np.array(rows)
"""
DISGUISED = """
def shift(tokens, order, filler):
    '''All my own work!'''
    out, length, memory = [], len(tokens), {}

    for i in reversed(range(length)):
        before = [tokens[i - k] if i >= k else filler
                  for k in range(1, order)]
        memory[i] = tuple(before[::-1])
    while memory:
        i, before = memory.popitem()
        out.append((*before, tokens[i]))
    return np.array(out)
"""
OTHER = """
def shift(text, n, pad):
    result = np.full((len(text), n), pad)
    for column in range(n):
        back = n - 1 - column
        result[back:, column] = text[: len(text) - back]
    if not len(text):
        raise ValueError("an empty text")
    return result
"""
SOLUTION = exercises.load("c01_chain_rule/shift").solution_source


def names(pairs):
    return [tuple(each.student for each in pair.answers) for pair in pairs]


def handed(**answers):
    return [handed_in(student, answer) for student, answer in answers.items()]


def test_new_names_comments_and_line_breaks_hide_no_copy(syllabus):
    class_ = handed(ada=OWN, bob=OTHER, cleo=DISGUISED, dan=SOLUTION, eve="x = 1")
    (pair,) = similar(syllabus, syllabus.weeks[0], class_)
    assert names([pair]) == [("ada", "cleo")]
    assert pair.share > 0.95


def test_what_much_of_the_class_has_written_is_no_sign_and_a_small_ring_is(syllabus):
    ring = dict.fromkeys("abc", OWN)
    others = dict.fromkeys("defghij", OTHER)
    found = names(similar(syllabus, syllabus.weeks[0], handed(**ring, **others)))
    assert found == [("a", "b"), ("a", "c"), ("b", "c")]


def test_most_of_a_copy_is_listed_below_a_whole_one_and_half_of_one_is_not(syllabus):
    lines = DISGUISED.strip().split("\n")
    most = "\n".join([*lines[:-1], "    return np.stack([np.asarray(row) for row in out], axis=0)"])
    half = "\n".join([*lines[:6], *OTHER.strip().split("\n")[1:]])
    pairs = similar(syllabus, syllabus.weeks[0], handed(ada=OWN, bob=most, cleo=OWN, dan=half))
    assert names(pairs) == [("ada", "cleo"), ("ada", "bob"), ("bob", "cleo")]
    assert pairs[0].share == 1 > pairs[1].share


@pytest.mark.parametrize("broken", ["def shift(:", "def shift():\n  '''", "\0", ""])
def test_what_is_no_program_stops_nobody(syllabus, broken):
    class_ = handed(ada=OWN, bob=broken, cleo=DISGUISED)
    assert names(similar(syllabus, syllabus.weeks[0], class_)) == [("ada", "cleo")]


def test_words_are_compared_too_without_the_question(syllabus):
    text = "A heavy tail of rare words keeps the mean long after each common one was counted, "
    text += "so the estimate falls behind, and no sum over what was seen can ever say by how much; "
    text += "only text that was held back can, since nobody has counted it before. "
    said = {"ada": f"Explain. {text}", "bob": text.upper(), "cleo": "Explain. I do not know."}
    files = {s: ("w.py", f"# <!-- answer: why -->\n# {t}".encode()) for s, t in said.items()}
    class_ = [Submission(student, (file,)) for student, file in files.items()]
    assert names(similar(syllabus, syllabus.weeks[1], class_)) == [("ada", "bob")]


def test_the_command_writes_a_page_on_which_no_answer_is_markup(tmp_path, capsys):
    course, out = tmp_path / "course.toml", tmp_path / "similar.html"
    course.write_text(SYLLABUS, "utf8")
    evil = OWN.replace("# walks", "# <script>alert(1)</script> walks")
    folder = tmp_path / "all"
    for student, answer in {"ada": evil, "bob": DISGUISED}.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "week1.ipynb").write_bytes(notebook([answer]))
    how = ["--syllabus", str(course), "--week", "week1", "--out", str(out)]
    assert main(["similar", str(folder), *how]) == 0
    assert "1 pairs of answers that are alike" in capsys.readouterr().out
    text = out.read_text("utf8")
    assert "<script" not in text
    assert "<mark>reversed</mark>" in text
    assert "ada and bob" in text
    assert "No pair shares much" in page("A course", [])


def test_marks_stand_at_their_words_behind_ends_of_lines_that_python_does_not_count(syllabus):
    odd = OWN.replace("# walks", "# \f\u2028\x85 walks")
    pairs = similar(syllabus, syllabus.weeks[0], handed(ada=odd, bob=OWN))
    assert page("A course", pairs).count("<mark>popitem</mark>") == 2
