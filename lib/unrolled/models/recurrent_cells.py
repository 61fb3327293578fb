"""Recurrent cells: one step in time, from a plain Elman network to the LSTM.

A cell maps an input x_t and the state before it to the state after it, `step(x, state) -> state`.
The state is the hidden vector h, (B, H); for the LSTM the pair (h, c). Weights are stored as in
torch: `weight_ih` (G·H, D), `weight_hh` (G·H, H), `bias_ih` and `bias_hh` (G·H,), G blocks of H
rows, one block for each name in `blocks`. Vectors are rows, so a block W gives x Wᵀ.

Every cell says the same thing twice, and the tests hold the two to each other:
`step_by_gate` has a line per gate, as a chapter derives it, and `step` computes all blocks with
one product for x and one for h.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = Tensor | tuple[Tensor, ...]


def hidden(state: State) -> Tensor:
    """The part of a state that the outside sees: h, whether or not a cell keeps more."""
    return state[0] if isinstance(state, tuple) else state


class Cell(nn.Module):
    """What all cells share: parameters, the products with them, and the two forms of a step.

    A cell of one's own names its `blocks` and defines `activations` and `mix`; if its state holds
    more than h, h stands first and `n_states` counts the tensors.
    Parameters begin uniform in ±1/√H, drawn in torch's order (the same seed, the same weights).
    A torch.nn.RNNCell, GRUCell or LSTMCell has the same names and shapes:
    `cell.load_state_dict(torch_cell.state_dict())` copies its weights.
    """

    blocks: tuple[str, ...] = ()
    n_states = 1

    def __init__(self, input_size: int, hidden_size: int):
        """input_size: D. hidden_size: H. Raises ValueError where either is not an int ≥ 1."""
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = len(self.blocks) * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def extra_repr(self) -> str:
        """The sizes, for print(cell)."""
        return f"{self.input_size}, {self.hidden_size}"

    def initial_state(self, *batch: int) -> State:
        """Zeros of shape (*batch, H): the state before the first step."""
        zeros = self.weight_hh.new_zeros(*batch, self.hidden_size)
        return zeros if self.n_states == 1 else (zeros,) * self.n_states

    def step(self, x: Tensor, state: State) -> State:
        """The state after x: (B, D) and tensors (B, H) → tensors (B, H); B may be any shape.

        Raises ValueError where a shape and TypeError where a kind or dtype does not fit.
        """
        self._check(x, state)
        return self.update(self.project(x), state)

    def gates(self, x: Tensor, state: State) -> dict[str, Tensor]:
        """What `step` computes on its way: each block's name and its activation, (B, H)."""
        self._check(x, state)
        return dict(zip(self.blocks, self.activations(self.project(x), state), strict=True))

    def project(self, x: Tensor) -> Tensor:
        """x W_ihᵀ + b_ih for all blocks: (..., D) → (..., G·H); needs no state, so no loop."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, projected: Tensor, state: State) -> State:
        """The state after an input of which `project` is given, (B, G·H)."""
        return self.mix(self.activations(projected, state), state)

    def activations(self, projected: Tensor, state: State) -> tuple[Tensor, ...]:
        """Gates and candidates in the order of `blocks`, each (B, H), by one product with h."""
        raise NotImplementedError

    def mix(self, activations: tuple[Tensor, ...], state: State) -> State:
        """The new state from the activations and the old state."""
        raise NotImplementedError

    def from_x(self, block: str, x: Tensor) -> Tensor:
        """x W_xᵀ + b for one block: (B, D) → (B, H)."""
        rows = self._rows(block)
        return F.linear(x, self.weight_ih[rows], self.bias_ih[rows])

    def from_h(self, block: str, h: Tensor) -> Tensor:
        """h W_hᵀ + b for one block: (B, H) → (B, H)."""
        rows = self._rows(block)
        return F.linear(h, self.weight_hh[rows], self.bias_hh[rows])

    def _rows(self, block: str) -> slice:
        if block not in self.blocks:
            raise ValueError(f"block must be one of {', '.join(self.blocks)}; got {block!r}")
        start = self.blocks.index(block) * self.hidden_size
        return slice(start, start + self.hidden_size)

    def _check(self, x: Tensor, state: State) -> None:
        check_input(x, self.input_size, self.weight_ih)
        check_state(state, self.n_states, (*x.shape[:-1], self.hidden_size), self.weight_hh)


class ElmanCell(Cell):
    """h_t = H(x_t W_xhᵀ + h_{t−1} W_hhᵀ + b), H being tanh or ReLU (Elman 1990).

    torch.nn.RNN's cell; b is the sum of its two biases. Elman's network used the logistic function.
    """

    blocks = ("h",)

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh"):
        """nonlinearity: "tanh" or "relu", else ValueError; sizes as in `Cell`."""
        super().__init__(input_size, hidden_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'nonlinearity must be "tanh" or "relu", got {nonlinearity!r}')
        self.nonlinearity = nonlinearity

    def step_by_gate(self, x: Tensor, state: Tensor) -> Tensor:
        """The formula above as it stands."""
        h = state
        return getattr(torch, self.nonlinearity)(self.from_x("h", x) + self.from_h("h", h))

    def activations(self, projected: Tensor, state: Tensor) -> tuple[Tensor]:
        """There is one block, the new h itself."""
        recurrent = F.linear(state, self.weight_hh, self.bias_hh)
        return (getattr(torch, self.nonlinearity)(projected + recurrent),)

    def mix(self, activations: tuple[Tensor], state: Tensor) -> Tensor:
        """Nothing of the old state is kept beside what went through the weights."""
        return activations[0]


class MinimalGatedCell(Cell):
    """The smallest gated cell: one gate z decides how much of h is overwritten.

        z_t = σ(x_t W_xzᵀ + h_{t−1} W_hzᵀ + b_z)
        n_t = tanh(x_t W_xnᵀ + h_{t−1} W_hnᵀ + b_n)        the candidate, also written h̄_t
        h_t = (1 − z_t) h_{t−1} + z_t n_t

    Here z = 1 *writes*, as in Chung et al. (2014, equation 5); in `GRUCell`, which follows torch,
    z = 1 *keeps*. It is a GRU without its reset gate, so not the "minimal gated unit" of
    Zhou et al. (2016), whose one gate also resets.
    """

    blocks = ("z", "n")

    def step_by_gate(self, x: Tensor, state: Tensor) -> Tensor:
        """The formulas above, line by line."""
        h = state
        z = torch.sigmoid(self.from_x("z", x) + self.from_h("z", h))
        n = torch.tanh(self.from_x("n", x) + self.from_h("n", h))
        return (1 - z) * h + z * n

    def activations(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """z and n, by one product with h."""
        z, n = (projected + F.linear(state, self.weight_hh, self.bias_hh)).chunk(2, -1)
        return torch.sigmoid(z), torch.tanh(n)

    def mix(self, activations: tuple[Tensor, Tensor], state: Tensor) -> Tensor:
        """The convex mixture of the old state and the candidate."""
        z, n = activations
        return (1 - z) * state + z * n


class GRUCell(Cell):
    """The gated recurrent unit (Cho et al. 2014) with torch's conventions.

        r_t = σ(x_t W_xrᵀ + b_xr + h_{t−1} W_hrᵀ + b_hr)
        z_t = σ(x_t W_xzᵀ + b_xz + h_{t−1} W_hzᵀ + b_hz)
        n_t = tanh(x_t W_xnᵀ + b_xn + r_t ⊙ (h_{t−1} W_hnᵀ + b_hn))      reset_after=True, torch
        n_t = tanh(x_t W_xnᵀ + b_xn + (r_t ⊙ h_{t−1}) W_hnᵀ + b_hn)      reset_after=False
        h_t = (1 − z_t) n_t + z_t h_{t−1}

    The two forms compute different functions. Cho et al. reset before the product; torch and cuDNN
    after it, so that one product with h serves all blocks. There is no fused kernel for "before".

    Blocks stand in the order r, z, n. Keras writes the same update, h = z ⊙ h + (1 − z) ⊙ h̃, has
    `reset_after` with the same meaning and default, and the order z, r, h: see
    `unrolled.models.recurrent.keras_gru_weights`.
    Chung et al. (2014) swap the roles, h = (1 − z) h + z h̃; to come from there negate W and b of z.
    """

    blocks = ("r", "z", "n")

    def __init__(self, input_size: int, hidden_size: int, reset_after: bool = True):
        """reset_after: where the reset gate acts, see above; sizes as in `Cell`."""
        super().__init__(input_size, hidden_size)
        self.reset_after = reset_after

    def step_by_gate(self, x: Tensor, state: Tensor) -> Tensor:
        """The formulas above, line by line."""
        h = state
        r = torch.sigmoid(self.from_x("r", x) + self.from_h("r", h))
        z = torch.sigmoid(self.from_x("z", x) + self.from_h("z", h))
        past = r * self.from_h("n", h) if self.reset_after else self.from_h("n", r * h)
        n = torch.tanh(self.from_x("n", x) + past)
        return (1 - z) * n + z * h

    def activations(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r, z, n: one product with h, or two where the reset comes before the second."""
        x_r, x_z, x_n = projected.chunk(3, -1)
        if self.reset_after:
            h_r, h_z, h_n = F.linear(state, self.weight_hh, self.bias_hh).chunk(3, -1)
            r = torch.sigmoid(x_r + h_r)
            past = r * h_n
        else:
            rz = slice(2 * self.hidden_size)
            h_r, h_z = F.linear(state, self.weight_hh[rz], self.bias_hh[rz]).chunk(2, -1)
            r = torch.sigmoid(x_r + h_r)
            past = self.from_h("n", r * state)
        return r, torch.sigmoid(x_z + h_z), torch.tanh(x_n + past)

    def mix(self, activations: tuple[Tensor, Tensor, Tensor], state: Tensor) -> Tensor:
        """The convex mixture of the candidate and the old state."""
        _, z, n = activations
        return (1 - z) * n + z * state


