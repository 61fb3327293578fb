"""Chapter 16b: what a language model loses without one head or two, and what its heads attend to.

Small Transformers of one size read the eight plays of the small corpus, character by character;
only their seeds differ. In a copy of each trained model we switch off every head, alone and with
every other head, by setting its columns of the output projection to zero, and measure the cost in
bits per character on the validation plays. For each head the record also holds its mean weight on a
few kinds of positions. About six minutes on one core.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from unrolled.models.heads import attention_weights
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits, evaluate
from unrolled.training.fit import fit

from unrolled_book.experiments._common import cosine, n_parameters, seeded, windows
from unrolled_book.experiments.ladder import Course

Head = tuple[int, int]  # layer, head; both from 0

HABITS = ("itself", "one back", "word start", "spaces", "line ends", "same letter", "after same")
CORPUS, WINDOW, BATCH_SIZE, N_STEPS = "shakespeare-small", 96, 16, 2000


@torch.no_grad()
def without_heads(model: TransformerLM, heads: Iterable[Head]) -> TransformerLM:
    """A copy of the model in which these heads contribute nothing: their columns of o_proj are 0.

    heads: pairs (layer, head), from 0. Raises ValueError for a layer or head that does not exist.
    """
    model = copy.deepcopy(model)
    for layer, head in heads:
        if not (0 <= layer < len(model.stack.blocks)):
            raise ValueError(f"there are {len(model.stack.blocks)} layers, got layer {layer}")
        attention = model.stack.blocks[layer].attention
        if not 0 <= head < attention.n_heads:
            raise ValueError(f"layer {layer} has {attention.n_heads} heads, got head {head}")
        K = attention.head_dim
        attention.o_proj.weight[:, head * K : (head + 1) * K] = 0
    return model


def all_heads(model: TransformerLM) -> list[Head]:
    """Every (layer, head) of the model, in order."""
    return [
        (layer, head)
        for layer, block in enumerate(model.stack.blocks)
        for head in range(block.attention.n_heads)
    ]


def bits_per_character(
    model: TransformerLM, tokens: np.ndarray, start: int, window: int = WINDOW
) -> float:
    """On tokens (n,), in windows whose first half is only context (except the first)."""
    overlap = window // 2
    scored = evaluate(
        model, tokens, len(tokens), start=start, context_length=window, overlap=overlap,
        batch_size=32,
    )  # fmt: skip
    return bits(scored.nats / len(tokens))


@torch.no_grad()
def habits(model: TransformerLM, tokens: Tensor, newline: int, space: int, skip: int = 16) -> dict:
    """The mean weight of each head on each of HABITS: {habit: (layers, heads)}, and "chance".

    tokens: (B, T), windows of text. Queries before position `skip` do not count. The habits: the
    query's own position and the one before it; the nearest word start at or before the query (the
    position after a space or newline); all spaces; all newlines; all earlier positions with the
    query's character; all positions after those. "chance" holds, for each habit, the weight of a
    head that attends equally to all positions it may see.
    """
    with attention_weights(model) as found_weights:
        model(tokens)
    weights = torch.stack(found_weights)  # (L, B, H, T, T)
    marks = places(tokens, newline, space)  # {habit: (B, T, T)}
    causal = torch.ones(tokens.shape[1], tokens.shape[1]).tril()
    uniform = causal / causal.sum(-1, keepdim=True)
    found: dict = {"chance": {}}
    for habit, mark in marks.items():
        on = (weights * mark[None, :, None]).sum(-1)[..., skip:]  # (L, B, H, T − skip)
        found[habit] = on.double().mean((1, 3)).tolist()
        found["chance"][habit] = (uniform * mark).sum(-1)[:, skip:].double().mean().item()
    return found


def places(tokens: Tensor, newline: int, space: int) -> dict[str, Tensor]:
    """The keys of each habit: (B, T, T) of 0 and 1, rows are queries.

    They may include keys after the query; causal attention gives those no weight.
    """
    B, T = tokens.shape
    i = torch.arange(T)
    ends_word = (tokens == newline) | (tokens == space)
    starts = torch.cat([torch.ones(B, 1, dtype=torch.bool), ends_word[:, :-1]], 1)  # (B, T)
    nearest = torch.where(starts, i, -1).cummax(1).values  # (B, T): the last start so far
    same = (tokens[:, :, None] == tokens[:, None, :]) & (i < i[:, None])  # (B, T, T)
    marks = {
        "itself": torch.eye(T, dtype=torch.bool),
        "one back": i == i[:, None] - 1,
        "word start": nearest[..., None] == i,
        "spaces": (tokens == space)[:, None],
        "line ends": (tokens == newline)[:, None],
        "same letter": same,
        "after same": torch.cat([torch.zeros(B, T, 1, dtype=torch.bool), same[..., :-1]], -1),
    }
    return {habit: marks[habit].expand(B, T, T).float() for habit in HABITS}


def language_model(vocab_size: int, seed: int, **changes) -> TransformerLM:
    """A fresh model of the experiment's size; torch's generator is unchanged."""
    sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "context_length": WINDOW}
    sizes |= {"position": "rotary"} | changes
    with seeded(seed):
        return TransformerLM(TransformerConfig(vocab_size=vocab_size, **sizes))


def train(course: Course, seed: int, *, n_steps: int, **changes) -> TransformerLM:
    """Train one model on random windows; it holds its last parameters."""
    model = language_model(course.vocab_size, seed, **changes)
    size = {"batch_size": BATCH_SIZE, "window": model.config.context_length}
    fit(model, windows(course.train, seed, **size), cosine(n_steps, 6e-3, seed), progress=False)
    return model


def ablate(model: TransformerLM, tokens: np.ndarray, start: int) -> dict:
    """Bits per character: `whole`, and `lost` without each head and without each pair of heads.

    A row of `single` is {"head": [layer, head], "lost"}, one of `pairs` {"heads": [[…], […]],
    "lost"}.
    """
    window = min(WINDOW, model.config.context_length)

    def cost(*heads: Head) -> float:
        return bits_per_character(without_heads(model, heads), tokens, start, window)

    whole, heads = cost(), all_heads(model)
    single = [{"head": [*head], "lost": cost(head) - whole} for head in heads]
    pairs = [{"heads": [[*a], [*b]], "lost": cost(a, b) - whole} for a, b in combinations(heads, 2)]
    return {"whole": whole, "single": single, "pairs": pairs}


def run(
    seeds: Sequence[int] = (0, 1, 2),
    n_steps: int = N_STEPS,
    n_characters: int = 20_000,
    corpus: str = CORPUS,
) -> dict:
    """A record's fields: `metrics` has one row in `models` for each seed.

    A row is the result of `ablate` on the first n_characters of the validation plays, and `habits`.
    """
    course = Course.load(corpus)
    valid = course.held_out["valid"][0]
    newline, space = course.newline, _space(corpus)
    windows = torch.from_numpy(valid[: 32 * WINDOW].reshape(32, WINDOW))
    rows = []
    for seed in seeds:
        model = train(course, seed, n_steps=n_steps).eval()
        found = habits(model, windows, newline, space)
        rows.append({"seed": seed, "habits": found} | ablate(model, valid[:n_characters], newline))
    config = {
        "corpus": corpus, "n_steps": n_steps, "batch_size": BATCH_SIZE, "window": WINDOW,
        "n_characters": n_characters, "parameters": n_parameters(model),
        "n_layers": model.config.n_layers, "n_heads": model.config.n_heads,
        "d_model": model.config.d_model,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"models": rows}, "curve": []}


def _space(corpus: str) -> int:
    from unrolled.data import corpora
    from unrolled.data.tokens import CharTokenizer

    return int(CharTokenizer.train(corpora.load(corpus).train).encode(" ")[0])
