"""Selective state spaces against scipy, the library `transformers`, loops and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import cont2discrete
from torch import nn
from torch.testing import assert_close
from unrolled.models.ssm import SCANS, Mamba, SelectiveState, discretise, parallel_scan, scan

B, T, D, INNER, N, RANK, WIDTH = 2, 11, 5, 7, 3, 2, 4
DTYPE = torch.float64
both_scans = pytest.mark.parametrize("kind", SCANS)


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def mamba(**changes) -> Mamba:
    sizes = {"d_inner": INNER, "d_state": N, "step_rank": RANK, "conv_width": WIDTH}
    layer = Mamba(D, **sizes | changes)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def parts(step=0.3):
    """Steps, decays and writes of an input."""
    return step * torch.rand(B, T, INNER) + 0.1, -torch.rand(INNER, N) - 0.2, torch.randn(B, T, N)


# --- discretisation ------------------------------------------------------------------------------


def test_the_zero_order_hold_is_scipys():
    step, decay, write = parts()
    keep, add = discretise(step, decay, write, rule="zero-order hold")
    for b, t, f in [(0, 0, 0), (1, 4, 6), (0, 10, 3)]:
        system = (
            np.diag(decay[f].numpy()),
            write[b, t, :, None].numpy(),
            np.eye(N),
            np.zeros((N, 1)),
        )
        expected = cont2discrete(system, float(step[b, t, f]), method="zoh")
        close(keep[b, t, f], torch.from_numpy(np.diag(expected[0]).copy()))
        close(add[b, t, f], torch.from_numpy(expected[1][:, 0]))


def test_eulers_rule_by_hand():
    """step 1.6, decay −1, write 3: keep e^−1.6, add 4.8; the hold's is 3 (1 − e^−1.6) = 2.394."""
    given = torch.full((1, 1, 1), 1.6), torch.full((1, 1), -1.0), torch.full((1, 1, 1), 3.0)
    keep, add = discretise(*given)
    close(keep.item(), math.exp(-1.6))
    close(add.item(), 4.8)
    held = discretise(*given, rule="zero-order hold")[1].item()
    close(held, 3 * (1 - math.exp(-1.6)))
    assert add.item() / held == pytest.approx(2.0, abs=0.01)


def test_the_two_rules_agree_for_short_steps():
    step, decay, write = parts()
    for scale, error in ((1e-2, 1e-2), (1e-4, 1e-4)):
        ours, held = (discretise(scale * step, decay, write, rule=r)[1] for r in
                      ("euler", "zero-order hold"))  # fmt: skip
        assert ((ours - held) / held).abs().max() < error


# --- scans ---------------------------------------------------------------------------------------


@both_scans
def test_a_scan_by_hand(kind):
    """Keep a half and add 1, 2, 3, 4 from 2 on: 2, 3, 4.5, 6.25."""
    keep, add = torch.full((1, 4), 0.5), torch.tensor([[1.0, 2, 3, 4]])
    close(SCANS[kind](keep, add, torch.tensor([2.0])), torch.tensor([[2.0, 3, 4.5, 6.25]]), 0)


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 20), begins=st.booleans(), seed=st.integers(0, 99))
def test_both_scans_and_their_gradients_are_one(length, begins, seed):
    torch.manual_seed(seed)
    keep, add = torch.rand(2, length, 3, requires_grad=True), torch.randn(2, length, 3)
    add, state = add.requires_grad_(), torch.randn(2, 3, requires_grad=True)
    inputs, results = [keep, add, state], []
    for f in (scan, parallel_scan):
        h = f(*inputs if begins else inputs[:2])
        weights = torch.linspace(-1, 2, h.numel()).view_as(h)
        grads = torch.autograd.grad((weights * h).sum(), inputs, materialize_grads=True)
        results.append((h, *grads))
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


@both_scans
def test_with_equal_steps_a_scan_is_a_geometric_sum(kind):
    keep, add = torch.full((1, T), 0.9), torch.ones(1, T)
    close(SCANS[kind](keep, add)[0], (1 - 0.9 ** torch.arange(1.0, T + 1)) / 0.1)


@both_scans
def test_a_scan_that_keeps_everything_is_a_running_sum(kind):
    x = torch.randn(B, T, N)
    close(SCANS[kind](torch.ones_like(x), x), x.cumsum(1))


def test_the_parallel_scan_takes_a_logarithm_of_rounds(monkeypatch):
    cat, calls = torch.cat, []
    monkeypatch.setattr(torch, "cat", lambda *args: calls.append(1) or cat(*args))
    parallel_scan(torch.rand(1, 64), torch.rand(1, 64))
    assert len(calls) == 2 * 6  # two tensors in each of log₂ 64 rounds


# --- the layer -----------------------------------------------------------------------------------


def load_transformers(theirs, ours: Mamba) -> None:
    """Copy our random weights into a MambaMixer of transformers."""
    names = {"conv.": "conv1d.", "step_proj.": "dt_proj.", "log_decay": "A_log", "skip": "D"}
    state = {}
    for name, tensor in ours.state_dict().items():
        old = next((old for old in names if name.startswith(old)), "")
        state[names.get(old, "") + name.removeprefix(old)] = tensor
    theirs.load_state_dict(state)


def transformers_mixer(transformers):
    from transformers.models.mamba.modeling_mamba import MambaMixer

    config = transformers.MambaConfig(
        hidden_size=D, intermediate_size=INNER, state_size=N, time_step_rank=RANK,
        conv_kernel=WIDTH, num_hidden_layers=1,
    )  # fmt: skip
    config.intermediate_size = INNER
    return MambaMixer(config, layer_idx=0).double()


