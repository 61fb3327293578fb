"""Rules on a chapter's cells and outputs. Each takes a chapter and returns complaints."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections import defaultdict

from book.tools.notebooks import KEPT, METADATA, is_draft, tags
from book.tools.notebooks.address import BOOTSTRAP, library_source
from book.tools.notebooks.exercise_cells import of_chapter, render
from nbformat import NotebookNode, from_dict

from chapter import Chapter, is_heading, tree

KNOWN_TAGS = {
    *("nbval-ignore-output", "exact-numbers", "tiny-numbers", "long", "exercise"),
    *("raises-exception", "hide-input", "try"),
}
SHORT, HARD, FOLDED = 20, 30, 50
_OWN_SCOPE = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
MAX_BYTES = 1_500_000
_MEASURES = re.compile(r"# (The measurement|The experiment|The table|The record)\b")


def executed_in_order(chapter: Chapter) -> list[str]:
    """Every code cell was run, once, from top to bottom."""
    counts = [cell.execution_count for _, cell in chapter.code]
    if counts == list(range(1, len(counts) + 1)):
        return []
    return [f"execution counts are {counts}, expected 1 to {len(counts)}; run `make chapters`"]


def no_error_and_no_warning_is_stored(chapter: Chapter) -> list[str]:
    """No output is an error (unless the cell is tagged `raises-exception`) or a warning."""
    found = []
    for index, cell in chapter.code:
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                found.append(f"cell {index} stores {output.ename}: {output.evalue}; mend the cell")
            if output.get("name") == "stderr":
                found.append(f"cell {index} wrote to stderr: {output.text[:80]!r}; mend its cause")
    return found


def metadata_is_clean(chapter: Chapter) -> list[str]:
    """Metadata, cell ids and tags are those that `make chapters` writes; tags are known ones."""
    found = []
    draft = {"draft": True} if is_draft(chapter.notebook) else {}
    if chapter.notebook.metadata != from_dict(METADATA | draft):
        found.append("the notebook's metadata is not the fixed one; run `make chapters`")
    ids = [cell.get("id") for cell in chapter.cells]
    if None in ids or len(set(ids)) < len(ids):
        found.append("cell ids are missing or stand twice; run `make chapters`")
    for index, cell in enumerate(chapter.cells):
        if more := sorted(set(cell.metadata) - set(KEPT)):
            found.append(f"cell {index} has the metadata {more}; run `make chapters`")
        if unknown := sorted(set(tags(cell)) - KNOWN_TAGS):
            found.append(f"cell {index} has unknown tags {unknown}; known: {sorted(KNOWN_TAGS)}")
    return found


def first_code_cell_is_the_bootstrap(chapter: Chapter) -> list[str]:
    """The first code cell begins with the lines that install the library on Colab."""
    first = chapter.code[0][1].source if chapter.code else ""
    if first.startswith(BOOTSTRAP.format(source=library_source())):
        return []
    return ["the first code cell does not begin with the bootstrap; run `make address`"]


def imports_stand_in_the_first_code_cell(chapter: Chapter) -> list[str]:
    """All imports stand in the first code cell."""
    return [
        f"cell {index} imports late ({ast.unparse(node)}); move it to the first code cell"
        for index, cell in chapter.code[1:]
        for node in ast.walk(tree(cell))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]


def prose_leads_code(chapter: Chapter) -> list[str]:
    """Prose comes before code: under every heading, and after two code cells in a row."""
    found, in_a_row = [], 0
    for index, cell in enumerate(chapter.cells):
        in_a_row = in_a_row + 1 if cell.cell_type == "code" else 0
        if in_a_row == 3:
            found.append(f"cell {index} is the third code cell in a row; say what is coming")
        if in_a_row == 1 and not _ends_in_prose(chapter.cells[index - 1] if index else None):
            found.append(f"cell {index} opens a section with code; say first what it is for")
    return found


def _ends_in_prose(cell: NotebookNode | None) -> bool:
    lines = cell.source.strip().splitlines() if cell else []
    return bool(lines) and not is_heading(lines[-1])


def cells_are_short(chapter: Chapter) -> list[str]:
    """A code cell has at most 20 lines, 30 with the tag `long`, 50 where it is folded."""
    found = []
    for index, cell in chapter.code[1:]:  # the first holds all imports
        n = sum(bool(line.strip()) for line in cell.source.splitlines())
        most = FOLDED if "hide-input" in tags(cell) else HARD
        if n > most:
            found.append(f"cell {index} has {n} lines, {most} is the most; cut it in two")
        elif n > SHORT and not {"long", "hide-input"}.intersection(tags(cell)):
            found.append(f"cell {index} has {n} lines; cut it, or give it the tag `long`")
    return found


def names_have_one_meaning(chapter: Chapter) -> list[str]:
    """Within a notebook no name is defined twice, and no function's name becomes a value's."""
    found, seen = [], set(dir(builtins))
    for index, cell in chapter.code:
        for node in tree(cell).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                seen |= {alias.asname or alias.name for alias in node.names}
        own = _definitions(cell)
        for name in own:
            if name in seen:
                found.append(f"cell {index} gives {name!r} a second meaning; choose another name")
            seen.add(name)
        found += [
            f"cell {index} makes the function {name!r} a variable; choose another name"
            for name in sorted(_assigned(cell) & seen - set(own) - set(dir(builtins)))
        ]
    return found


def _assigned(cell: NotebookNode) -> set[str]:
    """The variables that a cell's own lines, not its functions, assign to."""
    nodes, names = [*tree(cell).body], set()
    while nodes:
        node = nodes.pop()
        if not isinstance(node, _OWN_SCOPE):
            nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _definitions(cell: NotebookNode) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree(cell).body if isinstance(node, kinds)]


