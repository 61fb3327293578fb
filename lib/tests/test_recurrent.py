"""Recurrent cells and stacks against torch, numpy loops, finite differences and cases by hand."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.models.recurrent import Recurrent, detach, keras_gru_weights
from unrolled.models.recurrent_cells import (
    Cell,
    ElmanCell,
    GRUCell,
    LSTMCell,
    MinimalGatedCell,
    hidden,
)

D, H, B, T = 3, 5, 7, 11

# name: (cell class, its options, what Recurrent calls it, torch's module and cell, their options)
KINDS = {
    "elman": (ElmanCell, {}, "elman", nn.RNN, nn.RNNCell, {}),
    "elman relu": (
        ElmanCell,
        {"nonlinearity": "relu"},
        "elman",
        nn.RNN,
        nn.RNNCell,
        {"nonlinearity": "relu"},
    ),
    "minimal": (MinimalGatedCell, {}, "minimal", None, None, {}),
    "gru": (GRUCell, {}, "gru", nn.GRU, nn.GRUCell, {}),
    "gru reset before": (GRUCell, {"reset_after": False}, "gru", None, None, {}),
    "lstm": (LSTMCell, {}, "lstm", nn.LSTM, nn.LSTMCell, {}),
}
FUSED = [kind for kind, entry in KINDS.items() if entry[3]]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_fused_kind = pytest.mark.parametrize("kind", FUSED)
both = pytest.mark.parametrize("implementation", ["reference", "fused"])
DTYPE = torch.float64


def new_cell(kind, input_size=D, hidden_size=H) -> Cell:
    return KINDS[kind][0](input_size, hidden_size, **KINDS[kind][1])


def new_stack(kind, *args, implementation="reference", **options) -> Recurrent:
    sizes = args or (D, H)
    name, cell_options = KINDS[kind][2], KINDS[kind][1]
    return Recurrent(*sizes, name, implementation=implementation, **options, **cell_options)


def random_state(cell, *batch):
    state = tuple(torch.randn(*batch, cell.hidden_size) for _ in range(cell.n_states))
    return state if cell.n_states > 1 else state[0]


def tensors(state) -> tuple:
    return state if isinstance(state, tuple) else (state,)


def twin(stack: Recurrent, implementation: str) -> Recurrent:
    other = copy.deepcopy(stack)
    other.implementation = implementation
    return other


def line_per_gate(cell: Cell, x, state):
    """The formulas in the cells' docstrings as they stand: the state after x."""
    rows = torch.arange(len(cell.gates) * cell.hidden_size).reshape(len(cell.gates), -1)
    rows = dict(zip(cell.gates, rows, strict=True))

    def from_x(gate):
        return x @ cell.weight_ih[rows[gate]].T + cell.bias_ih[rows[gate]]

    def from_h(gate, h):
        return h @ cell.weight_hh[rows[gate]].T + cell.bias_hh[rows[gate]]

    h = hidden(state)
    if isinstance(cell, ElmanCell):
        return getattr(torch, cell.nonlinearity)(from_x("h") + from_h("h", h))
    if isinstance(cell, MinimalGatedCell):
        z = torch.sigmoid(from_x("z") + from_h("z", h))
        n = torch.tanh(from_x("n") + from_h("n", h))
        return (1 - z) * n + z * h
    if isinstance(cell, GRUCell):
        r = torch.sigmoid(from_x("r") + from_h("r", h))
        z = torch.sigmoid(from_x("z") + from_h("z", h))
        past = r * from_h("n", h) if cell.reset_after else from_h("n", r * h)
        return (1 - z) * torch.tanh(from_x("n") + past) + z * h
    i = torch.sigmoid(from_x("i") + from_h("i", h))
    f = torch.sigmoid(from_x("f") + from_h("f", h))
    g = torch.tanh(from_x("g") + from_h("g", h))
    o = torch.sigmoid(from_x("o") + from_h("o", h))
    c = f * state[1] + i * g
    return o * torch.tanh(c), c


