"""The tables that teachers save: rosters, times and points, as Excel writes them, too."""

import csv
import io
import json

import pytest
from unrolled_book.coursework import personal, tables
from unrolled_book.coursework.marks import Grade, cell, table
from unrolled_book.coursework.roster import read_roster, read_times
from unrolled_book.coursework.written import words

ROWS = [("student", "name"), ("müller", "Jörg Müller"), ("ana", "Ana, the first")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_as_it_was_saved(tmp_path, separator, encoding):
    path = tmp_path / "roster.csv"
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in ROWS]
    path.write_bytes("\r\n".join(map(separator.join, quoted)).encode(encoding))
    expected = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    assert [row for _, row in tables.read(path, ["student"])] == expected
    assert read_roster(path) == expected
    assert personal.read_ids(path) == ("müller", "ana")


def test_what_is_no_table_is_named(tmp_path):
    path = tmp_path / "roster.csv"
    for body, says in [
        (b"PK\x03\x04\x00\x00", "is no text; expected a CSV file with the columns student"),
        (b"name,id\nana,1\n", "has no column student"),
        (b"", "has no column student"),
        (b'student\n"' + b"x" * 200_000, "line"),
    ]:
        path.write_bytes(body)
        for read in (read_roster, personal.read_ids):
            with pytest.raises(ValueError, match=rf"roster\.csv.*{says}"):
                read(path)
    path.write_text("student;time\nana;today\n", "utf8")
    with pytest.raises(ValueError, match=r"roster\.csv, line 2: got 'today'"):
        read_times(path)


COMPUTED = [
    "=1+1", ";=1", "a;=1+1", "+A1", "+1+A1", "1;-2+A1", "＝1", "＋A1", "\ufeff=1", "\u200b=1",
    "a\u2028=1", "a|=1", "a,=1", "@SUM(1)", "-2+3+cmd|' /C calc'!A0", "\t=1", "\tname", "- $B$12",
    "-A1", " =1", "ana;+A1",
]  # fmt: skip
KEPT = [
    "-12", "+49 123", "@alice", "a@b.edu", "a-b", "x=1", "-", "1,5", "", "a; b", "+ana", "Ana L",
]  # fmt: skip


@pytest.mark.parametrize("text", COMPUTED + KEPT)
def test_what_a_spreadsheet_would_compute_gets_an_apostrophe_and_the_rest_stays(text):
    written = f"'{text}" if text in COMPUTED else text
    rows = csv.reader(io.StringIO(table([Grade(text, ())], []), newline=""))
    assert [cell(text), [*rows][1][0]] == [written] * 2


def test_words_are_found_in_every_form_of_a_notebook():
    asked = {"cell_type": "markdown", "source": "<!-- answer: why -->\n\nBecause of the größer."}
    new = {"cells": [asked], "nbformat": 4}
    old = {"worksheets": [{"cells": [asked]}], "nbformat": 3}
    for notebook in (new, old):
        text = json.dumps(notebook, ensure_ascii=False)
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
            found = words([("w.ipynb", text.encode(encoding))], "why")
            assert found.text == "Because of the größer.", encoding
