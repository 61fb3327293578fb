"""The form of every chapter: each rule on each notebook; a complaint says how to mend it."""

from __future__ import annotations

import pytest
from book.tools.notebooks import chapter_paths, read

import rules_code
from chapter import Chapter
from rules import RULES

COMPUTES = rules_code.exercises_are_in_step_with_their_files  # the others read what is stored
MARKED = [pytest.param(r, marks=pytest.mark.stored if r is COMPUTES else ()) for r in RULES]
CHAPTERS = [Chapter(path, read(path)) for path in chapter_paths()]


def test_there_are_chapters():
    assert CHAPTERS, "no notebook chapters/NN_slug.ipynb was found"


@pytest.mark.parametrize("rule", MARKED, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.path.stem)
def test_chapter_keeps_the_rule(chapter, rule):
    complaints = rule(chapter)
    assert not complaints, f"{chapter.path.name}:\n  " + "\n  ".join(complaints)


def test_no_definition_stands_in_two_notebooks():
    complaints = rules_code.defined_in_two_notebooks(CHAPTERS)
    assert not complaints, "\n".join(complaints)
