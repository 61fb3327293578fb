"""Recurrent cells and stacks against torch, numpy loops, finite differences and cases by hand."""

import copy
import math
import operator

import pytest
import torch
from comparing import close, passes_gradcheck, randomised, refuses, up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from unrolled.models import recurrent_cells
from unrolled.models.recurrent import Recurrent, detach, keras_gru_weights

D, H, B, T, LENGTHS = 3, 5, 7, 11, (11, 4, 1, 7, 10, 2, 5)

# name: (cell class, its options and those of torch's, what Recurrent calls it, torch's module)
KINDS = {
    "elman": (recurrent_cells.ElmanCell, {}, "elman", nn.RNN),
    "elman relu": (recurrent_cells.ElmanCell, {"nonlinearity": "relu"}, "elman", nn.RNN),
    "minimal": (recurrent_cells.MinimalGatedCell, {}, "minimal", None),
    "gru": (recurrent_cells.GRUCell, {}, "gru", nn.GRU),
    "gru reset before": (recurrent_cells.GRUCell, {"reset_after": False}, "gru", None),
    "lstm": (recurrent_cells.LSTMCell, {}, "lstm", nn.LSTM),
}
FUSED = [kind for kind, entry in KINDS.items() if entry[3]]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_fused_kind = pytest.mark.parametrize("kind", FUSED)
both = pytest.mark.parametrize("implementation", ["reference", "fused"])
DTYPE = torch.float64


def new_cell(kind) -> recurrent_cells.Cell:
    return KINDS[kind][0](D, H, **KINDS[kind][1])


def twin(stack: Recurrent, implementation: str) -> Recurrent:
    other = copy.deepcopy(stack)
    other.implementation = implementation
    return other


def new_stack(kind, *args, implementation="reference", **options) -> Recurrent:
    sizes = args or (D, H)
    name, cell_options = KINDS[kind][2], KINDS[kind][1]
    return Recurrent(*sizes, name, implementation=implementation, **options, **cell_options)


def random_state(cell, *batch):
    state = tuple(torch.randn(*batch, cell.hidden_size) for _ in range(cell.n_states))
    return state if cell.n_states > 1 else state[0]


def tensors(state) -> tuple:
    return state if isinstance(state, tuple) else (state,)


def line_per_gate(cell: recurrent_cells.Cell, x, state):
    """The formulas in the cells' docstrings as they stand: the state after x, and the gates."""
    rows = torch.arange(len(cell.gates) * cell.hidden_size).reshape(len(cell.gates), -1)
    rows, h = dict(zip(cell.gates, rows, strict=True)), recurrent_cells.hidden(state)

    def from_h(gate, h):
        return h @ cell.weight_hh[rows[gate]].T + cell.bias_hh[rows[gate]]

    def gate(name, f=torch.sigmoid, past=None):
        past = from_h(name, h) if past is None else past
        return f(x @ cell.weight_ih[rows[name]].T + cell.bias_ih[rows[name]] + past)

    if isinstance(cell, recurrent_cells.ElmanCell):
        h = gate("h", getattr(torch, cell.nonlinearity))
        return h, {"h": h}
    if isinstance(cell, recurrent_cells.LSTMCell):
        gates = {name: gate(name, torch.tanh if name == "g" else torch.sigmoid) for name in "ifgo"}
        c = gates["f"] * state[1] + gates["i"] * gates["g"]
        return (gates["o"] * torch.tanh(c), c), gates
    gates, past = {"z": gate("z")}, None
    if isinstance(cell, recurrent_cells.GRUCell):
        gates["r"] = r = gate("r")
        past = r * from_h("n", h) if cell.reset_after else from_h("n", r * h)
    z, n = gates["z"], gate("n", torch.tanh, past)
    return (1 - z) * n + z * h, gates | {"n": n}


@every_kind
def test_a_step_and_its_gates_are_the_formulas_line_per_gate(kind):
    cell = new_cell(kind)
    x, state = torch.randn(2, B, D), random_state(cell, 2, B)
    expected, gates = line_per_gate(cell, x, state)
    close(cell.step(x, state), expected, 1e-14)
    close(cell.gate_values(x, state), gates, 1e-14)
    one = tuple(s[1, 4] for s in tensors(state))
    got = cell.step(x[1, 4], one if cell.n_states > 1 else one[0])
    close(recurrent_cells.hidden(got), recurrent_cells.hidden(expected)[1, 4], 1e-14)