def defined_in_two_notebooks(chapters: list[Chapter]) -> list[str]:
    """A concept is built once, in its chapter; a later chapter imports it from the library."""
    places = defaultdict(list)
    for chapter in chapters:
        for name in {name for _, cell in chapter.code for name in _definitions(cell)}:
            places[name].append(chapter.path.stem)
    return [
        f"{name!r} is defined in {' and '.join(stems)}; import it, or name each for what it does"
        for name, stems in sorted(places.items())
        if len(stems) > 1
    ]


def ignored_outputs_are_asserted(chapter: Chapter) -> list[str]:
    """A cell whose output is not compared asserts something, or the next cell does."""
    found = []
    for place, (index, cell) in enumerate(chapter.code):
        both = [c for _, c in chapter.code[place : place + 2]]
        asserts = any(isinstance(n, ast.Assert) for c in both for n in ast.walk(tree(c)))
        if "nbval-ignore-output" in tags(cell) and not asserts:
            found.append(f"cell {index}'s output is not compared: assert in it or the next cell")
    return found


def measurements_are_asserted(chapter: Chapter) -> list[str]:
    """A cell that shows a measurement or a record asserts what is said of it, or the next do."""
    found = []
    for index, cell in chapter.code:
        measures = _MEASURES.match(cell.source) or "record.load(" in cell.source
        if not measures or not cell.outputs:
            continue
        below = itertools.takewhile(lambda c: c.cell_type == "code", chapter.cells[index:])
        if not any(isinstance(n, ast.Assert) for c in below for n in ast.walk(tree(c))):
            found.append(f"cell {index} shows a measurement: assert what the text says of it")
    return found


def figures_have_alternative_text(chapter: Chapter) -> list[str]:
    """Every figure is shown by `figures.show` or `explore`, with alternative text."""
    found = []
    for index, cell in chapter.code:
        for output in cell.outputs:
            data = output.get("data", {})
            images = [kind for kind in data if kind.startswith("image/")]
            if images:
                found.append(
                    f"cell {index} stores {images[0]}; show it by figures.show(fig, alt=…)"
                )
            if _drawings_without_text(data.get("text/html", "")):
                found.append(f"cell {index}: a drawing without alternative text; give it alt=…")
    return found


def _drawings_without_text(html: str) -> list[str]:
    drawings = re.findall(r"<(?:svg|img)\b[^>]*>", re.sub(r"(?s)<script\b.*?</script>", "", html))
    described = re.compile(r'\b(?:aria-label|alt)="[^"]*\w[^"]*"|aria-hidden="true"')
    return [drawing for drawing in drawings if not described.search(drawing)]


def moving_figures_are_stored_in_the_pages_form(chapter: Chapter) -> list[str]:
    """A figure that moves is stored as the page shows it, never as a live widget."""
    found = []
    if "widgets" in chapter.notebook.metadata:
        found.append("the notebook stores widget state; run `make chapters`")
    for index, cell in chapter.code:
        kinds = [kind for output in cell.outputs for kind in output.get("data", {})]
        if any("widget" in kind for kind in kinds):
            found.append(f"cell {index} stores a live widget; run `make chapters`")
        elif re.search(r"\bexplore\(", cell.source) and "text/html" not in kinds:
            found.append(f"cell {index} calls explore but stores no page; run `make chapters`")
    return found


def the_file_is_small(chapter: Chapter) -> list[str]:
    """A notebook has at most 1.5 MB."""
    size = chapter.path.stat().st_size
    if size <= MAX_BYTES:
        return []
    return [f"{size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6} MB: thin out the moving figures"]


def exercises_are_in_step_with_their_files(chapter: Chapter) -> list[str]:
    """The cells of the exercises are what their files give."""
    written = [(cell.id, cell.source, tags(cell)) for cell in chapter.cells]
    fresh = from_dict(chapter.notebook)
    render(fresh, of_chapter(chapter.path))
    if written == [(cell.id, cell.source, tags(cell)) for cell in fresh.cells]:
        return []
    only = chapter.path.stem.partition("_")[0]
    return [f"the exercises' cells are behind their files; run `make exercises ONLY={only}`"]
