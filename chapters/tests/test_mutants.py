"""The mutation score's own parts: what counts as a change, and which tests are run for it."""

from __future__ import annotations

import json
import time

import pytest
from book.tools import mutants

SOURCE = '''"""Text
of the module."""

RATE = 2  # a comment


def double(x: int = 0) -> int:
    """Text."""
    if x > 1 and (
        x < 9
    ):
        x = [
            x,
        ][0]
    return 2 * x
'''


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("x: int = 0", "x: str = 0", True),
        ("-> int", "-> str", True),
        ("2 * x", "(2 * x)", True),
        ("2 * x", "2 / x", False),
        ("x: int = 0", "x: int = 1", False),
    ],
)
def test_a_change_of_annotations_or_layout_is_none(before, after, is_same):
    changed = SOURCE.replace(before, after)
    assert changed != SOURCE
    assert (mutants.meaning(changed) == mutants.meaning(SOURCE)) == is_same


def test_what_does_not_parse_means_nothing():
    assert mutants.meaning("x = = 2") is None


def test_lines_of_code_leave_out_texts_and_comments():
    assert mutants.code_lines(SOURCE) == 9


@pytest.mark.parametrize(
    ("line", "span"),
    [(4, None), (7, None), (10, (9, 11)), (13, (12, 14)), (15, (15, 15))],
)
def test_a_line_is_led_to_its_statement(line, span):
    assert mutants.statement(SOURCE, line) == span


def test_the_tests_that_run_the_statement_come_first_and_its_own_file_after_them():
    maps = {
        "test_double.py": {
            "seconds": {"own": 5.0, "elsewhere": 1.0},
            "lines": {"models/double.py": {"9": ["own"], "15": ["own", "elsewhere"]}},
        },
        "test_other.py": {
            "seconds": {"quick": 0.1, "slow": 90.0},
            "lines": {"models/double.py": {"15": ["quick", "slow"]}},
        },
    }

    def asked(line):
        mutant = mutants.Mutant("models/double.py", line, "", "", "", "")
        exact, files = mutants.tests_for(mutant, SOURCE, maps)
        return list(exact), files

    own = ["lib/tests/test_double.py"]
    assert asked(15) == (["quick", "elsewhere", "own"], own)
    assert asked(10) == (["own"], own)
    assert asked(13) == ([], ["lib/tests/test_double.py", "lib/tests/test_other.py"])
    assert asked(4) == (["quick", "elsewhere", "own"], own), "at import"


@pytest.mark.parametrize(("code", "work"), [(3, lambda: 3), (mutants.BROKEN, lambda: 1 / 0)])
def test_a_child_gives_its_exit_code(tmp_path, code, work):
    assert mutants.in_a_child(work, tmp_path / "log", 20) == code


def test_a_child_that_runs_too_long_is_ended(tmp_path):
    assert mutants.in_a_child(lambda: time.sleep(60) or 0, tmp_path / "log", 0.2) is None


def test_a_measurement_is_kept_until_what_it_ran_has_changed(tmp_path):
    kept, module = tmp_path / "kept.json", tmp_path / "lib/unrolled/models/double.py"
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE, "utf8")
    assert not mutants.is_fresh(kept, tmp_path)
    kept.write_text(json.dumps({"read": {"models/double.py": mutants.digest(module)}}), "utf8")
    assert mutants.is_fresh(kept, tmp_path)
    module.write_text(SOURCE.replace("2 * x", "3 * x"), "utf8")
    assert not mutants.is_fresh(kept, tmp_path)
    module.unlink()
    assert not mutants.is_fresh(kept, tmp_path)


def test_a_module_put_twice_within_a_second_is_not_taken_for_the_first(tmp_path):
    path, dates = tmp_path / "module.py", set()
    for source in ("x = 1", "x = 2", "x = 3"):
        mutants.put(path, source)
        dates.add(int(path.stat().st_mtime))
    assert len(dates) == 3
