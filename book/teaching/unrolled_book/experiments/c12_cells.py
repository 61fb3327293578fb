"""Chapter 12: what its small LSTM listens to and keeps, also with other seeds.

Which characters of a line change a prediction? Does one cell keep the position in the line?

About 2 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.evaluate import bits, evaluate
from unrolled.training.fit import cross_entropy, fit

from unrolled_book.experiments._common import cosine, seeded, windows
from unrolled_book.experiments.ladder import Course

CORPUS = "shakespeare-small"
SEEDS = (0, 1, 2, 3, 4)
PLACES = ("the king,", "Now let us go and speak unto the king,")  # early and late in a line
CONTEXTS = (PLACES[1], PLACES[1][:-5], PLACES[0])  # the line ends; a word begins; too early
OTHERS = "etaoinshrdlu"  # what a character is replaced by: letters that are common in English
N_ROWS, LENGTH, WARM_UP = 16, 1500, 100  # characters on which cells are examined


def train(course: Course, *, seed: int, n_steps: int, eval_every: int, valid) -> RecurrentLM:
    """The chapter's model: width 32, 128 units, windows of 48 characters, 16 at a time."""
    with seeded(seed):
        model = RecurrentLM(
            course.vocab_size, "lstm", embedding_dim=32, hidden_size=128, forget_bias=1.0
        )
    batches = windows(course.train, seed, batch_size=16, window=48)
    config = cosine(n_steps, 1.6e-2, seed, eval_every=eval_every)
    fit(model, batches, config, valid=valid, progress=False)
    return model


@torch.no_grad()
def line_ends(model: RecurrentLM, tokenizer: CharTokenizer) -> list[float]:
    """P(the line ends) after each of PLACES, at the start of a text."""
    newline = int(tokenizer.encode("\n")[0])
    texts = [torch.from_numpy(tokenizer.encode("\n" + place))[None] for place in PLACES]
    return [model(text)[0, -1].softmax(-1)[newline].item() for text in texts]


@torch.no_grad()
def listened(model: RecurrentLM, tokenizer: CharTokenizer, context: str) -> dict[str, list[float]]:
    """How far the prediction after a context moves if one of its characters is another one.

    A number for each character: half the sum of all changes of probability, between 0 and 1. Under
    "letter" the mean over OTHERS in its place, under "newline" with a newline there.
    """
    ids = tokenizer.encode("\n" + context)
    moved = {}
    for kind, others in (("letter", OTHERS), ("newline", "\n")):
        moved[kind] = []
        for k in range(1, len(ids)):
            put = tokenizer.encode("".join(c for c in others if c != context[k - 1]))
            changed = np.repeat(ids[None], 1 + len(put), axis=0)
            changed[1:, k] = put  # row 0 stays as it is
            p = model(torch.from_numpy(changed))[:, -1].softmax(-1)
            moved[kind].append((p[1:] - p[0]).abs().sum(-1).mean().item() / 2)
    return moved


@torch.no_grad()
def read(model: RecurrentLM, ids: np.ndarray, clamp: tuple[int, float] | None = None):
    """States c (N, H) and logits (N, V) after the first ids, in N_ROWS rows without the warm-up.

    clamp: (unit, value) holds one entry of c at a value at every step.
    """
    cell = model.recurrent.cells[0]
    rows = torch.from_numpy(ids[: N_ROWS * LENGTH].reshape(N_ROWS, LENGTH))
    projected = cell.project(model.embedding(rows))
    h, c = cell.initial_state(N_ROWS)
    outputs, cells = [], []
    for t in range(LENGTH):
        _, (i, f, g, o) = cell.update(projected[:, t], (h, c))
        c = f * c + i * g
        if clamp is not None:
            c[:, clamp[0]] = clamp[1]
        h = o * torch.tanh(c)
        outputs.append(h)
        cells.append(c)
    h, c = (torch.stack(steps, 1)[:, WARM_UP:].flatten(0, 1) for steps in (outputs, cells))
    return c.numpy(), model.head(h)