@pytest.fixture
def exact_floats(monkeypatch):
    """Theirs goes to single precision in places, on purpose; here it keeps its input's."""
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x)


@both_scans
@pytest.mark.usefixtures("exact_floats")
def test_outputs_and_gradients_are_those_of_transformers(transformers, kind, device):
    ours, theirs = mamba(scan=kind).to(device), transformers_mixer(transformers).to(device)
    load_transformers(theirs, ours)
    x, results = torch.randn(B, T, D).to(device).requires_grad_(), []
    for output in (ours(x)[0], theirs(x)):
        weights = torch.linspace(-1, 2, output.numel(), device=device).view_as(output)
        results.append((output, *torch.autograd.grad((weights * output).sum(), x)))
    for got, expected in zip(*results, strict=True):
        close(got, expected, 1e-11)


def test_the_layer_is_its_formula_in_loops():
    layer, x = mamba(), torch.randn(1, T, D)
    u, z = (x[0] @ layer.in_proj.weight.T).split(INNER, -1)
    padded = torch.cat([torch.zeros(WIDTH - 1, INNER), u])
    expected = []
    h = torch.zeros(INNER, N)
    for t in range(T):
        v = (padded[t : t + WIDTH] * layer.conv.weight[:, 0].T).sum(0) + layer.conv.bias
        v = v * v.sigmoid()
        step, write, read = layer.x_proj(v).split([RANK, N, N])
        step = (1 + layer.step_proj(step).exp()).log()[:, None]
        h = (-step * layer.log_decay.exp()).exp() * h + step * write * v[:, None]
        y = h @ read + layer.skip * v
        expected.append(layer.out_proj(y * z[t] * z[t].sigmoid()))
    close(layer(x)[0][0], torch.stack(expected))


@settings(max_examples=10, deadline=None)
@given(cut=st.integers(1, T - 1), width=st.integers(1, 5))
def test_a_text_in_two_pieces_gives_what_it_gives_at_once(cut, width):
    layer, x = mamba(conv_width=width), torch.randn(B, T, D)
    outputs, state = layer(x)
    first, middle = layer(x[:, :cut])
    second, end = layer(x[:, cut:], middle)
    close(torch.cat([first, second], 1), outputs)
    for got, expected in zip(end, state, strict=True):
        close(got, expected)


def test_position_by_position_the_state_keeps_its_size():
    layer, x, state, outputs = mamba(), torch.randn(B, T, D), None, []
    for t in range(T):
        output, state = layer(x[:, t : t + 1], state)
        outputs.append(output)
        assert [s.shape for s in state] == [(B, INNER, WIDTH - 1), (B, INNER, N)]
    close(torch.cat(outputs, 1), layer(x)[0])


def test_no_output_sees_a_later_input():
    layer, x = mamba(), torch.randn(1, T, D, requires_grad=True)
    for t in (0, 4, T - 2):
        moved = torch.autograd.grad(layer(x)[0][0, t].square().sum(), x)[0]
        assert not moved[0, t + 1 :].any()
        assert (moved[0, : t + 1].abs().amax(-1) > 0).all()


def test_a_step_near_zero_keeps_the_state_and_a_long_one_forgets_it():
    layer, x = mamba(), torch.randn(B, 1, D)
    _, before = layer(torch.randn(B, T, D))
    nn.init.zeros_(layer.step_proj.weight)
    nn.init.constant_(layer.step_proj.bias, -40.0)
    close(layer(x, before)[1].hidden, before.hidden)
    nn.init.constant_(layer.step_proj.bias, 800.0)
    zeros = SelectiveState(before.recent, torch.zeros_like(before.hidden))
    close(layer(x, before)[1].hidden, layer(x, zeros)[1].hidden)


def test_it_begins_as_the_papers_code_does():
    layer = Mamba(48)
    steps = nn.functional.softplus(layer.step_proj.bias)
    assert (layer.d_inner, layer.d_state, layer.step_rank) == (96, 16, 3)
    assert 1e-3 <= steps.min() < 3e-3
    assert 3e-2 < steps.max() <= 0.1 + 1e-12
    close(layer.log_decay[5].exp(), torch.arange(1.0, 17))
    assert (layer.skip == 1).all()


def test_gradients_are_those_of_finite_differences():
    layer, x = mamba(), torch.randn(1, 4, D, requires_grad=True)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    state = tuple(torch.randn_like(s).requires_grad_() for s in layer.new_state(x))

    def f(x, recent, hidden, *parameters):
        named = dict(zip(names, parameters, strict=True))
        y, end = torch.func.functional_call(layer, named, (x, SelectiveState(recent, hidden)))
        return y, *end

    assert torch.autograd.gradcheck(f, (x, *state, *parameters), fast_mode=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: discretise(*parts(), rule="bilinear"), "one of euler, zero-order hold, got 'bil"),
        (lambda: scan(torch.ones(1, 3), torch.ones(1, 4)), r"got \(1, 3\) and \(1, 4\)"),
        (lambda: parallel_scan(torch.ones(1, 0), torch.ones(1, 0)), "T ≥ 1"),
        (lambda: scan(torch.ones(2, 3), torch.ones(2, 3), torch.ones(3)),
         r"the state must be \(2,\), got \(3,\)"),
        (lambda: mamba(scan="fast"), "scan must be one of loop, parallel, got 'fast'"),
        (lambda: mamba(d_state=0), "d_state must be at least 1, got 0"),
        (lambda: mamba()(torch.ones(2, 3)), r"expected x \(B, T, 5\), got \(2, 3\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_numbers(make, message):
    with pytest.raises(ValueError, match=message):
        make()
