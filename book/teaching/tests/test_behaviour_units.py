"""Checks of a network's state pass what is alive and even, and name units that are not, losses of
the start that are too sure, and experts that starve."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from unrolled.models.moe import MixtureOfExperts
from unrolled_book.behaviour import BehaviourError, check_experts, check_initial_loss, check_units

from lib.tests.comparing import refuses

N, H = 11, 5
HIDDEN = np.random.default_rng(0).normal(size=(N, H))
RELU = np.maximum(HIDDEN, 0) * [1, 1, 0, 1, 0]
MANY = np.random.default_rng(2).normal(size=(50, 3000))
ALMOST = HIDDEN[:, [0]] + 1e-3 * (np.arange(N) == 4)[:, None]


def with_unit(i, values, hidden=HIDDEN):
    return np.concatenate([hidden[:, :i], values + 0 * hidden[:, [i]], hidden[:, i + 1 :]], 1)


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_different_units_pass_and_some_may_be_dead(make):
    check_units(make(HIDDEN))
    check_units(make(HIDDEN.astype("float32")))
    check_units(make(with_unit(1, ALMOST)))
    check_units(make(RELU), dead=0.4)


test_the_first_unit_that_is_dead_stuck_or_a_twin_is_named = refuses(
    (RELU, {}, r"unit 2 gives 0 for all 11 inputs \(2 of 5.*Dead"),
    (RELU, {"dead": 0.39}, r"unit 2 gives 0 .*\(2 of 5"),
    (with_unit(3, 0.5, RELU), {"dead": 0.4}, r"unit 3 gives 0.5 .*\(1 of 5"),
    (with_unit(3, RELU[:, [1]], RELU), {"dead": 0.4}, "units 1 and 3 .* 3 units do .* of 2\\b"),
    (with_unit(4, 0.3, RELU), {}, r"unit 2 .*Dead"),
    (with_unit(3, 1 - 1e-12), {}, r"unit 3 gives 1 .*Saturated"),
    (with_unit(3, 0.5), {}, r"unit 3 gives 0.5 .*all zero"),
    (HIDDEN[:, [0, 1, 0, 1, 0]], {}, r"units 0 and 2 .* 5 units do the work of 2\b"),
    (with_unit(1, ALMOST), {"tolerance": 1e-2}, "units 0 and 1"),
    (with_unit(2999, MANY[:, [1000]], MANY), {}, "units 1000 and 2999"),  # in seconds
    (with_unit(3, np.nan), {}, "unit 3 holds NaN"),
    (with_unit(3, -np.inf), {}, "unit 3 holds inf"),
    of=lambda hidden, options: check_units(hidden, **options),
    error=BehaviourError,
)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_size_of_the_layer_does_not_matter(size):
    hidden = size * np.random.default_rng(1).normal(size=(300, 64))
    check_units(hidden.astype("float32"))
    check_units(hidden.astype("float16") if size < 1e4 else hidden)
    hidden[:, 7] = 0.3 * size
    with pytest.raises(BehaviourError, match=r"unit 7 .*\(1 of 64.*zero"):
        check_units(hidden.astype("float32"))
    hidden[:, 7] = hidden[:, 40] * (1 + 1e-6)
    with pytest.raises(BehaviourError, match=r"units 7 and 40 .* 64 units do the work of 63"):
        check_units(hidden.astype("float32"))


V = 11
TARGETS = np.random.default_rng(0).integers(0, V, (7, 5))
NOISE = np.random.default_rng(1).normal(size=(7, 5, V))
EVEN, MASKED = np.zeros((2, V)), np.where(np.arange(V) == 4, -np.inf, np.zeros((2, V)))
UNEVEN = np.array([[-1.0, 0.0]])  # loss of the first: ln(1 + e) = 1.31 against ln 2 = 0.69


def test_an_even_guess_passes():
    check_initial_loss(0.0 * NOISE, TARGETS)
    check_initial_loss(torch.tensor(0.3 * NOISE), torch.tensor(TARGETS))
    check_initial_loss(np.full(V, -math.log(V)), np.array(3))  # log-probabilities, a single row
    check_initial_loss(MASKED, [0, 1])  # no target needs the masked answer
    check_initial_loss(UNEVEN, [0], tolerance=0.9)
    rng = np.random.default_rng(1)
    for _ in range(200):  # few targets
        check_initial_loss(0.3 * rng.normal(size=(32, 2)), rng.integers(0, 2, 32))


@given(st.floats(-1e300, 1e300))
@settings(max_examples=30, deadline=None)
def test_a_constant_added_to_the_logits_changes_nothing(constant):
    check_initial_loss(np.full((1, V), constant), [0])


def test_large_logits_are_refused_with_both_losses():
    logits = torch.tensor(20.0 * NOISE)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(TARGETS).flatten())
    spread = logits.std(-1, correction=0).mean()
    says = rf"is {loss:.3g} nats.*ln 11 = 2\.4.* an example spread by {spread:.3g}: .* too large"
    with pytest.raises(BehaviourError, match=says):
        check_initial_loss(logits, TARGETS)


E = 5


def choices(*counts: int) -> np.ndarray:
    """Top-1 choices, (N, 1), with so many of each expert."""
    return np.repeat(np.arange(len(counts)), counts)[:, None]


FIRST = np.zeros((500, 1), dtype=int)


def test_a_load_passes_from_the_share_on_that_is_asked_for():
    check_experts(choices(*[200] * E), E)
    check_experts(torch.from_numpy(choices(*[200] * E)), E, share=1)
    check_experts(choices(20, 250, 250, 240, 240), E)  # an even load has 200 of each
    second = np.tile(np.arange(1, E), 125)[:, None]
    check_experts(np.concatenate([FIRST, second], axis=1), E)  # all choices of a token count


def test_a_router_at_its_start_passes_and_one_with_a_large_bias_does_not():
    layer, x = MixtureOfExperts(7, 3, n_experts=E, top_k=2), torch.randn(2000, 7)
    check_experts(layer.route(x).experts, E)
    with pytest.raises(BehaviourError, match="of 5 experts get less"):
        check_experts(layer.route(x + 30 * layer.router.weight[0].sign()).experts, E)


test_what_is_wrong_or_cannot_be_judged_is_refused = refuses(
    (check_initial_loss, (3.0 * np.eye(V)[TARGETS], TARGETS), {}, BehaviourError, "Does the m"),
    (check_initial_loss, (UNEVEN, [0]), {"tolerance": 0.8}, BehaviourError, "too large"),
    (check_initial_loss, ([[0.0, 8.0], [0.0, 0.0]], [0, 0]), {}, BehaviourError, "too large"),
    (check_initial_loss, (MASKED, [0, 4]), {}, BehaviourError, "NaN or an infinite"),
    (check_initial_loss, (-MASKED, [0, 1]), {}, BehaviourError, "NaN or an infinite"),
    (check_initial_loss, (EVEN + np.nan, [0, 1]), {}, BehaviourError, "NaN or an infinite"),
    (check_initial_loss, (EVEN, [0, 1]), {"tolerance": np.nan}, "at least 0"),
    (check_initial_loss, (EVEN, [0, 1]), {"tolerance": -0.1}, "at least 0"),
    (check_initial_loss, (EVEN, [0, 1]), {"tolerance": np.inf}, "finite"),
    (check_initial_loss, (EVEN.astype(int), [0, 1]), {}, TypeError, "int64"),
    (check_initial_loss, (EVEN, [0.0, 1.0]), {}, TypeError, "float64"),
    (check_initial_loss, (EVEN, [0]), {}, r"\(2, 11\) and \(1,\)"),
    (check_initial_loss, (EVEN, [[0], [1]]), {}, r"\(2, 1\)"),
    (check_initial_loss, (EVEN[:0], TARGETS[:0, 0]), {}, r"\(0, 11\)"),
    (check_initial_loss, (EVEN[:, :1], [0, 0]), {}, "there are 1 logits"),
    (check_initial_loss, (EVEN, [0, V]), {}, "0 … 11"),
    (check_initial_loss, (EVEN, [-1, 0]), {}, "-1 … 0"),
    (
        *(check_experts, (choices(0, 0, 500, 0, 500), E), {}, BehaviourError),
        "expert 0 gets 0 %.*each 20 %: 3 of 5.*worth 2 exp",
    ),
    (check_experts, (choices(19, 250, 250, 240, 241), E), {}, BehaviourError, "0 gets 1.9 %"),
    (check_experts, (FIRST, E), {}, BehaviourError, "worth 1 experts"),
    (check_experts, (FIRST[:45], E), {}, "45 .* to judge 5 experts: take 150"),
    (check_experts, (FIRST * 1.0, E), {}, TypeError, "integers, got float64"),
    (check_experts, (FIRST[:, 0], E), {}, r"shape \(N, k\)"),
    (check_experts, (FIRST[:0], E), {}, r"shape \(N, k\)"),
    (check_experts, (FIRST + E, E), {}, "5 … 5, and there are 5"),
    (check_experts, (FIRST - 1, E), {}, "-1 … -1"),
    (check_experts, (FIRST[:, [0, 0]], E), {}, "twice"),
    (check_experts, (FIRST, E), {"share": 0}, "share"),
    (check_experts, (FIRST, 1), {}, "n_experts"),
    (check_units, (RELU,), {"dead": 2}, "dead must be at least 0 and at most 1"),
    (check_units, (HIDDEN[:1],), {}, r"\(1, 5\)"),
    (check_units, (HIDDEN[:, 0],), {}, r"\(11,\)"),
    (check_units, (HIDDEN.astype(int),), {}, TypeError, "floats"),
    of=lambda check, given, options: check(*given, **options),
)
