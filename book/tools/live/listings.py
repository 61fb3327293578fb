"""The chapters' listings that a reader tries in the page, each with what it needs from before it.

A code cell with the tag `try` is such a listing. What the chapter defined for it is found by
walking back over the statements of the earlier cells: one that binds or changes a name that is
needed is kept, and what it uses is needed in turn.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from book.tools.live.library import absent_of, imported
from book.tools.notebooks import read, tags

TAG = "try"
# What the book asserts of its own numbers is not asserted of the reader's. As in listings.mjs.
_ASSERTED = re.compile(r"(?m)^(assert|np\.testing\.).*\n?([ )\]].*\n?)*")
_PARTLY = (ast.For, ast.While, ast.If, ast.With, ast.AugAssign)  # they may leave a name as it was
_MADE = (ast.FunctionDef, ast.ClassDef)
_IMPORT = (ast.Import, ast.ImportFrom)
_BUILTIN = {*vars(builtins), "__name__"}


@dataclass(frozen=True)
class Listing:
    """A listing, and what the notebook has stored of it."""

    cell: str  # its id
    source: str
    before: str  # what the chapter defined, as a program
    printed: str
    value: str  # of a last expression, as text


def of_chapter(path: Path) -> list[Listing]:
    """The chapter's listings in their order. Raises ValueError for one that cannot run."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    found = []
    for index, cell in enumerate(cells):
        if TAG in tags(cell):
            source = _ASSERTED.sub("", cell.source).rstrip()
            try:
                before = slice_of(source, [one.source for one in cells[:index]])
            except ValueError as why:
                raise ValueError(f"{path.name}, cell {cell.id}: {why}") from None
            found.append(Listing(cell.id, source, before, *_stored(cell)))
    return found


def _stored(cell: NotebookNode) -> tuple[str, str]:
    printed = "".join(one.text for one in cell.outputs if one.output_type == "stream")
    values = [one.data for one in cell.outputs if "data" in one]
    return printed, "".join(data.get("text/plain", "") for data in values)


def slice_of(source: str, earlier: Iterable[str]) -> str:
    """The statements of earlier cells that a listing needs, in their order.

    Raises ValueError naming what the page lacks, or what is defined nowhere.
    """
    statements = [node for cell in earlier for node in _parsed(cell)]
    asked: set[str] = set()
    for node in reversed(_parsed(source)):
        asked = (asked - _bound(node)) | _used(node)
    kept, lost = _back(statements, asked)
    # What a function calls may stand after it.
    while later := {n for node in kept if isinstance(node, _MADE) for n in _used(node)} - asked:
        asked |= later
        kept, lost = _back(statements, asked)
    for node in kept:
        if isinstance(node, _IMPORT) and (absent := absent_of(imported(ast.Module([node], [])))):
            (name,) = _bound(node)
            raise ValueError(f"{name} needs {absent}, which the page does not have")
    if lost := lost - _BUILTIN - {name for node in kept for name in _bound(node)}:
        raise ValueError(f"{', '.join(sorted(lost))}: no earlier cell defines it")
    return "\n".join(map(ast.unparse, kept))


def _back(statements: list[ast.stmt], needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
    """The statements that are needed, found from the last to the first; and what none binds."""
    kept = []
    for node in reversed(statements):
        if needed & (_bound(node) | _changed(node)):
            if not isinstance(node, _PARTLY):
                needed = needed - _bound(node)
            needed = needed | _used(node)
            kept.append(node)
    return kept[::-1], needed


def _parsed(source: str) -> list[ast.stmt]:
    """A cell's statements, each import with one name; without the lines that install."""
    body = ast.parse(re.sub(r"(?m)^(\s*)%.*", r"\1pass", source)).body
    return [one for node in body if not isinstance(node, ast.Try) for one in _single(node)]


def _single(node: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(node, ast.Import):
        yield from (ast.Import([alias]) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (ast.ImportFrom(node.module, [alias], node.level) for alias in node.names)
    else:
        yield node


def _bound(node: ast.stmt) -> set[str]:
    table = symtable.symtable(ast.unparse(node), "", "exec")
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}


def _used(node: ast.stmt) -> set[str]:
    """The chapter's names that the statement reads, in whatever function it holds."""
    table = symtable.symtable(ast.unparse(node), "", "exec")
    found = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    found |= {name for child in table.get_children() for name in _globals(child)}
    for part in ast.walk(node):
        if isinstance(part, ast.comprehension):
            found -= {n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)}
    own = isinstance(node, (*_PARTLY, *_MADE))  # loops, what calls itself
    return found - _bound(node) if own else found


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global())
    for child in table.get_children():
        yield from _globals(child)


def _changed(node: ast.stmt) -> set[str]:
    """Names whose values the statement changes: a[i] = …, a.b = …, a.append(…)."""
    found = set()
    for part in [] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ast.walk(node):
        if isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            found.add(_root(part))
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            call = part.value.func
            if isinstance(call, ast.Attribute) and (
                _root(call) != "np" or call.attr == "set_printoptions"
            ):
                found.add(_root(call))
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
