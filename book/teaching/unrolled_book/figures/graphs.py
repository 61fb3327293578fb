"""Graphs drawn from the program itself: the autograd engine's, and a torch module's.

Nothing here is typed by hand: the edges are those along which values and gradients really flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from unrolled.models.autograd import Tensor, topological_order

from unrolled_book.figures.diagrams import SMALL, WIDEST, Board, Part, text_width


def computation_graph(
    root: Tensor,
    names: Mapping[Tensor, str],
    *,
    gradients: bool = True,
    form: str = ".3g",
    column: float | None = None,
    row: float = 84,
    stage: int | None = None,
) -> Figure:
    """Draw all values that `root` came from, left to right, from chapter 7's own graph.

    Under each box stands its value. With `gradients`, `root.backward()` must have run: the gradient
    stands below the value, and every arrow shows what it carries back, so that the reader sees the
    contributions add up where a value is used twice.

    Args:
        names: what to write into a tensor's box; others show their value alone.
        column, row: points from one column or row of the graph to the next.
        stage: draw only the gradients of the last `stage` values in the order of `backward`
            (None: all).

    Raises:
        ValueError: if `root` is not a scalar function of scalars (draw a matrix with `Board`), or
            if its gradients are not there yet.
    """
    order = topological_order(root)
    if large := [t.shape for t in order if t.value.size > 1]:
        raise ValueError(f"computation_graph draws scalars; the graph holds {large[0]}")
    if gradients and root.grad is None:
        raise ValueError("there are no gradients yet: call root.backward(), or gradients=False")
    edges = [(parent, tensor) for tensor in order for parent in tensor.parents]
    place = _layers(order, edges)
    n_columns, n_rows = (1 + max(at[k] for at in place.values()) for k in (0, 1))
    widths = {t: max(34.0, text_width(names.get(t, ""), 11.5) + 14) for t in order}
    margin = max(35.0, max(widths.values()) / 2 + 2)  # the widest box may stand at an end
    column = (WIDEST - 2 * margin) / max(1, n_columns - 1) if column is None else column
    column = min(column, 130)
    jump = any(place[b][0] - place[a][0] > 1 for a, b in edges)
    top = 46 if jump else 14
    board = Board((n_columns - 1) * column + 2 * margin, top + (n_rows - 1) * row + 76)
    backwards = list(reversed(order))
    done = set(backwards if stage is None else backwards[:stage]) if gradients else set()

    boxes = {}
    for tensor, (across, down) in place.items():
        x, y = margin + across * column, top + down * row
        name, width = names.get(tensor, ""), widths[tensor]
        end = tensor is root
        leaf = not tensor.parents
        colour = "test" if end else "data" if leaf else "accent"
        boxes[tensor] = board.box(x - width / 2, y, name or "·", width=width, colour=colour)
        board.text(x, y + 34, _number(tensor.value, form), size=SMALL)
        if tensor in done:
            board.text(x, y + 48, _number(tensor.grad, form), size=SMALL, colour="gradient",
                       bold=True)  # fmt: skip
    for tensor in order:
        contributions = tensor.vjp(tensor.grad) if tensor in done and tensor.parents else ()
        uses = tensor.parents
        for k, parent in enumerate(uses):
            carried = _number(contributions[k], form) if len(contributions) else ""
            twice = [i for i, other in enumerate(uses) if other is parent]
            bend = 0.3 * (1 - 2 * twice.index(k)) if len(twice) == 2 else 0.0
            (c0, r0), (c1, r1) = place[parent], place[tensor]
            _edge(board, boxes[parent], boxes[tensor], carried, bend, c1 - c0 > 1 and r0 == r1)
    return board.figure


def module_graph(
    module: Any,
    *inputs: Any,
    letters: Mapping[str, int] | None = None,
    hide: Sequence[str] = (),
    row: float = 54,
    width: float = 360,
) -> Figure:
    """Draw a torch module from top to bottom as it runs, with the shape of every result.

    The graph is traced by torch.fx. The module's own parts (`q_proj`, `norm`, …) are boxes; what
    happens between them (a product, `softmax`, `+`) is drawn by its name.

    Args:
        inputs: example tensors; give every axis a size of its own (distinct primes).
        letters: sizes to write as letters, such as `{"B": 2, "T": 5, "D": 12}`.
        hide: names of steps to leave out; their inputs flow on to what follows.
        row: points from one row to the next.

    Raises:
        ValueError: if torch.fx cannot trace the module (its `forward` branches on values), or two
            letters have the same size.
    """
    import torch
    from torch.fx.passes.shape_prop import ShapeProp

    letters = dict(letters or {})
    if len(set(letters.values())) < len(letters):
        raise ValueError(f"two letters have the same size in {letters}: choose distinct sizes")
    try:
        tracer = torch.fx.Tracer()
        tracer.is_leaf_module = lambda part, name: True  # every part is one box
        traced = torch.fx.GraphModule(module, tracer.trace(module))
    except Exception as error:
        raise ValueError(f"torch.fx cannot trace {type(module).__name__}: {error}") from error
    with torch.no_grad():
        ShapeProp(traced).propagate(*inputs)
    by_size = {size: letter for letter, size in letters.items()}
    parents: dict[Any, list[Any]] = {}
    shapes, nodes = {}, []
    for node in traced.graph.nodes:
        meta = node.meta.get("tensor_meta")
        sources = [s for a in node.all_input_nodes for s in ([a] if a in shapes else parents[a])]
        parents[node] = list(dict.fromkeys(sources))
        if node.op == "output" or not hasattr(meta, "shape") or _title(node) in hide:
            continue
        sizes = [str(by_size.get(size, size)) for size in meta.shape]
        shapes[node] = f"({', '.join(sizes)})"
        nodes.append(node)
    edges = [(a, b) for b in nodes for a in parents[b]]
    place = _layers(nodes, edges)
    down = {node: layer for node, (layer, _) in place.items()}
    fellows = [sum(layer == other for other in down.values()) for layer in down.values()]
    fellows = dict(zip(down, fellows, strict=True))
    across: dict[Any, float] = {}
    for node in nodes:
        above = [across[a] for a in parents[node]]
        n = fellows[node]
        across[node] = np.mean(above) if n == 1 and above else width * (place[node][1] + 0.5) / n

    board = Board(width, 50 + row * max(down.values()))
    boxes = {}
    for node in nodes:
        part = node.op in ("call_module", "get_attr")
        colour = "data" if node.op == "placeholder" else "accent" if part else "ink"
        text, y = _title(node), 8 + down[node] * row
        size = 16 + max(text_width(text, 11.5), text_width(shapes[node], 9, mono=True))
        boxes[node] = board.box(
            across[node] - size / 2, y, "", width=size, height=34, colour=colour
        )
        board.text(across[node], y + 11, text)
        board.text(across[node], y + 25, shapes[node], size=9, colour="muted", mono=True)
    for a, b in edges:
        (x0, y0), (x1, y1) = boxes[a].centre, boxes[b].centre
        if down[b] - down[a] == 1:
            board.arrow(boxes[a].bottom, boxes[b].top)
        elif abs(x1 - x0) < 1:  # a path past what stands between, such as a residual
            side = min(boxes[n].x for n in nodes if down[a] <= down[n] <= down[b]) - 16
            board.path([boxes[a].left, (side, y0), (side, y1), boxes[b].left], colour="data")
        else:
            end = boxes[b].right if x0 > x1 else boxes[b].left
            board.path([boxes[a].bottom, (x0, y1), end])
    return board.figure


def _title(node: Any) -> str:
    signs = {"add": "+", "mul": "×", "matmul": "@", "truediv": "÷", "sub": "−"}
    name = node.target if isinstance(node.target, str) else node.target.__name__
    return signs.get(name.strip("_"), name)


def _layers(order: Sequence[Any], edges: Sequence[tuple[Any, Any]]) -> dict[Any, tuple[int, int]]:
    """(layer, place in the layer) of each node: a node stands one layer after its last parent.

    A node without parents stands one layer before its first child. Within a layer, nodes stand in
    the order of the middle of their parents, which keeps crossings few.
    """
    depth = {}
    for node in order:
        depth[node] = 1 + max((depth[a] for a, b in edges if b is node), default=-1)
    for node in order:
        children = [depth[b] for a, b in edges if a is node]
        if children and depth[node] == 0:
            depth[node] = min(children) - 1
    inner = {b for _, b in edges}
    places: dict[Any, tuple[int, int]] = {}
    for layer in range(1 + max(depth.values())):
        members = [node for node in order if depth[node] == layer]
        middle = {
            node: np.mean([places[a][1] for a, b in edges if b is node and a in places] or [0])
            for node in members
        }
        # The sort is stable: ties keep their order. What has no parents gives way to what has.
        taken = sorted(members, key=lambda node: (node not in inner, middle[node]))
        for k, node in enumerate(taken):
            places[node] = (layer, k)
    return places


def _edge(board: Board, a: Part, b: Part, text: str, bend: float, jumps: bool) -> None:
    if not jumps:
        board.arrow(a.right, b.left, bend=bend)
        if (
            text
        ):  # nearer to a, where it arrives: in the middle, edges that cross would share a spot
            x, y = 0.62 * np.array(a.right) + 0.38 * np.array(b.left)
            beside = 8 if bend < 0 else -8  # below an edge that bends down
            board.label(x, y - bend * (b.left[0] - a.right[0]) / 2 + beside, text, "gradient")
        return
    over = min(a.y, b.y) - 22
    board.path([a.top, (a.centre[0], over), (b.centre[0], over), b.top])
    if text:
        board.label((a.centre[0] + b.centre[0]) / 2, over, text, "gradient")


def _number(value: Any, form: str) -> str:
    return format(float(np.asarray(value).reshape(())), form).replace("-", "−")
