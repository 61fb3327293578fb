"""The repository itself: what its code imports is listed, and its lock files are in step."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from book.tools.notebooks import ROOT

_installed = cache(packages_distributions)
LISTS = ("requirements", "requirements-colab")
UNLOCKED = {"torch"}  # see requirements.txt


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it: PyYAML -> pyyaml, a_b -> a-b."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Distribution -> version, of the lines `name==version`; a lock may have several versions."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in found}


def imported(source: str) -> set[str]:
    """The top-level packages that a program imports, wherever the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def unlisted(source: str, own: set[str], listed: set[str]) -> set[str]:
    """The imported packages that are neither ours nor Python's nor listed."""
    foreign = imported(source) - own - set(sys.stdlib_module_names)
    return {name for name in foreign if not distributions(name) & listed}


@cache
def distributions(package: str) -> frozenset[str]:
    """What may be installed to import this package: {'beautifulsoup4'} of bs4."""
    return frozenset(canonical(name) for name in _installed().get(package, [package]))


def test_every_package_that_our_code_imports_is_listed_in_requirements():
    command = ["git", "ls-files", "*.py"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8", check=True)
    paths = [ROOT / name for name in files.stdout.split() if (ROOT / name).exists()]
    own = {"book", "lib", "unrolled", "unrolled_book"} | {path.stem for path in paths}
    listed = set(pins((ROOT / "requirements.txt").read_text("utf8")))
    verbs = (ROOT / "book" / "verbs" / "checking.py").read_text("utf8")
    fetched = re.findall(r'"--with", "([\w-]+)==', verbs)
    listed |= {canonical(name) for name in fetched}  # for one target only
    missing = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in unlisted(path.read_text("utf8"), own, listed)
    }
    assert not missing, f"list in requirements.txt, then run `make lock`: {sorted(missing)}"


def test_an_unlisted_import_is_found():
    source = "import json, yaml\nfrom PIL import Image\ndef f():\n    import bs4, ours"
    assert unlisted(source, {"ours"}, {"pillow"}) == {"yaml", "bs4"}


@pytest.mark.parametrize("name", LISTS)
def test_the_lock_holds_what_is_asked_for(name):
    asked, lock = ((ROOT / f"{name}.{end}").read_text("utf8") for end in ("txt", "lock"))
    wanted = {d: v for d, v in pins(asked).items() if d not in UNLOCKED}
    held = pins(lock)
    assert not UNLOCKED & set(held)
    behind = {d: v for d, v in wanted.items() if held.get(d) != v}
    assert not behind, f"{name}.lock is behind; run `make lock`"


@pytest.mark.parametrize("name", LISTS)
def test_every_package_of_the_lock_has_a_hash_and_no_host(name):
    lock = (ROOT / f"{name}.lock").read_text("utf8")
    entries = re.split(r"\n(?=\S)", lock.strip())
    bare = [e.splitlines()[0] for e in entries if "--hash=sha256:" not in e]
    assert not bare
    assert not re.search(r"://|index-url|find-links", lock)


TEXT_MODE = {"text", "universal_newlines"}
# Whose `open` opens no text.
NO_FILES = {"archive", "gzip", "Image", "os", "pikepdf", "tarfile", "webbrowser"}


def without_encoding(source: str) -> list[str]:
    """The calls that read or write text in the system's own encoding: on Windows not UTF-8."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or "encoding" in {word.arg for word in call.keywords}:
            continue
        owner, _, name = ast.unparse(call.func).rpartition(".")
        words = {word.arg for word in call.keywords}
        modes = [
            a.value for a in call.args if isinstance(a, ast.Constant) and len(str(a.value)) < 4
        ]
        if (
            (name == "read_text" and not call.args)
            or (name == "write_text" and len(call.args) < 2)
            or (name in {"run", "Popen", "check_output"} and words & TEXT_MODE)
            or (name == "open" and owner not in NO_FILES and not any("b" in str(m) for m in modes))
        ):
            found.append(ast.unparse(call))
    return found


def test_texts_are_read_and_written_as_utf_8_whatever_the_system_prefers():
    command = ["git", "ls-files", "*.py"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8", check=True)
    paths = [ROOT / name for name in files.stdout.split() if (ROOT / name).exists()]
    found = {str(p.relative_to(ROOT)): without_encoding(p.read_text("utf8")) for p in paths}
    only_linux = found.pop("book/teaching/unrolled_book/exercises/engine/sandboxed.py")
    assert only_linux == ["statm.read_text()"], "of /proc"
    assert not {name: calls for name, calls in found.items() if calls}, "give the encoding: utf8"


def test_a_call_without_encoding_is_found():
    lines = ["open(p)", "p.open('a')", "p.read_text()", "p.write_text(t)", "run(c, text=True)"]
    assert without_encoding("\n".join(lines)) == lines
    assert not without_encoding("open(p, 'rb'); open(p, encoding='utf8'); p.read_text('utf8')")


def test_no_path_in_the_repository_is_a_link():
    command = ["git", "ls-files", "--stage"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8", check=True)
    links = re.findall(r"^120000 .*\t(.*)$", listed.stdout, re.MULTILINE)
    assert not links, "a link leads into one computer, and Windows checks out a text instead"