def mask_of(lengths, n_steps=T, device="cpu"):
    lengths = torch.as_tensor(lengths, device=device)
    return torch.arange(n_steps, device=device) < lengths[:, None]


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


# --- cells ---------------------------------------------------------------------------------------


@every_kind
def test_a_step_is_the_formulas_line_per_gate(kind):
    cell = new_cell(kind)
    x, state = torch.randn(B, D), random_state(cell, B)
    close(cell.step(x, state), line_per_gate(cell, x, state), 1e-14)


@every_fused_kind
def test_a_cell_takes_the_weights_of_torchs_cell_and_equals_it(kind):
    cell = new_cell(kind)
    theirs = KINDS[kind][4](D, H, **KINDS[kind][5])
    cell.load_state_dict(theirs.state_dict())
    x, state = torch.randn(B, D), random_state(cell, B)
    close(cell.step(x, state), theirs(x, state))


@every_kind
def test_gradients_of_a_step_agree_with_finite_differences(kind):
    cell = new_cell(kind, 2, 3)
    x, state = torch.randn(2, 2), random_state(cell, 2)
    names = [name for name, _ in cell.named_parameters()]

    def step(x, *rest):
        state, parameters = rest[: cell.n_states], rest[cell.n_states :]
        state = state if cell.n_states > 1 else state[0]
        module = _Step(cell)
        named = {f"cell.{n}": p for n, p in zip(names, parameters, strict=True)}
        return torch.func.functional_call(module, named, (x, state))

    inputs = [x, *tensors(state), *(p.detach().clone() for p in cell.parameters())]
    assert torch.autograd.gradcheck(step, [a.requires_grad_() for a in inputs])


class _Step(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, state):
        return self.cell.step(x, state)


@every_kind
def test_one_sequence_needs_no_batch_axis_and_many_may_have_two(kind):
    cell = new_cell(kind)
    x, state = torch.randn(2, B, D), random_state(cell, 2, B)
    one = tuple(s[1, 4] for s in tensors(state))
    got = cell.step(x[1, 4], one if cell.n_states > 1 else one[0])
    close(hidden(got), hidden(cell.step(x, state))[1, 4], 1e-14)


def test_minimal_gated_cell_by_hand():
    """D = H = 1, weights and biases such that z = σ(ln 3) = 3/4 and n = tanh(atanh 0.6) = 0.6."""
    cell = MinimalGatedCell(1, 1)
    cell.load_state_dict(
        {
            "weight_ih": torch.tensor([[math.log(3)], [0.0]]),
            "weight_hh": torch.tensor([[0.0], [math.atanh(0.6) / 2]]),
            "bias_ih": torch.zeros(2),
            "bias_hh": torch.zeros(2),
        }
    )
    x, h = torch.ones(1, 1), torch.full((1, 1), 2.0)
    close(cell.gate_values(x, h), {"z": torch.tensor([[0.75]]), "n": torch.tensor([[0.6]])}, 1e-15)
    close(cell.step(x, h), torch.tensor([[0.25 * 0.6 + 0.75 * 2]]), 1e-15)


