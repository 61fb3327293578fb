"""Schedules by hand and over random lengths; the settings of a fit and what they refuse."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.training.losses import per_target
from unrolled.training.schedule import SCHEDULES, constant, cosine, linear
from unrolled.training.settings import FitConfig, to_jsonable


def test_the_schedules_are_those_worked_by_hand():
    """Nine steps, three of them warm-up: the peak is step 2, six more lead to the end."""
    rise = [1 / 3, 2 / 3, 1]
    assert [constant(s, 9, warmup_steps=3) for s in range(9)] == pytest.approx(rise + [1] * 6)
    down = [1 - 0.8 * k / 6 for k in range(1, 7)]
    assert [linear(s, 9, warmup_steps=3, min_lr_ratio=0.2) for s in range(9)] == pytest.approx(
        rise + down
    )
    root = math.sqrt(3) / 2  # cos 30°
    wave = [(1 + c) / 2 for c in (root, 0.5, 0, -0.5, -root, -1)]
    assert [cosine(s, 9, warmup_steps=3) for s in range(9)] == pytest.approx(rise + wave, abs=1e-15)
    assert cosine(5, 9, warmup_steps=3, min_lr_ratio=0.2) == pytest.approx(
        0.6
    )  # half-way between 1 and 0.2


@pytest.mark.parametrize("schedule", [linear, cosine])
@given(n_steps=st.integers(2, 60), share=st.floats(0, 0.9), floor=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_schedule_rises_to_one_and_falls_to_its_smallest_factor(schedule, n_steps, share, floor):
    warmup_steps = int(share * n_steps)
    factors = [
        schedule(s, n_steps, warmup_steps=warmup_steps, min_lr_ratio=floor) for s in range(n_steps)
    ]
    peak = max(warmup_steps - 1, 0)
    assert factors[peak] == pytest.approx(1)
    assert factors[-1] == pytest.approx(floor, abs=1e-12) or peak == n_steps - 1
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert all(a >= b - 1e-12 for a, b in zip(factors[peak:], factors[peak + 1 :], strict=False))
    assert 0 < factors[0] <= 1


def test_the_cosine_equals_torch_without_a_warmup():
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12, eta_min=0.05)
    for step in range(13):
        assert cosine(step, 13, min_lr_ratio=0.05) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_one_step_is_done_at_the_full_rate(name):
    assert SCHEDULES[name](0, 1) == 1
    assert SCHEDULES[name](0, 1, warmup_steps=1) == 1


@pytest.mark.parametrize("schedule", SCHEDULES.values())
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((-1, 7), {}, "step must be at least 0, got -1"),
        ((0, 0), {}, "n_steps must be at least 1, got 0"),
        ((0, 7), {"warmup_steps": 8}, "warmup_steps must be at least 0 and at most 7, got 8"),
        ((0, 7), {"warmup_steps": -1}, "got -1"),
    ],
)
def test_impossible_steps_and_warmups_are_refused(schedule, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        schedule(*arguments, **options)


def test_a_smallest_factor_outside_zero_to_one_is_refused():
    for schedule in (linear, cosine):
        with pytest.raises(ValueError, match=r"min_lr_ratio must be .* at most 1, got 1\.5"):
            schedule(0, 7, min_lr_ratio=1.5)


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_every_step_after_the_cycle_keeps_its_last_factor(schedule):
    for step in (6, 7, 1000):
        assert schedule(step, 7, warmup_steps=2, min_lr_ratio=0.3) == pytest.approx(0.3)
    config = FitConfig(n_steps=20, lr=1.0, schedule="cosine", decay_steps=7, min_lr_ratio=0.1)
    factors = [config.factor(step) for step in range(20)]
    assert factors[:7] == [cosine(step, 7, min_lr_ratio=0.1) for step in range(7)]
    assert factors[7:] == [pytest.approx(0.1)] * 13


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(optimizer="adan"), r"optimizer must be one of adamw, adam, sgd, got 'adan'"),
        (dict(n_steps=0), "n_steps must be at least 1"),
        (dict(grad_accum_steps=0), "grad_accum_steps must be at least 1"),
        (dict(eval_every=0), "eval_every must be at least 1"),
        (dict(lr=None), "lr must be given"),
        (dict(lr=-0.1), "lr must be above 0, got -0.1"),
        (dict(lr=float("nan")), "lr must be finite, got nan"),
        (dict(weight_decay=-0.1), "weight_decay must be at least 0"),
        (dict(optimizer="sgd", betas=(0.9, 0.99)), "betas do not belong to sgd"),
        (dict(momentum=0.9), "momentum does not belong to adamw"),
        (dict(grad_clip=0.0), "grad_clip must be above 0, got 0.0"),
        (dict(betas=(0.9, 1.0)), "each of the betas must be at least 0 and below 1"),
        (dict(betas=(0.9,)), "betas must be two"),
        (dict(precision="fp16"), "precision must be one of auto, off, bf16, got 'fp16'"),
        (dict(schedule="step"), "schedule must be one of.*'step'"),
        (dict(schedule=lambda step: 1.0, warmup_steps=3), "belong to a named schedule"),
        (dict(min_lr_ratio=0.1), "min_lr_ratio belongs to linear and cosine"),
        (dict(decay_steps=5), "decay_steps belong to linear and cosine"),
        (dict(warmup_steps=8), "warmup_steps must be .* at most 7, got 8"),
        (dict(schedule="cosine", min_lr_ratio=2.0), "min_lr_ratio must be .* at most 1"),
        (dict(optimizer=3), "int is no optimizer"),
        (dict(schedule=3), "a schedule is a name or function"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FitConfig(**dict(n_steps=7, lr=0.1) | options)


@pytest.mark.parametrize(
    "options",
    [dict(n_steps=5.5), dict(n_steps=True), dict(lr="0.1"), dict(betas=0.9), dict(eval_every=2.0),
     dict(betas=(0.9, "x")), dict(grad_clip="1"), dict(seed=0.5), dict(warmup_steps=1.5),
     dict(momentum=None), dict(eval_every=None), dict(grad_accum_steps=None)],
)  # fmt: skip
def test_settings_of_another_type_are_refused(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        FitConfig(**dict(n_steps=7, lr=0.1) | options)


def test_an_optimizer_brings_its_own_rates_and_holds_the_models_parameters():
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = FitConfig(n_steps=7, optimizer=optimizer)
    assert config.build(model) is optimizer
    with pytest.raises(ValueError, match="holds parameters that are not the model's"):
        config.build(other)
    with pytest.raises(ValueError, match="lr must be left out: SGD brings its own"):
        FitConfig(n_steps=7, optimizer=optimizer, lr=0.1)
    with pytest.raises(ValueError, match="weight_decay must be left out: SGD"):
        FitConfig(n_steps=7, optimizer=optimizer, weight_decay=0.1)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", torch.optim.RMSprop])
def test_weight_decay_is_for_matrices_only_and_frozen_parameters_stay_out(optimizer):
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.LayerNorm(3),
                                torch.nn.Linear(3, 7), torch.nn.Linear(7, 2))  # fmt: skip
    model[3].requires_grad_(False)
    config = FitConfig(n_steps=7, lr=0.1, weight_decay=0.3, optimizer=optimizer)
    matrices, vectors = config.build(model).param_groups
    assert [p.shape for p in matrices["params"]] == [(5, 3), (7, 3)]
    assert [p.shape for p in vectors["params"]] == [(3,), (3,), (7,)]
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert matrices["lr"] == vectors["lr"] == 0.1


def test_betas_and_momentum_reach_the_optimizer():
    model = torch.nn.Linear(3, 2)
    adam = FitConfig(n_steps=7, lr=0.1, optimizer="adam", betas=(0.8, 0.97)).build(model)
    sgd = FitConfig(n_steps=7, lr=0.1, optimizer="sgd", momentum=0.7).build(model)
    assert adam.param_groups[0]["betas"] == (0.8, 0.97)
    assert sgd.param_groups[0]["momentum"] == 0.7


def test_half_precision_is_chosen_where_the_device_has_it(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    auto, bf16, off = (
        FitConfig(n_steps=7, lr=0.1, precision=choice) for choice in ("auto", "bf16", "off")
    )
    assert [choice.uses_bf16(cpu) for choice in (auto, bf16, off)] == [False, True, False]
    for has_it in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has_it=has_it, **_: has_it)
        assert auto.uses_bf16(cuda) == has_it
        assert not off.uses_bf16(cuda)
    with pytest.raises(ValueError, match="precision is 'bf16', and cuda has no bfloat16"):
        bf16.uses_bf16(cuda)


def test_settings_read_the_same_in_every_process():
    """No address in memory may be part of them: a resumed fit compares them."""
    parameter = torch.nn.Parameter(torch.zeros(2))
    values = [
        constant, lambda step: 1.0, functools.partial(torch.optim.SGD, momentum=0.9),
        torch.optim.SGD([parameter], lr=0.1), (0.9, 0.99), torch.optim.RMSprop,
        per_target(constant),
    ]  # fmt: skip
    texts = [to_jsonable(value) for value in values]
    assert not [text for text in texts if "0x" in text]
    assert len(set(texts)) == len(texts)
    assert [to_jsonable(x) for x in (None, 3, 0.5, "sgd", True)] == [None, 3, 0.5, "sgd", True]
