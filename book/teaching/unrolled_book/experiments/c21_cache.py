"""Chapter 21: what a text of n characters costs with a cache of keys and values, and without one.

A Transformer with random weights writes greedily from one token: only time is measured, and which
tokens they are makes no difference to it. About two minutes on one core.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from unrolled.generation.generate import generate
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.experiments._common import seeded

SEEDS = (0, 1, 2)
LENGTHS = (64, 128, 256, 512, 1024)
SIZES = {"vocab_size": 70, "d_model": 128, "n_layers": 4, "n_heads": 4, "context_length": 1025}


def seconds(model: TransformerLM, n: int, *, cache: bool) -> float:
    """Processor seconds for n tokens."""
    prompt = torch.zeros(1, 1, dtype=torch.int64)
    begin = time.process_time()
    generate(model, prompt, n, temperature=0, cache=cache)
    return time.process_time() - begin


def run(*, seeds: Sequence[int] = SEEDS, lengths: Sequence[int] = LENGTHS) -> dict:
    """A record's fields: `metrics["rows"]` has "length", "seed", and the seconds "cached" and
    "uncached"."""
    rows = []
    for seed in seeds:
        with seeded(seed):
            model = TransformerLM(TransformerConfig(**SIZES)).eval()
        seconds(model, lengths[0], cache=True)  # warm up
        for n in lengths:
            cached, uncached = (seconds(model, n, cache=cache) for cache in (True, False))
            rows.append({"seed": seed, "length": n, "cached": cached, "uncached": uncached})
    config = {**SIZES, "lengths": [*lengths]}
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