@every_kind
def test_gradients_of_a_stack_agree_with_finite_differences(kind):
    stack = new_stack(kind, 2, 3, n_layers=2, bidirectional=True)
    assert passes_gradcheck(stack, torch.randn(2, 3, 2), f=lambda y: y[0], fast_mode=True)


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
    arrays = [torch.arange(1.0, 1 + math.prod(shape)).sin().reshape(shape)
              for shape in ((2, 9), (3, 9), bias_shape, (1, 5, 2))]  # fmt: skip
    weights, form = keras_gru_weights(*arrays[:3])
    stack = Recurrent(2, 3, "gru", reset_after=form)
    stack.cells[0].load_state_dict(weights)
    close(stack(arrays[3])[0][0, -1].detach(), torch.tensor(expected), tolerance)


def test_the_forget_bias_is_the_sum_of_both_biases_and_touches_no_other_gate():
    plain = recurrent_cells.LSTMCell(D, H)
    torch.manual_seed(0)  # at which the first was drawn
    cell = recurrent_cells.LSTMCell(D, H, forget_bias=1.5)
    expected = plain.bias_ih + plain.bias_hh
    expected[H : 2 * H] = 1.5
    close(cell.bias_ih + cell.bias_hh, expected)


@every_fused_kind
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("n_layers", [1, 3])
@both
def test_a_stack_equals_torchs_module_forward_and_backward(
    kind, bidirectional, n_layers, implementation, device
):
    sizes = {"n_layers": n_layers, "bidirectional": bidirectional}
    ours = new_stack(kind, **sizes, implementation=implementation).to(device)
    torch.manual_seed(0)
    options = {"batch_first": True, "bidirectional": bidirectional} | KINDS[kind][1]
    theirs = KINDS[kind][3](D, H, n_layers, **options).to(device)
    close(list(ours.parameters()), list(theirs.parameters()), 0)
    shared = ours.as_torch()
    shared.load_state_dict(randomised(theirs).state_dict())
    assert all(map(operator.is_, shared.parameters(), ours.parameters()))
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    start = [torch.randn(n_layers * (1 + bidirectional), B, H, device=device)
             for _ in range(ours.cells[0].n_states)]  # fmt: skip
    start = tuple(start) if len(start) > 1 else start[0]
    results = []
    for module in (ours, shared, theirs):
        outputs, end = module(x, start)
        weights = torch.linspace(-1, 2, outputs.numel(), device=device).reshape(outputs.shape)
        loss = (weights * outputs).sum() + sum((s**3).sum() for s in tensors(end))
        gradients = torch.autograd.grad(loss, [x, *module.parameters()])
        results.append((outputs, *tensors(end), *gradients))
    assert results[0][0].shape == (B, T, H * (1 + bidirectional))
    for *both_of_ours, expected in zip(*results, strict=True):
        for got in both_of_ours:
            close(got, expected, 1e-12 * max(1, expected.abs().max().item()))


@every_kind
@settings(max_examples=10, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 4), n_layers=st.integers(1, 3),
    bidirectional=st.booleans(), data=st.data(),
)  # fmt: skip
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
    mask = up_to(*lengths, width=n_steps)
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
                s, _ = line_per_gate(cell, x_t, s)
                hs.append(recurrent_cells.hidden(s))
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
    mask = up_to(*LENGTHS, width=T + 6, device=device)
    longer = torch.randn(B, T + 6, D, device=device).where(mask[..., None], math.nan)
    results = []
    for width in (T, T + 6):
        x, here = longer[:, :width].nan_to_num(0) if width == T else longer, mask[:, :width]
        outputs, end = stack(x, mask=here)
        assert not outputs[~here].any()
        loss = (outputs**2).sum() + sum(s.sum() for s in tensors(end))
        gradients = torch.autograd.grad(loss, list(stack.parameters()))
        results.append((outputs[:, :T], *tensors(end), *gradients))
    for got, expected in zip(*results, strict=True):
        close(got, expected, 1e-13 * max(1, expected.abs().max().item()))
        assert expected.isfinite().all()


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


@every_kind
def test_auto_takes_the_kernel_only_where_torch_has_this_very_cell(kind, monkeypatch):
    called = []
    monkeypatch.setattr(Recurrent, "_fused", lambda *args: called.append(args))
    for implementation in ("auto", "reference"):
        new_stack(kind, implementation=implementation)(torch.randn(B, T, D))
    assert len(called) == (kind in FUSED)