@pytest.mark.parametrize(
    ("reset_after", "argument"), [(False, 0.5 + 0.25 * 2 * 3 + 0.125), (True, 0.5 + 0.25 * 6.125)]
)
def test_gru_by_hand_resets_before_or_after_the_product(reset_after, argument):
    """r = σ(−ln 3) = 1/4, z = σ(ln 4) = 4/5, h = 2, W_hn = 3, b_hn = 1/8, W_xn x = 1/2."""
    cell = GRUCell(1, 1, reset_after=reset_after)
    cell.load_state_dict(
        {
            "weight_ih": torch.tensor([[-math.log(3)], [math.log(4)], [0.5]]),
            "weight_hh": torch.tensor([[0.0], [0.0], [3.0]]),
            "bias_ih": torch.zeros(3),
            "bias_hh": torch.tensor([0.0, 0.0, 0.125]),
        }
    )
    expected = 0.2 * math.tanh(argument) + 0.8 * 2
    x, h = torch.ones(1, 1), torch.full((1, 1), 2.0)
    close(cell.step(x, h), torch.tensor([[expected]]), 1e-15)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def keras_gru(x, kernel, recurrent_kernel, bias, reset_after):
    """The recurrence of keras.layers.GRU for one sequence (T, D), in numpy: h at each step."""
    width = recurrent_kernel.shape[0]
    b_x, b_h = bias if reset_after else (bias, np.zeros(3 * width))
    z_, r_, h_ = (slice(k * width, (k + 1) * width) for k in range(3))
    h, out = np.zeros(width), []
    for x_t in x:
        xs = x_t @ kernel + b_x
        z = sigmoid(xs[z_] + h @ recurrent_kernel[:, z_] + b_h[z_])
        r = sigmoid(xs[r_] + h @ recurrent_kernel[:, r_] + b_h[r_])
        if reset_after:
            candidate = np.tanh(xs[h_] + r * (h @ recurrent_kernel[:, h_] + b_h[h_]))
        else:
            candidate = np.tanh(xs[h_] + (r * h) @ recurrent_kernel[:, h_])
        h = z * h + (1 - z) * candidate
        out.append(h)
    return np.array(out)


@pytest.mark.parametrize("reset_after", [True, False])
def test_keras_weights_give_keras_outputs(reset_after):
    rng = np.random.default_rng(2)
    kernel, recurrent = rng.normal(size=(D, 3 * H)), rng.normal(size=(H, 3 * H))
    bias = rng.normal(size=(2, 3 * H) if reset_after else 3 * H)
    weights, form = keras_gru_weights(*map(torch.as_tensor, (kernel, recurrent, bias)))
    assert form is reset_after
    stack = Recurrent(D, H, "gru", reset_after=form)
    stack.cells[0].load_state_dict(weights)
    x = rng.normal(size=(T, D))
    outputs, _ = stack(torch.as_tensor(x)[None])
    expected = keras_gru(x, kernel, recurrent, bias, reset_after)
    close(outputs[0].detach(), torch.as_tensor(expected))
    other = keras_gru(x, kernel, recurrent, bias if not reset_after else bias[0], False)
    assert reset_after == (np.abs(expected - other).max() > 1e-3)  # two different functions


@pytest.mark.parametrize(
    ("bias_shape", "expected", "tolerance"),
    [
        ((2, 9), [0.462436854813, 0.383366349133, 0.047649427826], 1e-12),
        # Keras itself keeps only single precision in this form.
        ((9,), [0.434082408524, 0.527339702161, 0.402084170823], 1e-7),
    ],
)
def test_keras_itself_gave_these_numbers(bias_shape, expected, tolerance):
    """h after five steps by keras.layers.GRU, Keras 3.15.1 on torch, from the same arrays."""

    def wave(*shape):
        return torch.arange(1.0, 1 + math.prod(shape)).sin().reshape(shape)

    weights, form = keras_gru_weights(wave(2, 9), wave(3, 9), wave(*bias_shape))
    stack = Recurrent(2, 3, "gru", reset_after=form)
    stack.cells[0].load_state_dict(weights)
    close(stack(wave(1, 5, 2))[0][0, -1].detach(), torch.tensor(expected), tolerance)


@pytest.mark.parametrize("shapes", [((3, 15), (5, 15), (15,)), ((3, 15), (5, 15), (2, 15))])
def test_keras_weights_of_other_shapes_are_refused(shapes):
    good = [torch.zeros(shape) for shape in shapes]
    keras_gru_weights(*good)
    for i, bad in enumerate([(3, 14), (4, 15), (3, 15)]):
        arrays = list(good)
        arrays[i] = torch.zeros(bad)
        with pytest.raises(ValueError, match="expected"):
            keras_gru_weights(*arrays)


