"""Chapter 20b: does what an early head brings reach the copying heads through their keys?

For the copiers of `c20_copy`, trained again from their seeds: each head of the first layer is
silenced in one of three paths to the second layer's attention, its queries, keys or values, while
all else stays as it is. About two minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from unrolled.models.heads import attention_weights
from unrolled.models.transformer import TransformerLM

from unrolled_book.experiments import c20_copy, record
from unrolled_book.tasks.copying import CopyLines, copy_lines, names

NEEDS = ("c20_copy",)
PATHS = ("queries", "keys", "values")


@torch.no_grad()
def one_back(model: TransformerLM, batch: CopyLines) -> list[float]:
    """For each head of the first layer: its mean weight on the position before, from the fourth."""
    with attention_weights(model) as maps:
        model(torch.from_numpy(batch.inputs))
    found = []
    for weights, line in zip(maps[0], batch.lines, strict=True):  # (H, T, T)
        i = np.arange(3, len(line))
        found.append(weights[:, i, i - 1].mean(-1))
    return torch.stack(found).mean(0).tolist()


@torch.no_grad()
def silenced_in(model: TransformerLM, head: int, path: str, batch: CopyLines) -> float:
    """The share of lines finished when one path to layer 2 lacks what head `head` brings.

    path: one of PATHS. The other two, and the stream itself, get everything.
    """
    first, second = model.stack.blocks
    inputs, K = [], first.attention.head_dim

    def silence(module, args):
        mixed = args[0].clone()  # (B, T, H·K)
        mixed[..., head * K : (head + 1) * K] = 0
        return (mixed,)

    hooks = [
        first.attention.o_proj.register_forward_pre_hook(silence),
        second.norm_attention.register_forward_hook(lambda *got: inputs.append(got[-1])),
    ]
    model(torch.from_numpy(batch.inputs))
    for hook in hooks:
        hook.remove()
    projection = getattr(second.attention, f"{path[0]}_proj")
    hook = projection.register_forward_pre_hook(lambda module, args: tuple(inputs))
    score = c20_copy.score(model, batch)["exact"]
    hook.remove()
    return score


def run(*, seeds: Sequence[int] = c20_copy.SEEDS, n_steps: int | None = None, n: int = 200) -> dict:
    """A record's fields: for each seed and head, the share of lines finished along each path.

    n_steps: those of the recorded Transformer when left out. n: lines of held-out names.
    """
    kept = record.load("c20_copy")["metrics"]["rows"][0]
    batch = copy_lines(np.random.default_rng(1), names("test"), n, n_names=c20_copy.N_NAMES)
    n_steps, rows = kept["n_steps"] if n_steps is None else n_steps, []
    for seed in seeds:
        model, _ = c20_copy.train("transformer", seed=seed, n_steps=n_steps, lr=kept["lr"])
        model.eval()
        complete = c20_copy.score(model, batch)["exact"]
        for head, weight in enumerate(one_back(model, batch)):
            paths = {path: silenced_in(model, head, path, batch) for path in PATHS}
            rows.append(
                {"seed": seed, "head": head + 1, "one_back": weight, "complete": complete} | paths
            )
    config = {"n_steps": n_steps, "lr": kept["lr"], "n": n}
    return {"config": config, "seeds": list(seeds), "metrics": {"rows": rows}}
