"""The wheels and source archives hold their package, all of it and nothing else."""

from __future__ import annotations

import zipfile

import pytest
from book.tools import dist, release


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    return dist.build(tmp_path_factory.mktemp("dist") / "out")


def test_the_archives_hold_modules_texts_results_syllabi_styles_and_nothing_else(archives):
    parts = {"unrolled": ("data/texts/austen.txt.bz2",)}
    parts["unrolled_book"] = ("results/ladder_ngram.json", "syllabi/", ".css")
    for package, built in archives.items():
        wanted = dist.expected(package)
        for part in parts[package]:
            assert any(part in name for name in wanted), part
        for archive in built:
            assert dist.complaints(dist.contents(archive), wanted) == []


def test_the_librarys_wheel_holds_nothing_that_teaches(archives):
    assert not [n for n in dist.contents(archives["unrolled"][0]) if "teach" in n or "book" in n]


def test_the_wheel_says_its_version_and_is_described(archives):
    with zipfile.ZipFile(archives["unrolled"][0]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        text = wheel.read(name).decode("utf8")
    assert f"\nVersion: {release.version()}\n" in text
    assert "\nDescription-Content-Type: text/markdown\n" in text
    assert "# unrolled" in text.split("\n\n", 1)[1]


def test_what_is_missing_and_what_does_not_belong_is_named():
    names = ["unrolled/a.py", "unrolled-1.0.dist-info/RECORD", "tests/test_a.py", "unrolled/"]
    assert dist.complaints(names, {"unrolled/a.py", "unrolled/b.css"}) == [
        "missing: unrolled/b.css",
        "does not belong there: tests/test_a.py",
    ]
