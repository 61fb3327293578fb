"""Docstrings for the API reference: plain text made into reStructuredText.

A docstring of the library is prose. A line such as ``mask: boolean, True = may attend.`` at the
beginning of a paragraph's line tells of an argument; the lines that are indented after it belong to
it. Names stand between single backticks. Everything else is taken as it is written, so signs that
have a meaning in reStructuredText lose it.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

ARGUMENTS = re.compile(r"^(?=[a-z*])([\w*]+(?:, [\w*]+)*): (.*)$")
CODE = re.compile(r"`+[^`]*`+")


def plain(text: str) -> str:
    """A text without meaning to reStructuredText, but for code between backticks."""
    parts, last = [], 0
    for code in CODE.finditer(text):
        parts += [_escaped(text[last : code.start()]), f"``{code[0].strip('`')}``\\ "]
        last = code.end()
    return "".join([*parts, _escaped(text[last:])])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_|<>:])", r"\\\1", text)


def restructured(lines: list[str]) -> list[str]:
    """The docstring's lines as reStructuredText: paragraphs, arguments as a list, code as it is."""
    found: list[str] = []
    in_list = in_code = False
    for line in lines:
        indented = line.startswith("    ")
        if not line.strip():
            found.append("")
            in_list = False
        elif line.lstrip().startswith((">>>", "...")) or (in_code and found[-1]):
            found += ([""] if found and found[-1] and not in_code else []) + [line]
            in_code = True
            continue
        elif indented and not in_list and not (found and found[-1] and not in_code):  # a program
            found += ["::", "", line] if not in_code else [line]
            in_code = True
            continue
        elif in_code and found[-1]:
            found += ["", plain(line)]
        elif argument := ARGUMENTS.match(line) or re.match(r"^(- )(.*)$", line):
            found += [] if in_list or not found or not found[-1] else [""]
            name = "" if argument[1] == "- " else f"**{_escaped(argument[1])}**\\ : "
            found.append(f"* {name}{plain(argument[2])}")
            in_list = True
        else:
            found.append(f"{'  ' * in_list}{plain(line.strip())}")
        in_code = False
    return found


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]):
    """Rewrite the lines in place, as autodoc wants it."""
    lines[:] = restructured(list(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
