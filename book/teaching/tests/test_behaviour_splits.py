"""A split of data passes where the file's neighbours are not alike, or not taken apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled_book.behaviour import BehaviourError, check_split

from lib.tests.comparing import refuses

WRITERS, EACH = 7, 30
rng = np.random.default_rng(0)
N = WRITERS * EACH
OF = np.repeat(np.arange(WRITERS), EACH)  # the writer of each item: stretches of the file
ALIKE = 3 * rng.normal(size=(WRITERS, 5))[OF] + rng.normal(size=(N, 5))
APART = rng.normal(size=(N, 5))
RANDOM = rng.permutation(N) % 3


def test_writers_that_stand_on_both_sides_are_found():
    with pytest.raises(BehaviourError, match=r"for (8|9)\d %.* within 30 .* by chance (1|2)\d %"):
        check_split(ALIKE, RANDOM, near=30)
    with pytest.raises(BehaviourError, match="both sides"):
        check_split(torch.from_numpy(ALIKE).reshape(N, 5, 1), torch.from_numpy(RANDOM), near=30)


def test_whole_writers_pass_and_so_does_a_random_split_of_what_is_not_alike():
    check_split(ALIKE, OF % 3, near=30)
    check_split(APART, RANDOM, near=30)
    check_split(ALIKE, RANDOM, near=N)  # everything is near, by chance too
    check_split(ALIKE[rng.permutation(N)], RANDOM, near=30)  # a shuffled file leaves no witness


def test_the_shares_are_counted_as_by_hand():
    items = np.array([[0.0], [9.0], [10.0], [0.1]])  # the most similar of the others: 3, 2, 1, 0
    fold = np.array([0, 0, 1, 1])  # within 1: not, yes, yes, not; by chance 0, 1/2, 1/2, 0
    check_split(items, fold, near=1, excess=0.25)
    with pytest.raises(BehaviourError, match=r"for 50 %.*by chance 25 %"):
        check_split(items, fold, near=1, excess=0.24)


test_what_cannot_be_judged_is_named = refuses(
    (APART.astype(int), RANDOM, {}, TypeError, "float items .* int64 and int64"),
    (APART, RANDOM * 1.0, {}, TypeError, "float64 and float64"),
    (APART[:, 0], RANDOM, {}, r"\(210,\) and \(210,\)"),
    (APART, RANDOM[1:], {}, r"\(210, 5\) and \(209,\)"),
    (APART, RANDOM * 0, {}, "at least two folds, got 1"),
    (APART + np.nan, RANDOM, {}, "NaN"),
    (APART, RANDOM, {"near": 0}, "near"),
    (APART, RANDOM, {"excess": 1.0}, "excess"),
    of=lambda items, fold, options: check_split(items, fold, **options),
)
