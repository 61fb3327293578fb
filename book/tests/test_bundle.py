"""How the bundle is made: what cannot be had is said, another file refused, and the rules."""

from __future__ import annotations

import subprocess
import sys

import pytest
from unrolled_book import exercises

from book.tools.live import archives, bundle, library, listings, packages, trim
from book.tools.live.packages import NUMPY, PYODIDE, NoBundle
from book.tools.notebooks import ROOT


def test_without_npm_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "CACHE", tmp_path)
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    with pytest.raises(NoBundle, match="npm is missing"):
        PYODIDE.members()


def test_a_package_of_other_bytes_is_refused_and_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "CACHE", tmp_path)
    (tmp_path / NUMPY.file).write_bytes(b"another file")
    with pytest.raises(NoBundle, match="sha512"):
        NUMPY.members()
    assert not (tmp_path / NUMPY.file).exists()


@pytest.mark.parametrize(("arguments", "code"), [(["--try"], 0), ([], 1)])
def test_a_book_goes_on_without_the_bundle_and_a_test_does_not(arguments, code):
    program = (
        "import runpy, sys\nfrom book.tools.live import bundle, packages\n"
        "def broken(): raise packages.NoBundle('npm is missing')\n"
        "bundle.write = broken\nsys.argv[1:] = " + repr(arguments) + "\n"
        "runpy.run_module('book.tools.live', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8")
    assert done.returncode == code, done.stderr
    (line,) = done.stdout.splitlines()
    assert "npm is missing" in line
    assert "Colab" in line


def test_an_archive_is_the_same_whatever_the_order():
    files = {"a/b.py": b"1", "a/c.py": b"2" * 1000}
    again = dict(reversed(files.items()))
    assert archives.tar_gz(files) == archives.tar_gz(again)
    assert packages.members(archives.tar_gz(files)) == files


def test_what_has_changed_is_seen(monkeypatch):
    before = bundle.sources()
    assert bundle.sources() == before
    monkeypatch.setattr(bundle, "chapter_paths", list)
    assert bundle.sources() != before


def test_an_exercise_that_needs_torch_is_solved_elsewhere(tmp_path):
    """Outside its oracle, which the page never runs."""
    plain = exercises.load("c01_chain_rule/shift")
    assert "import torch" in plain.source
    assert library.elsewhere(plain) is None
    folder = tmp_path / "c01_chain_rule"
    folder.mkdir()
    head, solution, rest = plain.source.partition("# %% solution")
    (folder / "shift.py").write_text(f"{head}{solution}\nimport torch\n{rest}", encoding="utf-8")
    reason = library.elsewhere(exercises.Exercise.read(folder / "shift.py"))
    assert reason == "needs torch, which the page does not have"


def test_what_is_trimmed_leaves_what_is_kept():
    names = [
        "os.py",
        "email/message.py",
        "json/decoder.py",
        "encodings/utf_8.py",
        "encodings/cp37.py",
    ]
    assert list(trim.python(dict.fromkeys(names, b""))) == [names[0], names[2], names[3]]
    with pytest.raises(ValueError, match="does not hold"):
        trim.numpy({f"{bundle.SITE}/numpy/_core/overrides.py": b"another version"})


# ---- what a listing needs of the chapter before it -----------------------------------------------

SET_UP = """try:
    import unrolled_book
except ModuleNotFoundError:
    %pip install --quiet x
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import torch
from unrolled_book import behaviour, figures

figures.use_house_style()
np.set_printoptions(precision=3)"""


@pytest.mark.parametrize(
    ("earlier", "listing", "kept"),
    [
        ("a = 1\nb = 2", "print(b)", "b = 2"),
        ("a = 1\nb = a + 1\nc = 3", "print([b for c in 'x'])", "a = 1\nb = a + 1"),
        ("a = 1\na = 2", "a", "a = 2"),
        ("a = []\na.append(1)\nprint(a)", "a", "a = []\na.append(1)"),
        ("a = {}\na['x'] = 1\na['x'] += 1", "a", "a = {}\na['x'] = 1\na['x'] += 1"),
        ("n = 0\nfor i in range(3):\n    n += i", "n", "n = 0\nfor i in range(3):\n    n += i"),
        ("k = 2\ndef f(x):\n    return g(x)\ndef g(x):\n    return f(k)", "f(1)",
         "k = 2\ndef f(x):\n    return g(x)\ndef g(x):\n    return f(k)"),
        ("a = 1", "def f(a):\n    return a\nf(2)", ""),
        ("a = Fraction(1, 2)", "a", "from fractions import Fraction\na = Fraction(1, 2)"),
        ("a = np.eye(2)\nnp.testing.assert_allclose(a, a)", "a",
         "import numpy as np\nnp.set_printoptions(precision=3)\na = np.eye(2)"),
    ],
)  # fmt: skip
def test_a_slice_keeps_what_binds_or_changes_a_name_that_is_needed(earlier, listing, kept):
    assert listings.slice_of(listing, [SET_UP, earlier]) == kept


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        ("x = torch.eye(2)", "torch needs torch, which the page does not have"),
        ("plt.plot([1])", "plt needs matplotlib, which"),
        ("figures.show(1)", "figures needs matplotlib, which"),
        ("print(nowhere)", "nowhere: no earlier cell defines it"),
    ],
)
def test_a_listing_that_the_page_cannot_run_is_refused_by_name(listing, says):
    with pytest.raises(ValueError, match=says):
        listings.slice_of(listing, [SET_UP, "y = 1"])