def test_the_forget_bias_is_the_sum_of_both_biases_and_touches_no_other_gate():
    torch.manual_seed(5)
    plain = LSTMCell(D, H)
    torch.manual_seed(5)
    cell = LSTMCell(D, H, forget_bias=1.5)
    total, before = cell.bias_ih + cell.bias_hh, plain.bias_ih + plain.bias_hh
    close(total[H : 2 * H], torch.full((H,), 1.5))
    close(total[:H], before[:H])
    close(total[2 * H :], before[2 * H :])
    gates = cell.gate_values(torch.zeros(B, D), cell.initial_state(B))
    close(gates["f"], torch.full((B, H), 1 / (1 + math.exp(-1.5))))


def test_the_gates_shown_are_those_that_make_the_step():
    x = torch.randn(B, D)
    lstm, gru, minimal = (new_cell(kind) for kind in ("lstm", "gru", "minimal"))
    h, c = random_state(lstm, B)
    i, f, g, o = lstm.gate_values(x, (h, c)).values()
    close(lstm.step(x, (h, c))[0], o * torch.tanh(f * c + i * g), 0)
    gates = gru.gate_values(x, h)
    assert tuple(gates) == gru.gates == ("r", "z", "n")
    close(gru.step(x, h), (1 - gates["z"]) * gates["n"] + gates["z"] * h, 0)
    z, n = minimal.gate_values(x, h).values()
    close(minimal.step(x, h), (1 - z) * n + z * h, 0)


# --- stacks --------------------------------------------------------------------------------------


@every_fused_kind
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("n_layers", [1, 3])
@both
def test_a_stack_equals_torchs_module_forward_and_backward(
    kind, bidirectional, n_layers, implementation, device
):
    theirs = KINDS[kind][3](
        D, H, n_layers, batch_first=True, bidirectional=bidirectional, **KINDS[kind][5]
    ).to(device)
    ours = new_stack(
        kind, n_layers=n_layers, bidirectional=bidirectional, implementation=implementation
    ).to(device)
    ours.as_torch().load_state_dict(theirs.state_dict())
    x = torch.randn(B, T, D).to(device).requires_grad_()
    cells = n_layers * (1 + bidirectional)
    state = random_state(ours.cells[0], cells, B)
    state = tuple(s.to(device) for s in state) if isinstance(state, tuple) else state.to(device)
    results = []
    for module in (ours, theirs):
        outputs, end = module(x, state)
        weights = torch.linspace(-1, 2, outputs.numel(), device=device).reshape(outputs.shape)
        loss = (weights * outputs).sum() + sum((s**3).sum() for s in tensors(end))
        parameters = list(module.parameters())
        results.append((outputs, *tensors(end), *torch.autograd.grad(loss, [x, *parameters])))
    assert results[0][0].shape == (B, T, H * (1 + bidirectional))
    for got, expected in zip(*results, strict=True):
        close(got, expected, 1e-12 * max(1, expected.abs().max().item()))


@every_fused_kind
def test_the_same_seed_draws_torchs_weights(kind):
    torch.manual_seed(3)
    ours = new_stack(kind, n_layers=2, bidirectional=True)
    torch.manual_seed(3)
    theirs = KINDS[kind][3](D, H, 2, bidirectional=True, **KINDS[kind][5])
    for got, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(got, expected, 0)


@every_kind
@settings(max_examples=20, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 4),
    n_layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    data=st.data(),
)
def test_fused_reference_and_a_walk_by_hand_agree_at_any_shape(
    kind, sizes, n_layers, bidirectional, data
):
    batch, n_steps, width, hidden_size = sizes
    lengths = data.draw(st.lists(st.integers(1, n_steps), min_size=batch, max_size=batch))
    stack = new_stack(
        kind, width, hidden_size, n_layers=n_layers, bidirectional=bidirectional
    ).requires_grad_(False)
    x = torch.randn(batch, n_steps, width)
    state = random_state(stack.cells[0], len(stack.cells), batch)
    mask = mask_of(lengths, n_steps)
    outputs, end = stack(x, state, mask=mask)
    if kind in FUSED:
        close(twin(stack, "fused")(x, state, mask=mask), (outputs, end))
    assert outputs.shape == (batch, n_steps, stack.output_size)
    for b, length in enumerate(lengths):
        expected, states = walk(stack, x[b, :length], tuple(s[:, b] for s in tensors(state)))
        close(outputs[b, :length], expected)
        assert not outputs[b, length:].any()
        for got, s in zip(tensors(end), states, strict=True):
            close(got[:, b], s)


