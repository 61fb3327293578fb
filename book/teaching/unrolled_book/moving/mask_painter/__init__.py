"""A mask to paint cell by cell, with the attention weights and the verdict of the leak test.

`paint` shows a table in which every cell is a button. `mask_painter.js`, written into the page,
recomputes attention for each mask, so no kernel is needed; without script the table of the first
mask remains as a still.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from unrolled.models.attention import attend

from unrolled_book import figures
from unrolled_book.moving.embed import embed


def paint(
    words: Sequence[str],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    masks: Mapping[str, Tensor],
    caption: str = "",
) -> None:
    """Display the attention weights over T words, under a mask that the reader paints.

    Args:
        words: T names of the rows (queries) and columns (keys).
        q, k, v: (T, K), (T, K) and (T, V), float; rounded to four decimals.
        masks: by name, (T, T), True = may attend; one button each, the first is the start.
        caption: the finding; `$…$` is mathematics.

    Raises ValueError for other shapes or dtypes, or without a mask.
    """
    from IPython.display import display

    T = len(words)
    if not masks:
        raise ValueError("masks must hold at least one mask, got none")
    for name, x in {"q": q, "k": k, "v": v}.items():
        if x.ndim != 2 or len(x) != T or not x.is_floating_point():
            got = f"{tuple(x.shape)} of {x.dtype}"
            raise ValueError(
                f"{name} must be floats of shape ({T}, width) for {T} words, got {got}"
            )
    if q.shape != k.shape:
        raise ValueError(f"q and k must be of one shape, got {(*q.shape,)} and {(*k.shape,)}")
    for name, mask in masks.items():
        if mask.shape != (T, T) or mask.dtype != torch.bool:
            got = f"{tuple(mask.shape)} of {mask.dtype}"
            raise ValueError(f"the mask {name!r} must be booleans of shape ({T}, {T}), got {got}")
    # Four decimals are equal on every processor; page and still compute with the same numbers.
    q, k, v = (x.detach().double().round(decimals=4) for x in (q, k, v))
    first, start = next(iter(masks.items()))
    _, weights = attend(q, k, v, start, return_weights=True)
    data = {
        "q": q.tolist(), "k": k.tolist(), "v": v.tolist(), "words": [*words],
        "masks": {name: mask.int().tolist() for name, mask in masks.items()},
    }  # fmt: skip
    here = Path(__file__)
    markup = embed(
        "u-figure u-paint", _table(words, start, weights), data=data,
        style=here.with_name("mask_painter.css"), script=here.with_name("mask_painter.js"),
        caption=figures.figcaption(caption),
    )  # fmt: skip
    rows = "; ".join(
        f"{word}: {', '.join(f'{100 * x:.0f}' for x in row)}"
        for word, row in zip(words, weights.tolist(), strict=True)
    )
    plain = f"[A mask to paint, at first {first}. Weights in %: {rows}.]\n{caption}".strip()
    display({"text/html": markup, "text/plain": plain}, raw=True)


def _table(words: Sequence[str], mask: Tensor, weights: Tensor) -> str:
    """The still: a row for each query, its weights in per cent."""
    names = [html.escape(word) for word in words]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(
            f'<td style="--a:{100 * x:.0f}%">{f"{100 * x:.0f}" if seen else ""}</td>'
            for x, seen in zip(row, allowed, strict=True)
        )
        + "</tr>"
        for name, row, allowed in zip(names, weights.tolist(), mask.tolist(), strict=True)
    )
    corner = '<th scope="col">query&nbsp;↓<br>key&nbsp;→</th>'
    return f"<table><thead><tr>{corner}{head}</tr></thead><tbody>{body}</tbody></table>"
