"""The check of exponents accepts an honest analysis and names the wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from unrolled_book.behaviour import BehaviourError, check_exponent
from unrolled_book.behaviour.exponents import LAWS, embedding, simulated
from unrolled_book.scaling import power_law, valley

BLOCKS = np.logspace(2, 10.5, 86)


def exponent(train, count, computes) -> float:
    best = []
    for compute in computes:
        sizes = count(BLOCKS)
        losses = train(BLOCKS, compute / (6 * sizes))
        i = losses.argmin()
        near = slice(max(i - 10, 0), i + 11)
        best.append(valley(sizes[near], losses[near])[0])
    return power_law(computes, best)[1]


def honest(train, embedding):
    found = [exponent(train, lambda n: n + embedding(n), np.logspace(15, 21, 7)) for _ in range(20)]
    return np.percentile(found, [2.5, 97.5])


def blocks_only(train, embedding):
    found = [exponent(train, lambda n: n, np.logspace(12, 20, 7)) for _ in range(20)]
    return np.percentile(found, [2.5, 97.5])


def test_counting_all_parameters_passes():
    check_exponent(honest)


def test_leaving_out_the_embedding_is_named_although_the_interval_is_narrow():
    low, high = blocks_only(simulated(LAWS[0], np.random.default_rng(0)), embedding)
    assert high - low < 0.02
    with pytest.raises(BehaviourError, match=r"0\.513.*Are the embedding's parameters not counted"):
        check_exponent(blocks_only)


def test_the_exponent_of_the_tokens_is_named():
    def tokens(train, embedding):
        low, high = honest(train, embedding)
        return 1 - high, 1 - low

    with pytest.raises(BehaviourError, match="of the tokens"):
        check_exponent(tokens)


def test_leaving_the_embedding_out_of_the_budget_alone_is_guessed():
    def spent_on_blocks(train, embedding):
        low = []
        for compute in np.logspace(15, 21, 7):
            losses = train(BLOCKS, compute / (6 * BLOCKS))
            near = slice(max(losses.argmin() - 10, 0), losses.argmin() + 11)
            low.append(valley((BLOCKS + embedding(BLOCKS))[near], losses[near])[0])
        found = power_law(np.logspace(15, 21, 7), low)[1]
        return found, found

    with pytest.raises(BehaviourError, match="counted in N, but not in C"):
        check_exponent(spent_on_blocks)


@pytest.mark.parametrize(
    ("interval", "why"),
    [
        ((0.5, 0.52), "exponent 0.400"),  # right for the first law alone
        ((0.3, 0.7), "says too little"),
        ((0.415, 0.605), "wider than 0.1"),  # with the margin it holds all three exponents
        ((0.6, 0.4), "a lower and an upper end"),
        ((np.nan, 0.5), "a lower and an upper end"),
        ((0.1, 0.2), "exponent 0.513"),
    ],
)
def test_an_interval_that_does_not_depend_on_the_trainings_fails(interval, why):
    with pytest.raises(BehaviourError, match=why):
        check_exponent(lambda train, embedding: interval)


def test_an_embedding_of_one_shape_of_models():
    assert embedding(12 * 2 * 128**2) == pytest.approx(50_257 * 128)  # width = 64 · layers
