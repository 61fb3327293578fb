"""Chapter 11: what gates gain on coloured parentheses, and what clipping and data change.

An Elman network, the minimal gated cell, a GRU and an LSTM read strings of coloured parentheses and
decide at the end whether each is balanced. All have the same number of hidden units, and with one
seed all read the same batches. An arm of the experiment sets the kind of the wrong strings, the
clipping, the learning rate and how open the gates begin. All trained networks are tested on the
same held-out strings: by length, within the training lengths and beyond them, and by the kind of
error. (There are so few strings of two or three pairs that training sees all of them; from six
pairs on, almost no held-out string occurs in training.) About 23 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data.batches import Pair, targets_at_end
from unrolled.models.recurrent import Recurrent
from unrolled.training.fit import DivergedError, FitConfig, fit

from unrolled_book.experiments._common import n_parameters, seeded
from unrolled_book.tasks.parentheses import NEEDED_PAIRS, RIGHT_COUNTS
from unrolled_book.tasks.symbols import Parentheses, adversarial, parentheses

N_COLOURS, BATCH_SIZE, HIDDEN_SIZE = 5, 64, 50
KEEP = 2.0  # the first bias of the gate that keeps: sigmoid(2) = 0.88
CELLS = {
    "Elman": ("elman", {"nonlinearity": "relu"}),
    "Elman, identity": ("elman", {"nonlinearity": "relu"}),
    "Elman, tanh": ("elman", {"nonlinearity": "tanh"}),
    "minimal gated": ("minimal", {}),
    "GRU": ("gru", {}),
    "LSTM": ("lstm", {}),
}
KEEPING_GATE = {"minimal gated": "z", "GRU": "z", "LSTM": "f"}  # at 1 it keeps all
MAIN = ("Elman", "minimal gated", "GRU", "LSTM")
HELD_OUT_SEED = 1_000


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting of the experiment, run for each of its models and seeds."""

    negatives: tuple[str, ...] = ("swap",)  # the kinds of wrong strings in training
    clip: float | None = None  # of the norm of the gradients
    lr: float = 3e-3  # of Adam
    keep: float = KEEP  # the first bias of the gates
    models: tuple[str, ...] = MAIN
    seeds: tuple[int, ...] = (0, 1, 2)


SIX = tuple(range(6))
ARMS = (
    Arm(clip=None, seeds=SIX),
    Arm(clip=1.0, seeds=SIX),
    Arm(negatives=("deep",), clip=None),
    Arm(negatives=("deep",), clip=1.0),
    Arm(negatives=RIGHT_COUNTS, clip=1.0),
    Arm(clip=1.0, lr=1e-3, seeds=(0, 1)),
    Arm(clip=1.0, lr=1e-2, seeds=(0, 1)),
    Arm(clip=1.0, models=("Elman, identity", "Elman, tanh")),
)