def walk(stack, x, state):
    """One sequence (T, D), one cell after the other, by `line_per_gate`."""
    cells, ends = iter(stack.cells), []
    for _ in range(stack.n_layers):
        columns = []
        for direction in range(stack.n_directions):
            cell = next(cells)
            s = tuple(part[len(ends)] for part in state)
            s = s if cell.n_states > 1 else s[0]
            hs = []
            for x_t in x.flip(0) if direction else x:
                s = line_per_gate(cell, x_t, s)
                hs.append(hidden(s))
            ends.append(tensors(s))
            columns.append(torch.stack(hs[::-1] if direction else hs))
        x = torch.cat(columns, -1)
    return x, [torch.stack(parts) for parts in zip(*ends, strict=True)]


@pytest.mark.parametrize(
    ("kind", "implementation"),
    [*((kind, "reference") for kind in KINDS), *((kind, "fused") for kind in FUSED)],
)
def test_what_stands_in_the_padding_changes_nothing(kind, implementation, device):
    stack = new_stack(kind, n_layers=2, bidirectional=True, implementation=implementation)
    stack.to(device)
    mask = mask_of([11, 4, 1, 7, 10, 2, 5], device=device)
    clean = torch.randn(B, T, D, device=device) * mask[..., None]
    longer = torch.full((B, T + 6, D), math.nan, device=device)
    longer[:, :T][mask] = clean[mask]
    results = []
    for x in (clean, longer):
        padded = torch.nn.functional.pad(mask, (0, x.shape[1] - T))
        outputs, end = stack(x, mask=padded)
        loss = (outputs**2).sum() + sum(s.sum() for s in tensors(end))
        gradients = torch.autograd.grad(loss, list(stack.parameters()))
        results.append((outputs[:, :T], *tensors(end), *gradients))
        assert not outputs[~padded].any()
    for got, expected in zip(*results, strict=True):
        close(got, expected, 1e-13 * max(1, expected.abs().max().item()))
        assert expected.isfinite().all()


@every_kind
@pytest.mark.parametrize("implementation", ["reference", "auto"])
@settings(max_examples=8, deadline=None)
@given(cut=st.integers(1, T - 1))
def test_carrying_the_state_equals_one_long_pass(kind, implementation, cut):
    stack = new_stack(kind, n_layers=2, implementation=implementation)
    x = torch.randn(B, T, D)
    whole, end = stack(x)
    first, middle = stack(x[:, :cut])
    second, last = stack(x[:, cut:], middle)
    close(torch.cat([first, second], 1), whole)
    close(last, end)


@every_kind
def test_detach_keeps_the_numbers_and_ends_the_history(kind):
    stack = new_stack(kind)
    x = torch.randn(B, T, D, requires_grad=True)
    _, state = stack(x)
    cut = detach(state)
    for before, after in zip(tensors(state), tensors(cut), strict=True):
        assert before.requires_grad
        assert not after.requires_grad
        close(after, before.detach(), 0)


@every_kind
def test_no_output_of_a_forward_stack_looks_ahead(kind):
    stack = new_stack(kind, n_layers=2, implementation="auto").requires_grad_(False)
    x = torch.randn(B, T, D)
    changed = x.clone()
    changed[:, 4:] = torch.randn(B, T - 4, D)
    got, expected = stack(changed)[0], stack(x)[0]
    close(got[:, :4], expected[:, :4], 0)
    assert (got[:, 4] != expected[:, 4]).any()


