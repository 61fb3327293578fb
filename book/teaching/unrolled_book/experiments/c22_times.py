"""Chapter 22: processor seconds of four ways to let positions see each other, by length and width.

Each is a bare operation without projections: self-attention, attention within a window, a
convolution, a recurrence. About a minute on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

REACH = 8  # positions in a window, and of a convolution's kernel
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128, 256, 512)  # the first where the other varies


def attention(x: Tensor, w: Tensor) -> Tensor:
    """Every position reads every position; x (T, D), w is not used."""
    return (x @ x.T).softmax(-1) @ x


def restricted(x: Tensor, w: Tensor) -> Tensor:
    """Every position reads the REACH positions up to its own."""
    near = F.pad(x, (0, 0, REACH - 1, 0)).unfold(0, REACH, 1)  # (T, D, REACH)
    weights = (x[:, None] @ near).softmax(-1)  # (T, 1, REACH)
    return (weights @ near.mT)[:, 0]


def convolution(x: Tensor, w: Tensor) -> Tensor:
    """A causal convolution; w (D, D, REACH)."""
    return F.conv1d(F.pad(x.T, (REACH - 1, 0)), w).T


def recurrence(x: Tensor, w: Tensor) -> Tensor:
    """h = tanh(x + h W), one position after the other; W is w[..., 0]."""
    h, states, w = x[0], [], w[..., 0].contiguous()
    for row in x:
        h = torch.tanh(row + h @ w)
        states.append(h)
    return torch.stack(states)


KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "self-attention": attention,
    "restricted": restricted,
    "convolution": convolution,
    "recurrence": recurrence,
}


def inputs(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """x (n, d) and w (d, d, REACH) at random."""
    rng = torch.Generator().manual_seed(seed)
    w = torch.randn(d, d, REACH, generator=rng) / (d * REACH) ** 0.5
    return torch.randn(n, d, generator=rng), w


@torch.no_grad()
def seconds(kind: str, n: int, d: int, seed: int) -> float:
    """Processor seconds of one call: the shortest of five measurements."""
    x, w = inputs(n, d, seed)
    found = []
    for _ in range(6):  # the first warms up
        calls, begin = 0, time.process_time()
        while (passed := time.process_time() - begin) < 0.04:
            KINDS[kind](x, w)
            calls += 1
        found.append(passed / calls)
    return min(found[1:])


def run(
    lengths: Sequence[int] = LENGTHS,
    widths: Sequence[int] = WIDTHS,
    seeds: Sequence[int] = (0, 1, 2),
) -> dict:
    """Time every kind at all lengths with the first width, and at all widths with the first length.

    metrics: "rows" {"kind", "length", "width", "seed", "seconds"}.
    """
    sizes = dict.fromkeys([(n, widths[0]) for n in lengths] + [(lengths[0], d) for d in widths])
    rows = [
        {"kind": kind, "length": n, "width": d, "seed": seed,
         "seconds": float(f"{seconds(kind, n, d, seed):.3g}")}
        for seed in seeds for kind in KINDS for n, d in sizes
    ]  # fmt: skip
    config = {"reach": REACH, "lengths": [*lengths], "widths": [*widths]}
    return {
        "config": config,
        "seeds": [*seeds],
        "metrics": {"rows": rows, "exponents": exponents(rows)},
    }


def exponents(rows: Sequence[dict]) -> dict[str, dict[str, list[float]]]:
    """For each kind and axis the power of the seconds, one for each seed, to two digits."""
    first = min(row["length"] for row in rows), min(row["width"] for row in rows)
    found: dict[str, dict[str, list[float]]] = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        found[kind] = {}
        for axis, other, at in (("length", "width", first[1]), ("width", "length", first[0])):
            powers = []
            for seed in sorted({row["seed"] for row in rows}):
                here = [r for r in rows if (r["kind"], r["seed"], r[other]) == (kind, seed, at)]
                x, y = (np.log([row[name] for row in here]) for name in (axis, "seconds"))
                powers.append(round(float(np.polyfit(x, y, 1)[0]), 2))
            found[kind][axis] = powers
    return found
