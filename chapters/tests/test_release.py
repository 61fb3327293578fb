"""A release: one version, a tag that pins, notes cut from CHANGELOG.md."""

from __future__ import annotations

import datetime
from importlib import metadata

import pytest
import unrolled
from book.tools import release
from book.tools.notebooks import ROOT

DAY = datetime.date(2027, 2, 3)
CHANGES = "# Changes\n\nA head.\n\n## Unreleased\n\n- **One.** A thing.\n  More.\n- Two.\n"


@pytest.fixture
def root(tmp_path):
    for folder in (tmp_path / "lib", tmp_path / "book" / "teaching"):
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text('[project]\nname = "u"\nversion = "0.1.0"\n', "utf8")
    (tmp_path / "CITATION.cff").write_text(
        "cff-version: 1.2.0\nversion: 0.1.0\nlicense: MIT\n", "utf8"
    )
    (tmp_path / "CHANGELOG.md").write_text(CHANGES, "utf8")
    (tmp_path / "_config.yml").write_text(
        "repository:\n  url: https://x.org/y\n  branch: main\n", "utf8"
    )
    return tmp_path


def test_version_stands_in_one_place_and_everything_agrees():
    assert release.disagreements() == []
    told = (ROOT / "lib" / "unrolled" / "__init__.py").read_text("utf8")
    assert release.version() not in told, "the version's place is lib/pyproject.toml"
    assert unrolled.__version__ == metadata.version("unrolled")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unrolled.nothing  # noqa: B018


def test_a_release_is_prepared_checked_and_left_behind(root):
    assert release.disagreements(root) == []
    release.prepare("1.0.0", root, DAY)
    assert release.version(root) == "1.0.0"
    assert release.check("v1.0.0", root) == []
    assert release.notes("v1.0.0", root) == "- **One.** A thing.\n  More.\n- Two."
    cited = (root / "CITATION.cff").read_text("utf8")
    assert "version: 1.0.0\ndate-released: 2027-02-03\n" in cited
    assert cited.startswith("cff-version: 1.2.0\n")
    assert "  branch: v1.0.0\n" in (root / "_config.yml").read_text("utf8")

    release.after(root)
    assert release.disagreements(root) == []
    assert "  branch: main\n" in (root / "_config.yml").read_text("utf8")
    head = "A head.\n\n## Unreleased\n\n## 1.0.0 (2027-02-03)\n\n- **One.**"
    assert head in (root / "CHANGELOG.md").read_text("utf8")
    assert release.notes("v1.0.0", root).endswith("- Two.")
    with pytest.raises(ValueError, match="no text below"):
        release.prepare("1.1.0", root, DAY)

    changes = (root / "CHANGELOG.md").read_text("utf8")
    (root / "CHANGELOG.md").write_text(
        changes.replace("Unreleased\n", "Unreleased\n\n- Three.\n"), "utf8"
    )
    release.prepare("1.1.0", root, DAY)
    assert release.check("v1.1.0", root) == []
    assert release.notes("v1.1.0", root) == "- Three."
    assert (root / "CITATION.cff").read_text("utf8").count("date-released") == 1


def test_a_tag_that_is_not_this_version_is_refused_with_what_differs(root):
    release.prepare("1.0.0", root, DAY)
    assert any("the tag is v1.0.1" in line for line in release.check("v1.0.1", root))
    release.after(root)
    assert any("branch main" in line for line in release.check("v1.0.0", root))


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("CITATION.cff", "version: 1.0.0", "version: 0.9.0", "CITATION.cff has version 0.9.0"),
        ("CHANGELOG.md", "## 1.0.0 (", "## 0.9.0 (", "newest release"),
        ("_config.yml", "v1.0.0", "v0.9.0", "branch v0.9.0"),
        ("lib/pyproject.toml", "1.0.0", "1.0.1", "CITATION.cff has version 1.0.0"),
        (
            "book/teaching/pyproject.toml",
            "1.0.0",
            "1.0.1",
            "teaching/pyproject.toml has version 1.0.1",
        ),
    ],
)
def test_whatever_tells_another_version_is_named(root, name, old, new, told):
    release.prepare("1.0.0", root, DAY)
    path = root / name
    path.write_text(path.read_text("utf8").replace(old, new), "utf8")
    assert any(told in line for line in release.disagreements(root))


@pytest.mark.parametrize("number", ["1.0", "v1.0.0", "1.0.0rc1", ""])
def test_a_version_is_three_numbers(root, number):
    with pytest.raises(ValueError, match="three numbers"):
        release.prepare(number, root, DAY)
