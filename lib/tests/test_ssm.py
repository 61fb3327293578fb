"""Selective state spaces against scipy, the library `transformers`, loops and closed forms."""

import numpy as np
import pytest
import torch
from comparing import close, randomised, refuses, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import cont2discrete
from torch import nn
from torch.testing import assert_close
from unrolled.models.ssm import RULES, SCANS, Mamba, discretise, parallel_scan, scan

B, T, D, INNER, N, RANK, WIDTH = 2, 11, 5, 7, 3, 2, 4
DTYPE = torch.float64
both_scans = pytest.mark.parametrize("kind", SCANS)


def mamba(**changes) -> Mamba:
    sizes = {"d_inner": INNER, "d_state": N, "step_rank": RANK, "conv_width": WIDTH}
    return randomised(Mamba(D, **sizes | changes))


def test_the_zero_order_hold_is_scipys():
    step, decay = 0.3 * torch.rand(B, T, INNER) + 0.1, -torch.rand(INNER, N) - 0.2
    write = torch.randn(B, T, N)
    keep, add = discretise(step, decay, write, rule="zero-order hold")
    for b, t, f in [(0, 0, 0), (1, 4, 6), (0, 10, 3)]:
        A, column = np.diag(decay[f].numpy()), write[b, t, :, None].numpy()
        system = A, column, np.eye(N), np.zeros((N, 1))
        expected = cont2discrete(system, float(step[b, t, f]), method="zoh")
        close(keep[b, t, f], torch.from_numpy(np.diag(expected[0]).copy()))
        close(add[b, t, f], torch.from_numpy(expected[1][:, 0]))
    ours, held = (discretise(1e-4 * step, decay, write, rule=r)[1] for r in RULES)
    assert ((ours - held) / held).abs().max() < 1e-4  # Euler's rule agrees for short steps


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 20), begins=st.booleans(), seed=st.integers(0, 99))
def test_both_scans_and_their_gradients_are_one(length, begins, seed):
    torch.manual_seed(seed)
    keep, add, state = torch.rand(2, length, 3), torch.randn(2, length, 3), torch.randn(2, 3)
    given = [x.requires_grad_() for x in (keep, add, state)[: 2 + begins]]
    loop, parallel = scan(*given), parallel_scan(*given)
    close(parallel, loop)
    got, expected = (
        torch.autograd.grad(h.pow(3).sum(), given, materialize_grads=True, allow_unused=True)
        for h in (loop, parallel)
    )
    assert_close(got, expected)


def test_the_parallel_scan_takes_a_logarithm_of_rounds(monkeypatch):
    cat, calls = torch.cat, []
    monkeypatch.setattr(torch, "cat", lambda *args: calls.append(1) or cat(*args))
    parallel_scan(torch.rand(1, 64), torch.rand(1, 64))
    assert len(calls) == 2 * 6  # two tensors in each of log₂ 64 rounds


@both_scans
@pytest.mark.usefixtures("exact_floats")
def test_outputs_and_gradients_are_those_of_transformers(transformers, kind, device):
    from transformers.models.mamba.modeling_mamba import MambaMixer

    config = transformers.MambaConfig(
        hidden_size=D, state_size=N, time_step_rank=RANK, conv_kernel=WIDTH, num_hidden_layers=1
    )
    config.intermediate_size = INNER
    ours, theirs = mamba(scan=kind), MambaMixer(config, layer_idx=0).double()
    state, names = ours.state_dict(), {"conv": "conv1d", "step_proj": "dt_proj"}
    state["A_log"], state["D"] = state.pop("log_decay"), state.pop("skip")
    for name in list(state):
        first, dot, rest = name.partition(".")
        state[names.get(first, first) + dot + rest] = state.pop(name)
    theirs.load_state_dict(state)
    ours, theirs = ours.to(device), theirs.to(device)
    x = torch.randn(B, T, D).to(device).requires_grad_()
    close(with_gradients(lambda x: ours(x)[0], x), with_gradients(lambda x: theirs(x), x), 1e-11)
    (ours(x)[0].square().sum() + theirs(x).square().sum()).backward()
    got = ours.log_decay, ours.skip, ours.step_proj.bias, ours.x_proj.weight, ours.conv.weight
    mixer = theirs.x_proj.weight, theirs.conv1d.weight
    expected = theirs.A_log, theirs.D, theirs.dt_proj.bias, *mixer
    close([p.grad for p in got], [p.grad for p in expected], 1e-10)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("cuts", [[1], [4], [*range(1, T)]])
def test_a_text_in_pieces_gives_what_it_gives_at_once(cuts, width):
    layer, x, state, pieces = mamba(conv_width=width), torch.randn(B, T, D), None, []
    for piece in x.tensor_split(cuts, 1):
        output, state = layer(piece, state)
        pieces.append(output)
        assert [s.shape for s in state] == [(B, INNER, width - 1), (B, INNER, N)]
    outputs, end = layer(x)
    close(torch.cat(pieces, 1), outputs)
    close(state, end)


def test_it_begins_as_the_papers_code_does():
    layer = Mamba(48)
    steps = nn.functional.softplus(layer.step_proj.bias)
    assert (layer.d_inner, layer.d_state, layer.step_rank) == (96, 16, 3)
    assert 1e-3 <= steps.min() < 3e-3
    assert 3e-2 < steps.max() <= 0.1 + 1e-12
    close(layer.log_decay[5].exp(), torch.arange(1.0, 17))
    assert (layer.skip == 1).all()


test_what_does_not_fit_is_refused_with_the_numbers = refuses(
    (lambda: scan(torch.ones(1, 3), torch.ones(1, 4)), r"got \(1, 3\) and \(1, 4\)"),
    (lambda: parallel_scan(torch.ones(1, 0), torch.ones(1, 0)), "T ≥ 1"),
    (lambda: scan(torch.ones(2, 3), torch.ones(2, 3), torch.ones(3)),
     r"the state must be \(2,\), got \(3,\)"),
    (lambda: mamba()(torch.ones(2, 3)), r"expected x \(B, T, 5\), got \(2, 3\)"),
)  # fmt: skip
