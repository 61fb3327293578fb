"""What the tests hold, as CONTRIBUTING.md lists it: the rules' docstrings and the tests' names."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from book.tools.notebooks import ROOT

TARGET = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- rules:begin -->", "<!-- rules:end -->"
TESTS = ROOT / "chapters" / "tests"
NAMED = {
    "Exercises": TESTS / "test_exercises.py",
    "The two packages": ROOT / "book" / "teaching" / "tests" / "test_packages.py",
    "The repository": TESTS / "test_repository.py",
    "Contents": TESTS / "test_contents.py",
}


def page() -> str:
    """CONTRIBUTING.md with its lists renewed."""
    text = TARGET.read_text("utf8")
    head, rest = text.split(BEGIN)
    parts = {"A chapter": chapter_rules()} | {k: names(v) for k, v in NAMED.items()}
    lists = "\n\n".join(
        f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in parts.items()
    )
    return f"{head}{BEGIN}\n{lists}\n{END}{rest.split(END)[1]}"


def chapter_rules() -> list[str]:
    """The first line of each rule's docstring."""
    sys.path.insert(0, str(TESTS))
    from rules import RULES, rules_code

    every = (*RULES, rules_code.defined_in_two_notebooks)
    return [rule.__doc__.strip().splitlines()[0] for rule in every]


def names(path: Path) -> list[str]:
    """What the tests of a file are named for, but for those that try the tests themselves."""
    tree = ast.parse(path.read_text("utf8"))
    found = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    words = [name[5:].replace("_", " ") for name in found if name.startswith("test_")]
    return [f"{w[:1].upper()}{w[1:]}." for w in words if not re.search(r"would be found$", w)]
