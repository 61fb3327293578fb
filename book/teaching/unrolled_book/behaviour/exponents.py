"""A check of a scaling analysis: on simulated trainings it must find the exponent of their law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unrolled_book.behaviour.probe import BehaviourError
from unrolled_book.scaling import Law

Train = Callable[[np.ndarray, np.ndarray], np.ndarray]
Count = Callable[[np.ndarray], np.ndarray]

VOCABULARY, ASPECT = 50_257, 64  # of the simulated models; width / layers
NOISE = 0.003  # standard deviation of a loss, in nats
MARGIN, WIDEST = 0.02, 0.1  # what an interval may miss, and how wide it may be
LAWS = (Law(), Law(alpha=0.36, beta=0.24, B=180.0), Law(alpha=0.26, beta=0.42, A=110.0, B=8000.0))


def embedding(blocks: np.ndarray) -> np.ndarray:
    """The parameters of the embedding beside so many of the blocks, in models of one shape.

    Blocks of 12 · layers · width², with width = 64 · layers, and 50,257 rows of the embedding.
    """
    width = (ASPECT * np.asarray(blocks, dtype=float) / 12) ** (1 / 3)
    return VOCABULARY * width


def simulated(law: Law, rng: np.random.Generator, noise: float = NOISE) -> Train:
    """train(blocks, tokens): losses of the law, with noise; all parameters count in it."""

    def train(blocks: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        blocks, tokens = np.broadcast_arrays(np.asarray(blocks, dtype=float), tokens)
        losses = law.loss(blocks + embedding(blocks), tokens)
        return losses + rng.normal(scale=noise, size=losses.shape)

    return train


def check_exponent(analyse: Callable[[Train, Count], tuple[float, float]]) -> None:
    """Check that `analyse` finds how the best number of parameters grows with the budget.

    analyse: two functions to an interval (low, high) for the exponent a in N ∝ C^a. `train(blocks,
        tokens)` trains simulated models with so many parameters in their blocks, arrays of one
        shape, and gives their losses; `embedding(blocks)` is how many parameters the embedding
        adds. What it trains is its own choice. It is asked for three laws, whose exponents are 0.40
        to 0.62; N is all parameters, C = 6 · N · tokens.

    Raises BehaviourError for an interval that misses the law's exponent by more than 0.02 or is
    wider than 0.1, with guesses: the embedding is not counted, or in N alone; the exponent is that
    of the tokens.
    """
    for k, law in enumerate(LAWS):
        got = analyse(simulated(law, np.random.default_rng(k)), embedding)
        low, high = (float(bound) for bound in got)
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise BehaviourError(f"an interval has a lower and an upper end, got ({low}, {high})")
        true, found = law.exponent, f"the interval {low:.3f} to {high:.3f}"
        if not low - MARGIN <= true <= high + MARGIN:
            raise BehaviourError(
                f"the simulated law has the exponent {true:.3f}; found was {found}"
                + _why(low, high, true)
            )
        if high - low > WIDEST:
            raise BehaviourError(f"{found} is wider than {WIDEST}: it says too little")


def _why(low: float, high: float, true: float) -> str:
    guesses = []
    if low - MARGIN <= 1 - true <= high + MARGIN:
        guesses.append("Is it the exponent of the tokens?")
    if low > true:
        guesses.append("Are the embedding's parameters not counted?")
    if high < true:
        guesses.append("Are the embedding's parameters counted in N, but not in C?")
    return ". " * bool(guesses) + " Or: ".join(guesses)
