"""Schedules by hand and over random lengths; the settings of a fit and what they refuse."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.training.schedule import SCHEDULES, constant, cosine, linear
from unrolled.training.settings import FitConfig, plain


def test_the_schedules_are_those_worked_by_hand():
    """Nine updates, three of them warm-up: the peak is update 2, six more lead to the end."""
    rise = [1 / 3, 2 / 3, 1]
    assert [constant(s, 9, warmup=3) for s in range(9)] == pytest.approx(rise + [1] * 6)
    down = [1 - 0.8 * k / 6 for k in range(1, 7)]
    assert [linear(s, 9, warmup=3, final=0.2) for s in range(9)] == pytest.approx(rise + down)
    root = math.sqrt(3) / 2  # cos 30°
    wave = [(1 + c) / 2 for c in (root, 0.5, 0, -0.5, -root, -1)]
    assert [cosine(s, 9, warmup=3) for s in range(9)] == pytest.approx(rise + wave, abs=1e-15)
    assert cosine(5, 9, warmup=3, final=0.2) == pytest.approx(0.6)  # half-way between 1 and 0.2


@pytest.mark.parametrize("schedule", [linear, cosine])
@given(n_steps=st.integers(2, 60), share=st.floats(0, 0.9), final=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_schedule_rises_to_one_and_falls_to_its_final_factor(schedule, n_steps, share, final):
    warmup = int(share * n_steps)
    factors = [schedule(s, n_steps, warmup=warmup, final=final) for s in range(n_steps)]
    peak = max(warmup - 1, 0)
    assert factors[peak] == pytest.approx(1)
    assert factors[-1] == pytest.approx(final, abs=1e-12) or peak == n_steps - 1
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert all(a >= b - 1e-12 for a, b in zip(factors[peak:], factors[peak + 1 :], strict=False))
    assert 0 < factors[0] <= 1


def test_the_cosine_equals_torch_without_a_warmup():
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12, eta_min=0.05)
    for step in range(13):
        assert cosine(step, 13, final=0.05) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_one_update_is_done_at_the_full_rate(name):
    assert SCHEDULES[name](0, 1) == 1
    assert SCHEDULES[name](0, 1, warmup=1) == 1


@pytest.mark.parametrize("schedule", SCHEDULES.values())
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((7, 7), {}, r"step must lie in 0 … n_steps − 1 = 6, got 7"),
        ((-1, 7), {}, "got -1"),
        ((0, 7), {"warmup": 8}, "warmup must lie in 0 … n_steps = 7, got 8"),
        ((0, 7), {"warmup": -1}, "got -1"),
    ],
)
def test_impossible_steps_and_warmups_are_refused(schedule, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        schedule(*arguments, **options)


def test_a_final_factor_outside_zero_to_one_is_refused():
    for schedule in (linear, cosine):
        with pytest.raises(ValueError, match=r"final must lie in 0 … 1, got 1.5"):
            schedule(0, 7, final=1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(optimizer="adan"), r"optimizer must be one of \['adamw', 'adam', 'sgd'\].*'adan'"),
        (dict(n_steps=0), "n_steps must be at least 1"),
        (dict(accumulate=0), "accumulate must be at least 1"),
        (dict(eval_every=0), "eval_every must be at least 1"),
        (dict(lr=None), "lr must be given, above 0"),
        (dict(lr=float("nan")), "lr must be given, above 0"),
        (dict(weight_decay=-0.1), "weight_decay must be at least 0"),
        (dict(optimizer="sgd", betas=(0.9, 0.99)), "betas do not belong to sgd"),
        (dict(momentum=0.9), "momentum does not belong to adamw"),
        (dict(clip=0.0), "clip must be above 0, or None"),
        (dict(precision="fp16"), "precision must be auto, off or bf16.*'fp16'"),
        (dict(schedule="step"), "schedule must be one of.*'step'"),
        (dict(schedule=lambda step: 1.0, warmup=3), "warmup belongs to a schedule by name"),
        (dict(final_factor=0.1), "final_factor belongs to the schedules linear and cosine"),
        (dict(warmup=8), "warmup must lie in 0 … n_steps = 7, got 8"),
        (dict(schedule="cosine", final_factor=2.0), "final must lie in 0 … 1"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
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
    auto, bf16 = (FitConfig(n_steps=7, lr=0.1, precision=p) for p in ("auto", "bf16"))
    assert (auto.uses_bf16(cpu), bf16.uses_bf16(cpu)) == (False, True)
    for has_it in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has_it=has_it, **_: has_it)
        assert auto.uses_bf16(cuda) == has_it
    with pytest.raises(ValueError, match="precision is 'bf16', and cuda has no bfloat16"):
        bf16.uses_bf16(cuda)


def test_settings_read_the_same_in_every_process():
    """No address in memory may be part of them: a resumed fit compares them."""
    parameter = torch.nn.Parameter(torch.zeros(2))
    values = [
        constant, lambda step: 1.0, functools.partial(torch.optim.SGD, momentum=0.9),
        torch.optim.SGD([parameter], lr=0.1), (0.9, 0.99), torch.optim.RMSprop,
    ]  # fmt: skip
    texts = [plain(value) for value in values]
    assert not [text for text in texts if "0x" in text]
    assert len(set(texts)) == len(texts)
    assert [plain(x) for x in (None, 3, 0.5, "sgd", True)] == [None, 3, 0.5, "sgd", True]