@every_fused_kind
def test_dropout_stands_between_layers_in_training_only(kind):
    reference = new_stack(kind, n_layers=3, bidirectional=True, dropout=0.4)
    fused, x = twin(reference, "fused"), torch.randn(B, T, D)
    theirs = reference.as_torch()
    torch.manual_seed(1)
    expected, _ = theirs(x)
    for stack in (reference, fused):
        torch.manual_seed(1)
        close(stack(x)[0], expected)  # on a CPU, one seed draws one set of masks
    assert (expected - reference(x)[0]).abs().max() > 0.01  # other masks
    close(reference.eval()(x)[0], fused.eval()(x)[0])
    close(reference(x)[0], reference(x)[0], 0)


@every_fused_kind
def test_fused_reference_and_torchs_module_share_their_parameters(kind):
    stack = new_stack(kind, n_layers=2)
    module, x = stack.as_torch(), torch.randn(B, T, D)
    before = stack(x)[0].detach()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    module(x)[0].sum().backward()
    optimiser.step()
    after = stack(x)[0]
    assert (after - before).abs().max() > 1e-3
    close(module(x)[0], after)
    stack.implementation = "fused"
    close(stack(x)[0], after)
    stack.load_state_dict({k: v * 0 for k, v in stack.state_dict().items()})
    assert not stack(x)[0].any()
    assert not module(x)[0].any()


@every_kind
def test_auto_takes_the_kernel_only_where_torch_has_this_very_cell(kind, monkeypatch):
    called = []
    monkeypatch.setattr(Recurrent, "_fused", lambda *args: called.append(args))
    for implementation in ("auto", "reference"):
        new_stack(kind, implementation=implementation)(torch.randn(B, T, D))
    assert len(called) == (kind in FUSED)
    if kind not in FUSED:
        with pytest.raises(ValueError, match="no fused kernel"):
            new_stack(kind, implementation="fused")
        with pytest.raises(ValueError, match="no module"):
            new_stack(kind).as_torch()


def test_a_cell_of_ones_own_runs_in_a_stack_by_its_own_step():
    class Leaky(ElmanCell):
        def update(self, projected, state):
            new, gates = super().update(projected, state)
            return 0.5 * new + 0.5 * state, gates

    stack = Recurrent(D, H, Leaky, bidirectional=True)
    x = torch.randn(B, T, D)
    h = torch.zeros(B, H)
    for t in range(T):
        h = 0.5 * line_per_gate(stack.cells[0], x[:, t], h) + 0.5 * h
    close(stack(x)[1][0], h)


def test_a_stack_can_be_moved_saved_and_copied():
    stack = Recurrent(D, H, "lstm", 2).float()
    x = torch.randn(B, T, D, dtype=torch.float32)
    expected = stack(x)[0]
    fresh = Recurrent(D, H, "lstm", 2, implementation="reference").float()
    fresh.load_state_dict(stack.state_dict())
    assert_close(fresh(x)[0], expected)
    assert_close(copy.deepcopy(stack)(x)[0], expected, rtol=0, atol=0)
    assert stack.to("meta")(x.to("meta"))[0].shape == (B, T, H)


@both
@pytest.mark.parametrize("kind", FUSED)
def test_autocast_changes_nothing(kind, implementation, device):
    """cuDNN would compute in float16 within it, whatever dtype autocast was asked for."""
    stack = new_stack(kind, n_layers=2, implementation=implementation).float().to(device)
    x = torch.randn(B, T, D, dtype=torch.float32, device=device)
    linear = nn.Linear(D, D).float().to(device)
    mask = mask_of([T, 4, 1, 7, 10, 2, 5], device=device)
    expected = stack(x), stack(x, mask=mask)
    with torch.autocast(device, dtype=torch.bfloat16):
        got = stack(x), stack(x, mask=mask)
        rounded = linear(x)  # bfloat16, as a layer before it gives
        outputs, state = stack(rounded, detach(got[0][1]))
    close(got, expected, 0)
    assert outputs.dtype == hidden(state).dtype == torch.float32
    close(outputs, stack(rounded.float(), expected[0][1])[0], 0)


# --- errors --------------------------------------------------------------------------------------

