"""The check of neighbours passes vectors that hang on the text's order, and refuses the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled_book import vectors
from unrolled_book.behaviour import BehaviourError, check_neighbours

V, N = 23, 3_000
# Words 2k and 2k + 1 stand in the same company: between the words that mark topic k.
TOPICS = np.random.default_rng(0).integers(0, 5, N // 5)
TEXT = np.concatenate(
    [
        [10 + t, 10 + t, 2 * t + b, 10 + t, 20]
        for t, b in zip(TOPICS, np.arange(N // 5) % 2, strict=True)
    ]
)
WORDS = np.arange(10)


def of_company(tokens):
    return vectors.ppmi(vectors.cooccurrences(tokens, V, 2)).toarray()


def of_frequency(tokens):
    """Knows how frequent a word is, and nothing of its company."""
    share = np.bincount(tokens, minlength=V) / len(tokens)
    return np.stack([share, 1 - share], axis=1)


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_vectors_from_company_pass(make):
    assert (
        check_neighbours(lambda tokens: make(of_company(tokens)), make(TEXT), make(WORDS)) is None
    )


def test_vectors_that_do_not_see_the_order_are_refused():
    with pytest.raises(
        BehaviourError, match=r"only 0 of 10 words .* do not come from the words' order"
    ):
        check_neighbours(of_frequency, TEXT, WORDS)


def test_a_text_without_order_is_refused():
    noise = np.random.default_rng(1).permutation(TEXT)
    with pytest.raises(BehaviourError, match=r"only \d of 10 words"):
        check_neighbours(of_company, noise, WORDS)


def test_the_word_that_fails_by_most_is_named_with_both_cosines():
    def build(tokens):
        rows = np.eye(V)
        rows[4, 7] = 0.1 if (tokens == TEXT).all() else 2
        return rows

    with pytest.raises(
        BehaviourError, match=r"only 0 of 2 .*word 4 is nearest to word 7, .* 0.10; .* 0.89"
    ):
        check_neighbours(build, TEXT, [3, 4])


def test_a_word_is_not_its_own_neighbour_and_zeros_are_no_direction():
    with pytest.raises(BehaviourError, match=r"a cosine of 0.00; .* nearest word has 0.00"):
        check_neighbours(lambda tokens: np.eye(V), TEXT, WORDS)
    with pytest.raises(BehaviourError, match=r"only 0 of 10 .*; 10 have an empty vector"):
        check_neighbours(lambda tokens: np.zeros((V, 2)), TEXT, WORDS)


@pytest.mark.parametrize("left", [0, 1e-15], ids=["zeros", "rounding"])
def test_words_that_are_empty_when_shuffled_do_not_pass(left):
    def build(tokens):
        rows = of_company(tokens) + 0.0
        if not np.array_equal(tokens, TEXT):
            rows[:7] = left * np.random.default_rng(0).normal(size=rows[:7].shape)
        return rows

    with pytest.raises(BehaviourError, match=r"only 3 of 10 .*; 7 have an empty vector"):
        check_neighbours(build, TEXT, WORDS)


def test_vectors_that_ignore_the_text_are_refused():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        with pytest.raises(BehaviourError, match="do not come from the words' order"):
            check_neighbours(lambda tokens, rng=rng: rng.normal(size=(97, 7)), TEXT, np.arange(97))


def test_the_message_calls_the_words_by_their_names():
    names = [f"w{i}" for i in range(V)]
    with pytest.raises(BehaviourError, match=r"“w\d” is nearest to “w\d+”"):
        check_neighbours(of_frequency, TEXT, WORDS, names=names)


def test_the_share_and_the_seed_are_those_asked_for():
    seen = []

    def build(tokens):
        seen.append(tokens.copy())
        return of_company(tokens)

    check_neighbours(build, TEXT, WORDS, n_shuffles=3, seed=5)
    first = list(seen)
    seen.clear()
    check_neighbours(build, TEXT, WORDS, n_shuffles=3, seed=5, share=0.9)
    assert len(first) == len(seen) == 4
    for before, after in zip(first, seen, strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(first[0], TEXT)
    assert not np.array_equal(first[1], first[2])
    np.testing.assert_array_equal(np.sort(first[1]), np.sort(TEXT))


def test_unusable_arguments_are_refused():
    with pytest.raises(TypeError, match="tokens needs integers, got float64"):
        check_neighbours(of_company, TEXT / 1.0, WORDS)
    with pytest.raises(ValueError, match=r"words needs at least 1 ids in one axis, got \(1, 2\)"):
        check_neighbours(of_company, TEXT, [[1, 2]])
    with pytest.raises(ValueError, match=r"words must lie in 0 … 22, got 1, 23"):
        check_neighbours(of_company, TEXT, [1, 23])
    with pytest.raises(ValueError, match=r"vectors \(V, D\) with V ≥ 2, got \(3,\)"):
        check_neighbours(lambda tokens: np.ones(3), TEXT, [1])
    with pytest.raises(ValueError, match="n_shuffles"):
        check_neighbours(of_company, TEXT, WORDS, n_shuffles=2)
    with pytest.raises(ValueError, match="share must be"):
        check_neighbours(of_company, TEXT, WORDS, share=1)
    with pytest.raises(BehaviourError, match="NaN"):
        check_neighbours(lambda tokens: np.full((V, 2), np.nan), TEXT, WORDS)
