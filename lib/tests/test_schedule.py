"""Schedules by hand and over random lengths; the settings of a fit and what they refuse."""

import functools
import math

import pytest
import torch
from comparing import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.training.losses import per_target
from unrolled.training.schedule import constant, cosine, linear
from unrolled.training.settings import FitConfig, to_jsonable


def test_the_schedules_are_those_worked_by_hand():
    """Nine steps, three of them warm-up: the peak is step 2, six more lead to the end."""
    root = math.sqrt(3) / 2  # cos 30°
    wave = [(1 + c) / 2 for c in (root, 0.5, 0, -0.5, -root, -1)]
    for schedule, options, fall in (
        (constant, {}, [1] * 6),
        (linear, {"min_lr_ratio": 0.2}, [1 - 0.8 * k / 6 for k in range(1, 7)]),
        (cosine, {}, wave),
        (cosine, {"min_lr_ratio": 0.2}, [0.2 + 0.8 * x for x in wave]),
    ):
        factors = [schedule(step, 9, warmup_steps=3, **options) for step in range(9)]
        assert factors == pytest.approx([1 / 3, 2 / 3, 1, *fall], abs=1e-15)


@pytest.mark.parametrize("schedule", [linear, cosine])
@given(n_steps=st.integers(1, 60), share=st.floats(0, 1), floor=st.floats(0, 1),
       later=st.integers(0, 99))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_schedule_rises_to_one_falls_to_its_smallest_factor_and_keeps_it(
    schedule, n_steps, share, floor, later
):
    options = {"warmup_steps": int(share * n_steps), "min_lr_ratio": floor}
    factors = [schedule(step, n_steps, **options) for step in range(n_steps)]
    peak = max(options["warmup_steps"] - 1, 0)
    assert factors[peak] == pytest.approx(1)
    assert factors[-1] == pytest.approx(floor, abs=1e-12) or peak == n_steps - 1
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert all(a >= b - 1e-12 for a, b in zip(factors[peak:], factors[peak + 1 :], strict=False))
    assert 0 < factors[0] <= 1
    assert schedule(n_steps + later, n_steps, **options) == pytest.approx(floor, abs=1e-12)


def test_the_cosine_of_a_fit_equals_torchs_and_keeps_its_end():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12, eta_min=0.05)
    config = FitConfig(n_steps=20, lr=1.0, schedule="cosine", decay_steps=13, min_lr_ratio=0.05)
    for step in range(13):
        assert config.factor(step) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert [config.factor(step) for step in range(13, 20)] == pytest.approx([0.05] * 7)


MODEL, OTHER = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
SGD = torch.optim.SGD(MODEL.parameters(), lr=0.1)


def made(**changes):
    return FitConfig(**dict(n_steps=7, lr=0.1) | changes)


test_what_is_impossible_or_excludes_another_setting_is_refused = refuses(
    (lambda: made(lr=None), "lr must be given"),
    (lambda: made(optimizer=SGD), "lr must be left out: SGD brings its own"),
    (lambda: made(optimizer=SGD, lr=None, weight_decay=0.1), "decay must be left out: SGD"),
    (lambda: made(optimizer="sgd", betas=(0.9, 0.99)), "betas do not belong to sgd"),
    (lambda: made(betas=(0.9, 1.0)), "each of the betas must be at least 0 and below 1"),
    (lambda: made(betas=(0.9,)), "betas must be two"),
    (lambda: made(betas=(0.9, "x")), "each of the betas must be a number"),
    (lambda: made(momentum=0.9), "momentum does not belong to adamw"),
    (lambda: made(schedule=len, warmup_steps=3), "belong to a named schedule"),
    (lambda: made(min_lr_ratio=0.1), "min_lr_ratio belongs to linear and cosine"),
    (lambda: made(decay_steps=5), "decay_steps belong to linear and cosine"),
    (lambda: made(warmup_steps=8), "warmup_steps must be .* at most 7, got 8"),
    (lambda: made(optimizer=SGD, lr=None).build(OTHER), "holds parameters that are not"),
    error=(ValueError, TypeError),
)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [("adamw", {}), ("adam", {"betas": (0.8, 0.97)}), ("sgd", {"momentum": 0.7}),
     (torch.optim.RMSprop, {})],
)  # fmt: skip
def test_weight_decay_is_for_matrices_only_and_frozen_parameters_stay_out(optimizer, options):
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.LayerNorm(3),
                                torch.nn.Linear(3, 7), torch.nn.Linear(7, 2))  # fmt: skip
    model[3].requires_grad_(False)
    config = made(weight_decay=0.3, optimizer=optimizer, **options)
    matrices, vectors = config.build(model).param_groups
    assert [p.shape for p in matrices["params"]] == [(5, 3), (7, 3)]
    assert [p.shape for p in vectors["params"]] == [(3,), (3,), (7,)]
    for group, decay in ((matrices, 0.3), (vectors, 0.0)):
        assert (group["weight_decay"], group["lr"]) == (decay, 0.1)
        assert {name: group[name] for name in options} == options


def test_half_precision_is_chosen_where_the_device_has_it(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    auto, bf16, off = (made(precision=x) for x in ("auto", "bf16", "off"))
    for device in (cpu, torch.device("mps")):
        assert [x.uses_bf16(device) for x in (auto, bf16, off)] == [False, True, False]
    for has_it in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has_it=has_it, **_: has_it)
        assert auto.uses_bf16(cuda) == has_it
        assert not off.uses_bf16(cuda)
    with pytest.raises(ValueError, match="precision is 'bf16', and cuda has no bfloat16"):
        bf16.uses_bf16(cuda)


class Scaled:
    def __init__(self, factor):  # an object without a repr of its own
        self.factor = factor


def test_settings_read_the_same_in_every_process():
    """No address in memory may be part of them: a resumed fit compares them."""
    values = [
        constant, lambda step: 1.0, functools.partial(torch.optim.SGD, momentum=0.9), SGD,
        (0.9, 0.99), torch.optim.RMSprop, per_target(constant), Scaled(2), Scaled(3),
    ]  # fmt: skip
    texts = [to_jsonable(value) for value in values]
    assert not [text for text in texts if "0x" in text]
    assert len(set(texts)) == len(texts)
    assert to_jsonable(Scaled(2)) == texts[-2]
    assert [to_jsonable(x) for x in (None, 3, 0.5, "sgd", True)] == [None, 3, 0.5, "sgd", True]
