"""check_experts: loads that pass, loads that do not, and what cannot be judged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled.models.moe import MixtureOfExperts
from unrolled_book.behaviour import BehaviourError, check_experts

E = 5


def choices(counts: list[int]) -> np.ndarray:
    """Top-1 choices, (N, 1), with so many of each expert."""
    return np.repeat(np.arange(len(counts)), counts)[:, None]


def test_an_even_load_passes_in_numpy_and_torch():
    even = choices([200] * E)
    check_experts(even, E)
    check_experts(torch.from_numpy(even), E, share=1)


def test_the_least_used_expert_and_the_worth_of_the_load_are_told():
    with pytest.raises(BehaviourError, match=r"expert 0 gets 0 %.*each 20 %: 3 of 5.*worth 2 exp"):
        check_experts(choices([0, 0, 500, 0, 500]), E)


@pytest.mark.parametrize(("least", "passes"), [(20, True), (19, False)])
def test_the_border_is_a_share_of_the_even_load(least, passes):
    experts = choices([least, 250, 250, 240, 260 - least])  # an even load has 200 of each
    if passes:
        check_experts(experts, E)
    else:
        with pytest.raises(BehaviourError, match=r"expert 0 gets 1\.9 %"):
            check_experts(experts, E)


def test_all_choices_of_a_token_count():
    first = np.zeros((500, 1), dtype=int)
    second = np.tile(np.arange(1, E), 125)[:, None]
    check_experts(np.concatenate([first, second], axis=1), E)
    with pytest.raises(BehaviourError, match="worth 1 experts"):
        check_experts(first, E)


def test_a_router_at_its_start_passes_and_one_with_a_large_bias_does_not():
    torch.manual_seed(0)
    layer, x = MixtureOfExperts(7, 3, n_experts=E, top_k=2), torch.randn(2000, 7)
    check_experts(layer.route(x).experts, E)
    with pytest.raises(BehaviourError, match="of 5 experts get less"):
        check_experts(layer.route(x + 30 * layer.router.weight[0].sign()).experts, E)


@pytest.mark.parametrize(
    ("experts", "options", "error", "message"),
    [
        (choices([9] * E), {}, ValueError, "45 choices are too few to judge 5 experts: take 150"),
        (np.zeros((500, 1)), {}, TypeError, "integers, got float64"),
        (np.zeros(500, dtype=int), {}, ValueError, r"shape \(N, k\)"),
        (np.zeros((0, 2), dtype=int), {}, ValueError, r"shape \(N, k\)"),
        (choices([99] * 6), {}, ValueError, "0 … 5, and there are 5"),
        (choices([99] * E) - 1, {}, ValueError, "-1 … 3"),
        (np.zeros((500, 2), dtype=int), {}, ValueError, "twice"),
        (choices([99] * E), {"share": 0}, ValueError, "share"),
        (choices([99] * E), {"n_experts": 1}, ValueError, "n_experts"),
    ],
)
def test_what_cannot_be_judged_is_refused(experts, options, error, message):
    with pytest.raises(error, match=message):
        check_experts(experts, **{"n_experts": E} | options)
