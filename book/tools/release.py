"""Make a release's commits, check a tag, cut its notes: RELEASING.md says when.

    python -m book.tools.release prepare 1.0.0    the version, everywhere it is told; pin to v1.0.0
    python -m book.tools.release after            back to the branch main; CHANGELOG.md opens anew
    python -m book.tools.release check v1.0.0     exit 1 where something does not say 1.0.0
    python -m book.tools.release notes v1.0.0     print the version's part of CHANGELOG.md

The version's one place is lib/pyproject.toml. CITATION.cff and CHANGELOG.md tell it too, and on the
commit of a release the repository's branch in `_config.yml` is its tag, so that the notebooks of a
release install the library of that release.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from book.tools.notebooks import ROOT

UNRELEASED = "## Unreleased"
_NUMBER = re.compile(r"\d+\.\d+\.\d+")
_HEADING = re.compile(r"^## .*$", re.MULTILINE)


def version(root: Path = ROOT) -> str:
    """The version in its one place."""
    return tomllib.loads((root / "lib" / "pyproject.toml").read_text("utf8"))["project"]["version"]


def disagreements(root: Path = ROOT) -> list[str]:
    """What tells another version than lib/pyproject.toml, on any commit."""
    now, found = version(root), []
    cited = _value(root / "CITATION.cff", "version")
    if cited != now:
        found.append(f"CITATION.cff has version {cited}, lib/pyproject.toml {now}")
    teaching = tomllib.loads((root / "book/teaching/pyproject.toml").read_text("utf8"))["project"]
    if teaching["version"] != now:
        told = f"book/teaching/pyproject.toml has version {teaching['version']}"
        found.append(f"{told}, lib/pyproject.toml {now}")
    released = [heading for heading in _headings(root) if heading != UNRELEASED]
    if released and not released[0].startswith(f"## {now} ("):
        found.append(f"CHANGELOG.md's newest release is {released[0]!r}, not '## {now} (date)'")
    if UNRELEASED in _headings(root)[1:]:
        found.append("CHANGELOG.md: Unreleased stands below a release")
    branch = _value(root / "_config.yml", "branch")
    if branch not in ("main", f"v{now}"):
        found.append(f"_config.yml has branch {branch}, expected main or v{now}")
    return found


def check(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this commit from being the release that the tag names."""
    found = disagreements(root)
    if tag != f"v{version(root)}":
        found.append(f"the tag is {tag}, lib/pyproject.toml has version {version(root)}")
    branch = _value(root / "_config.yml", "branch")
    if branch != tag:
        found.append(f"_config.yml has branch {branch}, expected {tag}; run `make release`")
    if not notes(tag, root):
        found.append(f"CHANGELOG.md has no part '## {tag.removeprefix('v')} (date)' with a text")
    return found


def notes(tag: str, root: Path = ROOT) -> str:
    """The text below the version's heading in CHANGELOG.md; empty where there is none."""
    text = (root / "CHANGELOG.md").read_text("utf8")
    start = re.search(rf"^## {re.escape(tag.removeprefix('v'))} \(.*\)$", text, re.MULTILINE)
    if not start:
        return ""
    rest = text[start.end() :]
    end = _HEADING.search(rest)
    return rest[: end.start() if end else None].strip()


def prepare(number: str, root: Path = ROOT, day: datetime.date | None = None) -> None:
    """Write the version and its day, give what is unreleased its name, and pin to the tag.

    Raises ValueError where the number is no version or CHANGELOG.md has nothing to release.
    """
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"a version is three numbers, such as 1.0.0; got {number!r}")
    day = day or datetime.date.today()
    changes = root / "CHANGELOG.md"
    part = re.search(rf"^{UNRELEASED}\n+(?!## )\S", changes.read_text("utf8"), re.MULTILINE)
    if not part:
        raise ValueError(f"CHANGELOG.md has no text below '{UNRELEASED}'")
    _write(changes, rf"^{UNRELEASED}$", f"## {number} ({day})")
    for folder in ("lib", "book/teaching"):
        _write(root / folder / "pyproject.toml", r'^version = ".*"$', f'version = "{number}"')
    citation = root / "CITATION.cff"
    _write(citation, r"^date-released: .*\n", "", at_least=0)
    _write(citation, r"^version: .*$", f"version: {number}\ndate-released: {day}")
    _pin(root, f"v{number}")


def after(root: Path = ROOT) -> None:
    """Open the next part of CHANGELOG.md and take the pin away."""
    if UNRELEASED not in _headings(root):
        _write(root / "CHANGELOG.md", r"\A(.*?)^## ", rf"\1{UNRELEASED}\n\n## ")
    _pin(root, "main")


def _pin(root: Path, branch: str) -> None:
    _write(root / "_config.yml", r"^  branch: .*$", f"  branch: {branch}")


def _write(path: Path, pattern: str, new: str, at_least: int = 1) -> None:
    flags = re.MULTILINE | re.DOTALL if pattern.startswith(r"\A") else re.MULTILINE
    text, count = re.subn(pattern, new, path.read_text("utf8"), count=1, flags=flags)
    if count < at_least:
        raise ValueError(f"{path.name} has no line {pattern}")
    path.write_text(text, "utf8")


def _value(path: Path, name: str) -> str | None:
    found = re.search(rf"^ *{name}: *(\S+)", path.read_text("utf8"), re.MULTILINE)
    return found and found[1].strip("\"'")


def _headings(root: Path) -> list[str]:
    return _HEADING.findall((root / "CHANGELOG.md").read_text("utf8"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("prepare").add_argument("version")
    what.add_parser("after")
    what.add_parser("check").add_argument("tag")
    what.add_parser("notes").add_argument("tag")
    given = parser.parse_args()
    if given.what == "check":
        found = check(given.tag)
        print("\n".join(found) or f"release: everything says {version()}")
        return int(bool(found))
    if given.what == "notes":
        print(notes(given.tag))
        return 0
    try:
        prepare(given.version) if given.what == "prepare" else after()
    except ValueError as error:
        print(f"release: {error}")
        return 1
    return subprocess.run([sys.executable, "-m", "book.tools.notebooks.address"]).returncode


if __name__ == "__main__":
    sys.exit(main())