class LSTMCell(Cell):
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

        i_t = σ(x_t W_xiᵀ + h_{t−1} W_hiᵀ + b_i)          input gate
        f_t = σ(x_t W_xfᵀ + h_{t−1} W_hfᵀ + b_f)          forget gate: 1 keeps
        g_t = tanh(x_t W_xgᵀ + h_{t−1} W_hgᵀ + b_g)       candidate, also written c̃_t
        o_t = σ(x_t W_xoᵀ + h_{t−1} W_hoᵀ + b_o)          output gate
        c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t
        h_t = o_t ⊙ tanh(c_t)

    Blocks stand in the order i, f, g, o: torch's, and Keras's, which calls g "c". Other texts stack
    i, f, o, g, so their rows must be reordered. No peepholes. The state is the pair (h, c).
    """

    blocks = ("i", "f", "g", "o")
    n_states = 2

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float | None = None):
        """forget_bias: where b_f = b_xf + b_hf begins; None leaves it as drawn, so near 0.

        Jozefowicz et al. (2015) recommend 1: a gate that is open at first lets gradients through.
        Sizes as in `Cell`; ValueError where forget_bias is not finite.
        """
        super().__init__(input_size, hidden_size)
        if forget_bias is not None:
            if not math.isfinite(forget_bias):
                raise ValueError(f"forget_bias must be a finite number or None, got {forget_bias}")
            with torch.no_grad():
                self.bias_ih[self._rows("f")] = forget_bias
                self.bias_hh[self._rows("f")] = 0

    def step_by_gate(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The formulas above, line by line."""
        h, c = state
        i = torch.sigmoid(self.from_x("i", x) + self.from_h("i", h))
        f = torch.sigmoid(self.from_x("f", x) + self.from_h("f", h))
        g = torch.tanh(self.from_x("g", x) + self.from_h("g", h))
        o = torch.sigmoid(self.from_x("o", x) + self.from_h("o", h))
        c = f * c + i * g
        return o * torch.tanh(c), c

    def activations(self, projected: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """i, f, g, o, by one product with h."""
        i, f, g, o = (projected + F.linear(state[0], self.weight_hh, self.bias_hh)).chunk(4, -1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def mix(
        self, activations: tuple[Tensor, ...], state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Forget, write, then show a part of the memory."""
        i, f, g, o = activations
        c = f * state[1] + i * g
        return o * torch.tanh(c), c


def check_input(x: Tensor, width: int, like: Tensor) -> None:
    """Refuse x that is no tensor (..., width) with the dtype and device of the parameter `like`."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the input must be a torch.Tensor, got {type(x).__name__}")
    if not x.ndim or x.shape[-1] != width:
        raise ValueError(f"the input must have shape (..., {width}), got {tuple(x.shape)}")
    _check_kind("the input", x, like)


def check_state(state: State, n_states: int, shape: tuple[int, ...], like: Tensor) -> None:
    """Refuse a state that is not n_states tensors of that shape, like the parameter `like`."""
    tensors = state if isinstance(state, tuple) else (state,)
    if len(tensors) != n_states or not all(isinstance(s, Tensor) for s in tensors):
        wanted = "a tensor h" if n_states == 1 else f"a tuple of {n_states} tensors, h first"
        raise TypeError(f"the state must be {wanted}, got {type(state).__name__}")
    for s in tensors:
        if s.shape != shape:
            raise ValueError(f"the state must have shape {tuple(shape)}, got {tuple(s.shape)}")
        _check_kind("the state", s, like)


def _check_kind(what: str, x: Tensor, like: Tensor) -> None:
    if not x.is_floating_point() or (
        x.dtype != like.dtype and not torch.is_autocast_enabled(x.device.type)
    ):
        raise TypeError(f"{what} has dtype {x.dtype}, the parameters {like.dtype}")
    if x.device != like.device:
        raise ValueError(f"{what} is on {x.device}, the parameters on {like.device}")
