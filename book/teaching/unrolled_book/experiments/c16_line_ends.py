"""Chapter 16b: which head tells a model how long the line is?

Each head of the book's trained Transformer is switched off, and two things are measured on the
validation plays: what the characters of each kind in KINDS cost, and how far the probability of a
line end moves when the line is made to look longer. Then the same for the small models of
`c16_ablation`, trained again from their seeds. About five minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import cross_entropy

from unrolled_book.experiments import c16_ablation, trained
from unrolled_book.experiments.c16_ablation import Head, without_heads
from unrolled_book.experiments.ladder import CORPUS, Course

NEEDS = ("ladder_transformer",)
KINDS = ("blank line", "short line", "long line", "other")
LONG = 20  # characters
WINDOW, N_WINDOWS, FIRST_WINDOW = 96, 512, 10_000
CONTEXT, N_PLACES, FIRST_PLACE, GAP = 72, 400, 60_000, (12, 25)
BATCH_SIZE = 64


def columns(tokens: Tensor, newline: int) -> Tensor:
    """How many characters before each position the last line end stands: (B, T).

    0 at a line end itself. A position that sees no line end counts from before the window.
    """
    i = torch.arange(tokens.shape[1])
    return i - torch.where(tokens == newline, i, -1).cummax(1).values


def kinds(tokens: Tensor, newline: int) -> dict[str, Tensor]:
    """Which of the characters to predict, tokens[:, 1:], are of each of KINDS: (B, T − 1), boolean.

    A line end behind a line end is a "blank line"; others end a "short line" or a "long line" of
    LONG or more characters. The first half of the window is only context and belongs to no kind.
    """
    column, ends = columns(tokens[:, :-1], newline), tokens[:, 1:] == newline
    counts = torch.arange(column.shape[1]) >= column.shape[1] // 2
    marks = (
        ends & (column == 0),
        ends & (column > 0) & (column < LONG),
        ends & (column >= LONG),
        ~ends,
    )
    return {kind: mark & counts for kind, mark in zip(KINDS, marks, strict=True)}


def cut(tokens: np.ndarray, n_windows: int | None = None) -> Tensor:
    """Windows of WINDOW + 1 characters, one behind the other, from FIRST_WINDOW on."""
    n = N_WINDOWS if n_windows is None else n_windows
    part = tokens[FIRST_WINDOW : FIRST_WINDOW + n * (WINDOW + 1)]
    return torch.from_numpy(part.reshape(n, WINDOW + 1))


@torch.no_grad()
def costs(model: TransformerLM, tokens: Tensor) -> Tensor:
    """Bits for each of the characters tokens[:, 1:]: (B, T − 1)."""
    nats = [cross_entropy(model(t[:, :-1]), t[:, 1:]) for t in tokens.split(BATCH_SIZE)]
    return torch.cat(nats) / np.log(2)


def edited(
    tokens: np.ndarray, newline: int, space: int, n: int | None = None, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts (n, CONTEXT) that end with a word: as they are, with a longer line, with a control.

    The last line end stands GAP characters before the end, and ends a line of LONG characters or
    more. In the second text it is replaced by a space, so that the line looks longer by as much. In
    the third it stays, and the last space *before* it is replaced by a line end. The places are
    drawn without replacement from FIRST_PLACE on.
    """
    n = N_PLACES if n is None else n
    i = np.arange(len(tokens))
    breaks = np.isin(tokens, (newline, space))
    line_end = np.maximum.accumulate(np.where(tokens == newline, i, 0))
    one_before = line_end[line_end - 1]
    space_before = np.maximum.accumulate(np.where(tokens == space, i, 0))[line_end]
    ends_word = np.append(~breaks[:-1] & breaks[1:], False)
    near = (i - line_end >= GAP[0]) & (i - line_end <= GAP[1])
    near &= line_end - one_before > LONG
    inside = (i >= FIRST_PLACE) & (space_before > i - CONTEXT)
    at = np.random.default_rng(seed).choice(i[ends_word & near & inside], n, replace=False)
    start = at - CONTEXT + 1
    given = torch.from_numpy(tokens[start[:, None] + np.arange(CONTEXT)])
    longer, control = given.clone(), given.clone()
    longer[range(n), line_end[at] - start] = space
    control[range(n), space_before[at] - start] = newline
    return given, longer, control


@torch.no_grad()
def chance_of(token: int, model: TransformerLM, texts: Tensor) -> Tensor:
    """The probability that the next character of each text is this one: (n,)."""
    last = [model(t)[:, -1].softmax(-1)[:, token] for t in texts.split(BATCH_SIZE)]
    return torch.cat(last)


def measure(model: TransformerLM, tokens: np.ndarray, newline: int, space: int) -> dict:
    """What each head is worth: {"count", "whole", "heads"}.

    `count` and `whole`: for each kind, how many characters, and their mean bits with all heads;
    `whole` also has `line_end`. A row of `heads` has "head" (layer, head), "lost" and "error", the
    bits added for each kind and their standard error, and "line_end". `line_end` holds the mean
    probability of a line end in the texts of `edited`: "given", "longer", "control", and the
    standard error of longer − given, "error".
    """
    windows, texts = cut(tokens), edited(tokens, newline, space)
    marks = kinds(windows, newline)
    whole = costs(model, windows)

    def line_end(model: TransformerLM) -> dict:
        given, longer, control = (chance_of(newline, model, text) for text in texts)
        means = {"given": given, "longer": longer, "control": control}
        return {k: p.mean().item() for k, p in means.items()} | {"error": error(longer - given)}

    def row(head: Head) -> dict:
        rest = without_heads(model, [head])
        added = costs(rest, windows) - whole
        return {
            "head": [*head],
            "lost": {kind: added[mark].mean().item() for kind, mark in marks.items()},
            "error": {kind: error(added[mark]) for kind, mark in marks.items()},
            "line_end": line_end(rest),
        }

    return {
        "count": {kind: int(mark.sum()) for kind, mark in marks.items()},
        "whole": {kind: whole[mark].mean().item() for kind, mark in marks.items()}
        | {"line_end": line_end(model)},
        "heads": [row(head) for head in c16_ablation.all_heads(model)],
    }


def error(x: Tensor) -> float:
    """The standard error of the mean."""
    return (x.std() / len(x) ** 0.5).item()


def run(
    name: str = NEEDS[0],
    corpus: str = CORPUS,
    small_corpus: str = c16_ablation.CORPUS,
    seeds: Sequence[int] = (0, 1, 2),
    n_steps: int = c16_ablation.N_STEPS,
) -> dict:
    """A record's fields: `metrics` has `large`, the result of `measure` for the book's model, and
    in `small` for each seed of the small ones: {"seed"} and that of `measure`.
    """
    course = Course.load(small_corpus)
    small = [
        {"seed": seed}
        | _measured(c16_ablation.train(course, seed, n_steps=n_steps).eval(), small_corpus)
        for seed in seeds
    ]
    config = {
        "large": name, "corpus": corpus, "small_corpus": small_corpus, "n_steps": n_steps,
        "long": LONG, "window": WINDOW, "n_windows": N_WINDOWS, "context": CONTEXT,
        "n_places": N_PLACES, "gap": [*GAP],
    }  # fmt: skip
    metrics = {"large": _measured(trained.load(name), corpus), "small": small}
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": []}


def _measured(model: TransformerLM, corpus: str) -> dict:
    course, space = Course.load(corpus), c16_ablation._space(corpus)
    return measure(model, course.held_out["valid"][0], course.newline, space)
