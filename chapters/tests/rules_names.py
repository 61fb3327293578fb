"""The rule on names: what a reader sees used, a reader has met."""

from __future__ import annotations

import ast
import builtins
import re

from book.tools.notebooks import tags
from nbformat import NotebookNode

from chapter import Chapter, tree


def names_are_met_before_they_are_used(chapter: Chapter) -> list[str]:
    """A name that only a folded cell defines is said in the text before visible code uses it."""
    met, folded, text, found = set(dir(builtins)), {}, "", []
    first = chapter.code[0][0] if chapter.code else 0
    for index, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown":
            text += cell.source
        elif "exercise" in tags(cell):
            break
        elif index > first and "hide-input" in tags(cell):
            folded |= dict.fromkeys(_given(cell) - folded.keys(), index)
        else:
            used = (
                _names(cell, ast.Load) - _names(cell, ast.Store) - met if index > first else set()
            )
            said = {
                word for code in re.findall(r"`[^`]*`", text) for word in re.findall(r"\w+", code)
            }
            found += [
                f"cell {index} uses {name}, which only the folded cell {folded[name]} defines; say"
                f" in the text before it what `{name}` is, or define it in sight"
                for name in sorted(used & folded.keys() - said)
            ]
            met |= _given(cell)
    return found


def _names(cell: NotebookNode, context: type) -> set[str]:
    """All names that a cell reads, or those that it binds anywhere, arguments included."""
    nodes = list(ast.walk(tree(cell)))
    found = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, context)}
    if context is ast.Store:
        found |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        found |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
        found |= _given(cell)
    return found


def _given(cell: NotebookNode) -> set[str]:
    """The names that a cell leaves behind: definitions, imports, and what its own lines assign."""
    found: set[str] = set()
    for node in tree(cell).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                found.add(each.id)
            elif isinstance(each, ast.alias):
                found.add((each.asname or each.name).partition(".")[0])
    return found