X = torch.zeros(B, T, D, dtype=torch.float64)
OK = torch.ones(B, T, dtype=torch.bool)
HOLE = OK.clone()
HOLE[2, 3] = False
LEFT = OK.clone()
LEFT[4, :2] = False
NONE = OK.clone()
NONE[1] = False


@pytest.mark.parametrize("implementation", ["reference", "fused"])
@pytest.mark.parametrize(
    ("error", "message", "args", "options"),
    [
        (ValueError, "none of them 0", (X[:, :0],), {}),
        (ValueError, "none of them 0", (X[:0],), {}),
        (ValueError, r"must be \(B, T, 3\)", (X[0],), {}),
        (ValueError, r"\(B, T, 3\), none of them 0, got \(7, 11, 2\)", (X[..., :2],), {}),
        (TypeError, "float32, the parameters torch.float64", (X.float(),), {}),
        (TypeError, "int64", (X.long(),), {}),
        (TypeError, "got ndarray", (X.numpy(),), {}),
        (TypeError, "tuple of 2 tensors", (X, torch.zeros(1, B, H)), {}),
        (ValueError, r"\(1, 7, 5\), got \(1, 6, 5\)", (X, (torch.zeros(1, 6, H),) * 2), {}),
        (TypeError, "state has dtype", (X, (torch.zeros(1, B, H, dtype=torch.half),) * 2), {}),
        (ValueError, r"mask must be bool \(7, 11\), got torch.int64", (X,), {"mask": OK.long()}),
        (ValueError, r"mask must be bool \(7, 11\), got .*10\)", (X,), {"mask": OK[:, 1:]}),
        (ValueError, "True up to", (X,), {"mask": HOLE}),
        (ValueError, "True up to", (X,), {"mask": LEFT}),
        (ValueError, "True up to", (X,), {"mask": NONE}),
    ],
)
def test_a_call_that_does_not_fit_is_refused(implementation, error, message, args, options):
    with pytest.raises(error, match=message):
        Recurrent(D, H, implementation=implementation)(*args, **options)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("hidden_size .* got 0", {"hidden_size": 0}),
        ("input_size .* got 0", {"input_size": 0}),
        ("n_layers .* got 0", {"n_layers": 0}),
        ("dropout .* got 1", {"n_layers": 2, "dropout": 1.0}),
        ("dropout .* got -0.1", {"n_layers": 2, "dropout": -0.1}),
        ("between layers", {"dropout": 0.1}),
        ("elman, minimal, gru, lstm", {"cell": "rnn"}),
        ("or a Cell", {"cell": nn.LSTM}),
        ("reference, fused, auto", {"implementation": "cudnn"}),
        ("tanh", {"cell": "elman", "nonlinearity": "sigmoid"}),
        ("forget_bias", {"forget_bias": math.inf}),
        ("hidden_size must be an integer, got 2.5", {"hidden_size": 2.5}),
        ("n_layers must be an integer, got True", {"n_layers": True}),
        ("dropout must be a number, got '0.5'", {"n_layers": 2, "dropout": "0.5"}),
    ],
)
def test_an_impossible_stack_is_refused(message, changes):
    with pytest.raises((ValueError, TypeError), match=message):
        Recurrent(**{"cell": "lstm", "input_size": D, "hidden_size": H, **changes})


@every_kind
def test_a_step_that_does_not_fit_is_refused(kind):
    cell = new_cell(kind)
    x, state = torch.zeros(B, D), cell.initial_state(B)
    for method in (cell.step, cell.gate_values):
        with pytest.raises(ValueError, match=r"\(\.\.\., 3\), got \(7, 2\)"):
            method(x[:, :2], state)
        with pytest.raises(ValueError, match=r"\(7, 5\), got \(6, 5\)"):
            method(x, cell.initial_state(6))
        with pytest.raises(TypeError, match="the state must be"):
            method(x, None)
        with pytest.raises(TypeError, match="int64"):
            method(x.long(), state)
    with pytest.raises(ValueError, match="gate must be one of"):
        cell.rows("q")