def in_rows(per_token: np.ndarray) -> np.ndarray:
    """The values of the first tokens, in the order of `read`."""
    return per_token[: N_ROWS * LENGTH].reshape(N_ROWS, LENGTH)[:, WARM_UP:].ravel()


def places(ids: np.ndarray, newline: int) -> np.ndarray:
    """The number of characters since the last newline, including the character itself: (N,)."""
    last = np.maximum.accumulate(np.where(ids == newline, np.arange(len(ids)), -1))
    return (np.arange(len(ids)) - last).astype(float)


def correlations(states: np.ndarray, feature: np.ndarray) -> np.ndarray:
    """The correlation of each column of states (N, H) with the feature (N,): (H,)."""
    scaled = (states - states.mean(0)) / (states.std(0) + 1e-9)
    return scaled.T @ ((feature - feature.mean()) / feature.std()) / len(feature)


def examine(model: RecurrentLM, course: Course, tokenizer: CharTokenizer) -> dict:
    """Choose a cell on the validation plays; confirm and clamp it on the test plays."""
    held_out = {split: ids for split, (ids, _) in course.held_out.items()}
    inputs = {s: np.append(course.newline, ids[:-1]) for s, ids in held_out.items()}
    states = {split: read(model, ids) for split, ids in inputs.items()}
    r = {
        split: correlations(states[split][0], in_rows(places(ids, course.newline)))
        for split, ids in inputs.items()
    }
    unit = int(np.abs(r["valid"]).argmax())
    answers = torch.from_numpy(in_rows(held_out["test"]))
    blank = np.isin(answers.numpy(), tokenizer.encode(" \n"))
    mean = float(states["test"][0][:, unit].mean())
    held = read(model, inputs["test"], (unit, mean))[1]
    extra = cross_entropy(held, answers) - cross_entropy(states["test"][1], answers)
    extra = bits(extra.numpy())
    return {
        "cell": unit, "chosen": float(r["valid"][unit]), "confirmed": float(r["test"][unit]),
        "extra_bits_blank": float(extra[blank].mean()),
        "extra_bits_elsewhere": float(extra[~blank].mean()),
    }  # fmt: skip


def run(
    *, corpus: str = CORPUS, n_steps: int = 2400, seeds: Sequence[int] = SEEDS, n_looks: int = 8
) -> dict:
    """A record's fields: for each seed the result of `examine`, its loss, and P(the line ends).

    The curve holds P(the line ends) after each of PLACES, n_looks times during training.
    """
    course = Course.load(corpus)
    tokenizer = CharTokenizer.train(corpora.load(corpus).train)
    peek = course.held_out["valid"][0][:20_000]
    found, curve = [], []
    every = max(1, n_steps // n_looks)
    for seed in seeds:
        looks = []

        def valid(model: RecurrentLM, looks: list = looks) -> float:
            looks.append(line_ends(model, tokenizer))
            return evaluate(model, peek, 1, start=course.newline, overlap=16).nats / len(peek)

        model = train(course, seed=seed, n_steps=n_steps, eval_every=every, valid=valid)
        ids, n_bytes = course.held_out["test"]
        score = evaluate(model, ids, n_bytes, start=course.newline).bits_per_byte
        found.append(
            {"seed": seed, "test_bits_per_byte": score, "line_ends": line_ends(model, tokenizer)}
            | {"listened": [listened(model, tokenizer, context) for context in CONTEXTS]}
            | examine(model, course, tokenizer)
        )
        steps = [min((k + 1) * every, n_steps) for k in range(len(looks))]
        curve += [
            {"seed": seed, "step": step, "early": early, "late": late}
            for step, (early, late) in zip(steps, looks, strict=True)
        ]
    config = {"corpus": corpus, "sha256": corpora.load(corpus).sha256, "n_steps": n_steps,
              "places": PLACES, "width": 32, "hidden_size": 128, "lr": 1.6e-2}  # fmt: skip
    return {"config": config, "seeds": list(seeds), "curve": curve, "metrics": {"by_seed": found}}