class ParenthesesReader(nn.Module):
    """One-hot symbols → one recurrent layer → two logits at every step: wrong, balanced."""

    def __init__(
        self,
        model: str,
        hidden_size: int = HIDDEN_SIZE,
        n_colours: int = N_COLOURS,
        keep: float = KEEP,
    ):
        """model: a name of CELLS. keep: the first bias of the gate that keeps, if there is one."""
        super().__init__()
        cell, options = CELLS[model]
        self.n_symbols = 2 * n_colours
        self.recurrent = Recurrent(self.n_symbols, hidden_size, cell, **options)
        self.head = nn.Linear(hidden_size, 2)
        _start(model, self.recurrent.cells[0], keep)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: int64 (B, T) → logits (B, T, 2)."""
        x = F.one_hot(tokens, self.n_symbols).to(self.head.weight.dtype)  # (B, T, D)
        return self.head(self.recurrent(x)[0])


@torch.no_grad()
def _start(model: str, cell: nn.Module, keep: float) -> None:
    """Set the bias of the gate that keeps, or the identity of Le et al. (2015)."""
    if model in KEEPING_GATE:
        rows = cell.rows(KEEPING_GATE[model])
        cell.bias_ih[rows], cell.bias_hh[rows] = keep, 0
    if model == "Elman, identity":
        nn.init.eye_(cell.weight_hh)
        nn.init.zeros_(cell.bias_ih)
        nn.init.zeros_(cell.bias_hh)


def draw_batches(
    seed: int, n: int, *, negatives: Sequence[str], pairs: tuple[int, int] = (2, 15)
) -> list[Pair]:
    """n batches (tokens, targets), each of strings with one number of pairs, all equally likely."""
    rng = np.random.default_rng(seed)
    low = _shortest(negatives, pairs)
    return [
        as_batch(parentheses(rng, BATCH_SIZE, pairs=int(p), negatives=negatives))
        for p in rng.integers(low, pairs[1] + 1, size=n)
    ]


def _shortest(negatives: Sequence[str], pairs: tuple[int, int]) -> int:
    return max(pairs[0], *(NEEDED_PAIRS.get(kind, 1) for kind in negatives))


def as_batch(strings: Parentheses) -> Pair:
    """Strings of one length as tokens (B, T) and targets (B, T), the label at the last token."""
    tokens = np.stack(strings.sequences)
    return tokens, targets_at_end(np.ones(tokens.shape, dtype=bool), strings.labels)


def train(
    model: str,
    batches: Sequence[Pair],
    *,
    seed: int,
    clip: float | None,
    lr: float = 3e-3,
    keep: float = KEEP,
) -> tuple[ParenthesesReader, int]:
    """Train a reader with one step per batch; return it and the number of steps (fewer if it
    diverged)."""
    with seeded(seed):
        reader = ParenthesesReader(model, keep=keep)
    config = FitConfig(n_steps=len(batches), lr=lr, optimizer="adam", grad_clip=clip, seed=seed)
    try:
        n_steps = len(fit(reader, batches, config, progress=False).history.step)
    except DivergedError as error:
        n_steps = len(error.history.step)
    return reader, n_steps


@torch.no_grad()
def is_right(reader: nn.Module, strings: Parentheses) -> NDArray[np.bool_]:
    """Whether the reader classifies each string (N,) correctly; lengths may differ."""
    right = np.zeros(len(strings), dtype=bool)
    lengths = np.array([len(s) for s in strings.sequences])
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        tokens = torch.from_numpy(np.stack([strings.sequences[r] for r in rows]))
        guess = reader(tokens)[:, -1].argmax(-1).numpy()
        right[rows] = guess == strings.labels[rows]
    return right


class NeighbourRule:
    """Not a network: a string is wrong if a closer directly follows an opener of another colour."""

    def __call__(self, tokens: Tensor) -> Tensor:
        """tokens: int64 (B, T) → logits (B, T, 2), the verdict on the string so far."""
        first, second = tokens[:, :-1], tokens[:, 1:]
        pair = (first < N_COLOURS) & (second >= N_COLOURS)
        clash = pair & (first + second != 2 * N_COLOURS - 1)  # (B, T − 1)
        wrong = F.pad(clash, (1, 0)).cummax(1).values.float()
        return torch.stack([wrong, 1 - wrong], -1)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Strings to test on. by_pairs: with the training's kind of error, for each number of pairs;
    probes: all kinds with right counts, at training lengths and beyond."""

    by_pairs: dict[int, Parentheses]
    probes: dict[str, Parentheses]

    @classmethod
    def draw(
        cls, negatives: Sequence[str], n: int, pairs: tuple[int, int], beyond: tuple[int, int]
    ) -> HeldOut:
        """n strings for each number of pairs and 10·n for each probe, from a separate seed."""
        rng = np.random.default_rng(HELD_OUT_SEED)
        probes = {
            "within": adversarial(rng, 10 * n, pairs=(max(3, pairs[0]), pairs[1])),
            "beyond": adversarial(rng, 10 * n, pairs=beyond),
        }
        low = _shortest(negatives, pairs)
        numbers = [*range(low, pairs[1] + 1), *range(beyond[0], beyond[1] + 1)]
        by_pairs = {p: parentheses(rng, n, pairs=p, negatives=negatives) for p in numbers}
        return cls(by_pairs, probes)

    def judge(self, reader: nn.Module, longest: int) -> dict:
        """Errors and accuracies of a reader.

        error: mean over the lengths up to `longest` pairs; error_beyond: over longer ones;
        by_pairs: errors in the order of the numbers of pairs; probe, probe_beyond: the accuracy on
        each kind.
        """
        errors = {p: 1 - is_right(reader, s).mean() for p, s in self.by_pairs.items()}
        return {
            "error": np.mean([e for p, e in errors.items() if p <= longest]),
            "error_beyond": np.mean([e for p, e in errors.items() if p > longest]),
            "by_pairs": list(errors.values()),
            "probe": _by_kind(reader, self.probes["within"]),
            "probe_beyond": _by_kind(reader, self.probes["beyond"]),
        }


