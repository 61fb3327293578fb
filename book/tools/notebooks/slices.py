"""Which cells of a chapter a figure needs: the set-up cell, and what binds the names it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from nbformat import NotebookNode


def tree(cell: NotebookNode) -> ast.Module:
    """The syntax tree of a code cell, its %magics and !commands left out."""
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source))


def figure_cells(notebook: NotebookNode) -> list[int]:
    """The indices of the cells that store a figure."""
    return [index for index, cell in enumerate(notebook.cells) if _stores_a_figure(cell)]


def _stores_a_figure(cell: NotebookNode) -> bool:
    data = (output.get("data", {}) for output in cell.get("outputs", []))
    return any("<svg" in bundle.get("text/html", "") for bundle in data)


def needed(notebook: NotebookNode, wanted: Iterable[int]) -> list[int]:
    """The indices of the code cells to run for the wanted ones, in order, the first code cell too.

    A cell needs those that last bound each name it uses, and those that changed the value since: by
    an assignment to a part of it, or by a call that stands alone and gets it.
    """
    code = {i: tree(cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"}
    binds = {i: _bound(module) for i, module in code.items()}
    changes = {i: _changed(module) for i, module in code.items()}
    keep, open_ = {min(code)}, list(wanted)
    while open_:
        at = open_.pop()
        if at in keep and at != min(code):
            continue
        keep.add(at)
        for name in _used(code[at]):
            bound = [i for i in code if i < at and name in binds[i]]
            since = [i for i in code if bound and bound[-1] < i < at and name in changes[i]]
            open_ += [i for i in bound[-1:] + since if i not in keep]
    return sorted(keep)


def _used(node: ast.AST) -> set[str]:
    """The names whose values are read; `total += 1` reads total."""
    inside = list(ast.walk(node))
    names = [n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    added = [n.target for n in inside if isinstance(n, ast.AugAssign)]
    return {n.id for n in [*names, *added] if isinstance(n, ast.Name)}


def _bound(module: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return found


def _changed(module: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(module):
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or (
            isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
        ):
            found |= _used(node.value)
    return found