def test_a_cell_of_ones_own_runs_in_a_stack_by_its_own_step():
    class Leaky(recurrent_cells.ElmanCell):
        def update(self, projected, state):
            new, gates = super().update(projected, state)
            return 0.5 * new + 0.5 * state, gates

    stack = Recurrent(D, H, Leaky, bidirectional=True)
    x = torch.randn(B, T, D)
    h = torch.zeros(B, H)
    for t in range(T):
        h = 0.5 * line_per_gate(stack.cells[0], x[:, t], h)[0] + 0.5 * h
    close(stack(x)[1][0], h)


@both
@pytest.mark.parametrize("kind", FUSED)
def test_autocast_changes_nothing(kind, implementation, device):
    """cuDNN would compute in float16 within it, whatever dtype autocast was asked for."""
    stack = new_stack(kind, n_layers=2, implementation=implementation).float().to(device)
    x = torch.randn(B, T, D, dtype=torch.float32, device=device)
    linear = nn.Linear(D, D).float().to(device)
    mask = up_to(*LENGTHS, width=T, device=device)
    expected = stack(x), stack(x, mask=mask)
    with torch.autocast(device, dtype=torch.bfloat16):
        got = stack(x), stack(x, mask=mask)
        rounded = linear(x)  # bfloat16, as a layer before it gives
        outputs, state = stack(rounded, detach(got[0][1]))
    close(got, expected, 0)
    assert outputs.dtype == recurrent_cells.hidden(state).dtype == torch.float32
    close(outputs, stack(rounded.float(), expected[0][1])[0], 0)


X, ALL = torch.zeros(B, T, D, dtype=torch.float64), torch.ones(B, T, dtype=torch.bool)
HOLE, LEFT = ALL.clone(), ALL.clone()
HOLE[2, 3], LEFT[4, :2] = False, False


def keras(*shapes):
    return keras_gru_weights(*(torch.zeros(shape) for shape in shapes))


def stepped(x, state):
    return new_cell("gru").step(torch.zeros(x), torch.zeros(state))


test_what_does_not_fit_is_refused = refuses(
    *((lambda args=args, how=how, options=options:
       Recurrent(D, H, implementation=how)(X, *args, **options), message)
      for how in ("reference", "fused") for message, args, options in (
        ("tuple of 2 tensors", (torch.zeros(1, B, H),), {}),
        (r"\(1, 7, 5\), got \(1, 6, 5\)", ((torch.zeros(1, 6, H),) * 2,), {}),
        ("state has dtype", ((torch.zeros(1, B, H, dtype=torch.half),) * 2,), {}),
        (r"mask must be bool \(7, 11\), got .*10\)", (), {"mask": ALL[:, 1:]}),
        ("True up to", (), {"mask": HOLE}),
        ("True up to", (), {"mask": LEFT}),
        ("True up to", (), {"mask": ~ALL}))),
    (lambda: Recurrent(D, H)(X[..., :2]), r"\(B, T, 3\), none of them 0, got \(7, 11, 2\)"),
    (lambda: Recurrent(D, H)(X[:, 0]), r"\(B, T, 3\), none of them 0, got \(7, 3\)"),
    (lambda: Recurrent(D, H)(X.float()), "float32, the parameters torch.float64"),
    (lambda: Recurrent(D, H, "elman", nonlinearity="sigmoid"), "tanh"),
    (lambda: Recurrent(D, H, dropout=0.1), "between layers"),
    (lambda: Recurrent(D, H, nn.LSTM), "or a Cell"),
    (lambda: keras((3, 14), (5, 15), (15,)), "expected"),
    (lambda: keras((3, 15), (5, 15), (3, 15)), "expected"),
    (lambda: stepped((B, 2), (B, H)), r"\(\.\.\., 3\), got \(7, 2\)"),
    (lambda: stepped((B, D), (6, H)), r"\(7, 5\), got \(6, 5\)"),
    *((lambda make=make, kind=kind: make(kind), why)
      for kind in KINDS if kind not in FUSED for why, make in (
        ("no fused kernel", lambda kind: new_stack(kind, implementation="fused")),
        ("no module", lambda kind: new_stack(kind).as_torch()))),
    error=(ValueError, TypeError),
)  # fmt: skip
