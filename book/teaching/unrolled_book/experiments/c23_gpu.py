"""Chapter 23 on a GPU: products of few and many rows, attention by length, and a step of GPT-2.

Needs a GPU with 40 GiB; about a minute there. Products and attention are in bfloat16, sums in
float32, the step as `c23_step` counts it. Seconds are medians on the clock, until the GPU is done.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor
from unrolled.models.attention import attend
from unrolled.training.losses import next_token_loss

from unrolled_book.experiments import c23_step

NEEDS_GPU = True
D, SUMMED = 8192, 2**28  # width of the matrix; numbers in each of two arrays
ROWS = tuple(2**k for k in range(14))
LENGTHS = (1024, 2048, 4096, 8192)
HEADS, WIDTH = 16, 64
KINDS = {"by the formula": "reference", "fused": "fused"}

Step = Callable[[], object]


def seconds(step: Step, repeats: int = 20) -> float:
    """The median of so many calls, to four digits, after three that warm up."""
    found = []
    for n in range(3 + repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        found += [time.perf_counter() - begin] if n >= 3 else []
    return float(f"{statistics.median(found):.4g}")


def peak_bytes(step: Step) -> int:
    """What torch holds on the GPU at most while the step runs, without what is kept for reuse."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated()


def on_the_roof(rows: Sequence[int], d: int, summed: int) -> dict:
    """Seconds of (n, d) @ (d, d) for each n, and of the sum of two arrays."""
    w = torch.randn(d, d, dtype=torch.bfloat16, device="cuda")
    products = []
    for n in rows:
        x = torch.randn(n, d, dtype=torch.bfloat16, device="cuda")
        products.append({"rows": n, "seconds": seconds(lambda x=x: x @ w)})
    a, b = torch.randn(2, summed, device="cuda")
    total = torch.empty_like(a)
    return {"products": products, "sum_seconds": seconds(lambda: torch.add(a, b, out=total))}


def attention(length: int, kind: str) -> dict:
    """Causal attention with its backward pass: seconds, and bytes beyond those of q, k and v."""
    q, k, v = torch.randn(
        3, 1, HEADS, length, WIDTH, dtype=torch.bfloat16, device="cuda"
    ).requires_grad_()

    def step() -> tuple[Tensor, ...]:
        y = attend(q, k, v, causal=True, implementation=KINDS[kind])
        return torch.autograd.grad(y.sum(), (q, k, v))

    before = torch.cuda.memory_allocated()
    return {
        "length": length,
        "kind": kind,
        "seconds": seconds(step),
        "peak_bytes": peak_bytes(step) - before,
    }


def measured(make: Callable[[], tuple[object, Step]]) -> dict:
    """Seconds and peak of a step, with tokens drawn at random."""
    size = c23_step.B, c23_step.T
    with patch.object(c23_step, "tokens", lambda: torch.randint(c23_step.V, size, device="cuda")):
        _, step = make()
        return {"seconds": seconds(step), "peak_bytes": peak_bytes(step)}


def run(
    rows: Sequence[int] = ROWS,
    d: int = D,
    summed: int = SUMMED,
    lengths: Sequence[int] = LENGTHS,
    loops: Mapping[str, Callable] | None = None,
) -> dict:
    """Raises RuntimeError without a GPU.

    metrics: "products" {"rows", "seconds"}, "sum_seconds", "attention" {"length", "kind",
    "seconds", "peak_bytes"}, "steps" {"loop", "seconds", "peak_bytes"}.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("this experiment measures a GPU, and torch finds none")
    if loops is None:
        compiled = partial(c23_step.step_of_fit, next_token_loss, compile=True)
        loops = c23_step.loops() | {"fit, compiled": compiled}
    with torch.random.fork_rng([torch.cuda.current_device()]):
        torch.manual_seed(0)
        metrics = on_the_roof(rows, d, summed) | {
            "attention": [attention(t, kind) for t in lengths for kind in KINDS],
            "steps": [{"loop": name} | measured(make) for name, make in loops.items()],
        }
    return {
        "config": {"d": d, "summed": summed, "heads": HEADS, "head_width": WIDTH},
        "seeds": [0],
        "device": torch.cuda.get_device_name(),
        "metrics": metrics,
    }