def _by_kind(reader: nn.Module, strings: Parentheses) -> dict[str, float]:
    right, kinds = is_right(reader, strings), np.array(strings.kinds)
    return {kind: right[kinds == kind].mean() for kind in sorted(set(strings.kinds))}


def run(
    arms: Sequence[Arm] = ARMS,
    *,
    n_steps: int = 3_000,
    pairs: tuple[int, int] = (2, 15),
    beyond: tuple[int, int] = (16, 30),
    n_held_out: int = 200,
) -> dict:
    """Train and test every model and seed of every arm.

    metrics: "runs", one dict for each training with its setting, its steps and the result of
    `HeldOut.judge`, rounded to four digits; "neighbour rule", the same for the rule, by the kind of
    wrong strings. curve: rows of arm, model and number of pairs with the errors of the seeds.
    """
    kinds = sorted({arm.negatives for arm in arms})
    held_out = {kind: HeldOut.draw(kind, n_held_out, pairs, beyond) for kind in kinds}
    runs = []
    for kind, seed in sorted({(arm.negatives, s) for arm in arms for s in arm.seeds}):
        batches = draw_batches(seed, n_steps, negatives=kind, pairs=pairs)
        for arm in (a for a in arms if a.negatives == kind and seed in a.seeds):
            for model in arm.models:
                reader, done = train(
                    model, batches, seed=seed, clip=arm.clip, lr=arm.lr, keep=arm.keep
                )
                setting = {"arm": arms.index(arm), "model": model, "seed": seed, "updates": done}
                runs.append(setting | _rounded(held_out[kind].judge(reader, pairs[1])))
    rule = {
        ", ".join(kind): _rounded(held_out[kind].judge(NeighbourRule(), pairs[1])) for kind in kinds
    }
    config = {
        "arms": [asdict(arm) for arm in arms],
        "optimizer": "adam",
        "n_steps": n_steps,
        "batch_size": BATCH_SIZE,
        "hidden_size": HIDDEN_SIZE,
        "n_colours": N_COLOURS,
        "pairs": list(pairs),
        "beyond": list(beyond),
        "n_held_out": n_held_out,
        "parameters": {m: _count(m) for m in CELLS},
    }
    return {
        "config": config,
        "seeds": sorted({r["seed"] for r in runs}),
        "metrics": {"runs": [_without_curve(r) for r in runs], "neighbour rule": rule},
        "curve": _curve(runs, {k: list(h.by_pairs) for k, h in held_out.items()}, arms),
    }


def _curve(
    runs: list[dict], numbers: dict[tuple[str, ...], list[int]], arms: Sequence[Arm]
) -> list[dict]:
    rows = []
    for a, arm in enumerate(arms):
        for model in arm.models:
            of_seeds = [r["by_pairs"] for r in runs if (r["arm"], r["model"]) == (a, model)]
            rows += [
                {"arm": a, "model": model, "pairs": p, "errors": list(errors)}
                for p, errors in zip(
                    numbers[arm.negatives], zip(*of_seeds, strict=True), strict=True
                )
            ]
    return rows


def _without_curve(run: dict) -> dict:
    return {name: value for name, value in run.items() if name != "by_pairs"}


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(v) for name, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list) else round(float(value), 4)


def _count(model: str) -> int:
    with torch.device("meta"):  # nothing is drawn
        return n_parameters(ParenthesesReader(model))
