"""Recurrent cells: one step in time, from a plain Elman network to the LSTM (chapters 9 and 11).

The state is the hidden vector h, (B, H); for the LSTM the pair (h, c). Weights are stored as in
torch: `weight_ih` (G·H, D), `weight_hh` (G·H, H), `bias_ih` and `bias_hh` (G·H,), in blocks of H
rows, one for each name in `gates`. Vectors are rows, so a block W gives x Wᵀ. Each cell's formulas
stand in its docstring, and in code in `update`: one product with x and one with h serve all gates.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.validate import checked, one_of, real, whole

State = Tensor | tuple[Tensor, ...]


def hidden(state: State) -> Tensor:
    """The output of a cell, h, the first tensor of its state."""
    return state[0] if isinstance(state, tuple) else state


class Cell(nn.Module):
    """The parameters of all cells, and a step of any of them: D inputs, H hidden numbers.

    A new kind of cell names its `gates` and defines `update`.
    Parameters begin uniform in ±1/√H, drawn in torch's order (the same seed, the same weights).
    A torch.nn.RNNCell, GRUCell or LSTMCell has the same names and shapes:
    `cell.load_state_dict(torch_cell.state_dict())` copies its weights.
    """

    gates: tuple[str, ...] = ()  # candidates too, in the order of their rows
    n_states = 1  # how many tensors the state holds, h first

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        rows = len(self.gates) * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def initial_state(self, *batch: int) -> State:
        """Zeros of shape (*batch, H): the state before the first step."""
        zeros = self.weight_hh.new_zeros(*batch, self.hidden_size)
        return zeros if self.n_states == 1 else (zeros,) * self.n_states

    def step(self, x: Tensor, state: State) -> State:
        """The state after x: (B, D) and tensors (B, H) → tensors (B, H); B may be any shape.

        Raises ValueError or TypeError for a shape, kind or dtype that does not fit.
        """
        self._check(x, state)
        return self.update(self.project(x), state)[0]

    def gate_values(self, x: Tensor, state: State) -> dict[str, Tensor]:
        """The gates and candidates, (B, H) each, that `step` computes from the same arguments."""
        self._check(x, state)
        return dict(zip(self.gates, self.update(self.project(x), state)[1], strict=True))

    def project(self, x: Tensor) -> Tensor:
        """x W_ihᵀ + b_ih for all gates: (..., D) → (..., G·H); needs no state, so no loop."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        """(the next state, the gates and candidates, (B, H) each), from `project(x)`, (B, G·H)."""
        raise NotImplementedError

    def rows(self, gate: str) -> slice:
        """The rows of one gate in each weight and bias; ValueError for an unknown gate."""
        start = self.gates.index(one_of("gate", gate, self.gates)) * self.hidden_size
        return slice(start, start + self.hidden_size)

    def _from_h(self, h: Tensor) -> Tensor:  # (B, H) → (B, G·H)
        return F.linear(h, self.weight_hh, self.bias_hh)

    def _check(self, x: Tensor, state: State) -> None:
        self.check_kind("the input", x)
        if x.shape[-1:] != (self.input_size,):
            raise ValueError(f"the input must be (..., {self.input_size}), got {tuple(x.shape)}")
        self.check_state(state, *x.shape[:-1])

    def check_state(self, state: State, *batch: int) -> None:
        """Raise unless the state is like `initial_state(*batch)`."""
        tensors = state if isinstance(state, tuple) else (state,)
        shape, n = (*batch, self.hidden_size), self.n_states
        if len(tensors) != n or not all(isinstance(s, Tensor) for s in tensors):
            wanted = "a tensor h" if n == 1 else f"a tuple of {n} tensors, h first"
            raise TypeError(f"the state must be {wanted}, got {type(state).__name__}")
        for s in tensors:
            if s.shape != shape:
                raise ValueError(f"the state must have shape {shape}, got {tuple(s.shape)}")
            self.check_kind("the state", s)

    def check_kind(self, what: str, x: Tensor) -> None:
        """TypeError unless x is a tensor of the parameters' dtype; any floating under autocast."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{what} must be a torch.Tensor, got {type(x).__name__}")
        dtype = self.bias_hh.dtype
        if x.dtype != dtype and not (
            x.is_floating_point() and torch.is_autocast_enabled(x.device.type)
        ):
            raise TypeError(f"{what} has dtype {x.dtype}, the parameters {dtype}")


class ElmanCell(Cell):
    """h_t = φ(x_t W_xhᵀ + h_{t−1} W_hhᵀ + b_h), φ being tanh or ReLU (Elman 1990).

    torch.nn.RNN's cell; b is the sum of its two biases. nonlinearity: "tanh" or "relu"; Elman's
    network used the logistic function.
    """

    gates = ("h",)

    @checked
    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh"):
        super().__init__(input_size, hidden_size)
        self.nonlinearity = one_of("nonlinearity", nonlinearity, ("tanh", "relu"))

    def update(self, projected: Tensor, state: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        h = getattr(torch, self.nonlinearity)(projected + self._from_h(state))
        return h, (h,)


class MinimalGatedCell(Cell):
    """The smallest gated cell: one gate z decides how much of h is kept.

        z_t = σ(x_t W_xzᵀ + h_{t−1} W_hzᵀ + b_z)
        n_t = tanh(x_t W_xnᵀ + h_{t−1} W_hnᵀ + b_n)        the candidate, also written h̄_t
        h_t = (1 − z_t) n_t + z_t h_{t−1}

    It is a GRU without its reset gate, so not the "minimal gated unit" of Zhou et al. (2016), whose
    one gate also resets.
    """

    gates = ("z", "n")

    def update(self, projected: Tensor, state: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        z, n = (projected + self._from_h(state)).chunk(2, -1)
        z, n = torch.sigmoid(z), torch.tanh(n)
        return (1 - z) * n + z * state, (z, n)


class GRUCell(Cell):
    """The gated recurrent unit (Cho et al. 2014) with torch's conventions.

        r_t = σ(x_t W_xrᵀ + b_xr + h_{t−1} W_hrᵀ + b_hr)
        z_t = σ(x_t W_xzᵀ + b_xz + h_{t−1} W_hzᵀ + b_hz)
        n_t = tanh(x_t W_xnᵀ + b_xn + r_t ⊙ (h_{t−1} W_hnᵀ + b_hn))      reset_after=True, torch
        n_t = tanh(x_t W_xnᵀ + b_xn + (r_t ⊙ h_{t−1}) W_hnᵀ + b_hn)      reset_after=False
        h_t = (1 − z_t) n_t + z_t h_{t−1}

    The two forms compute different functions. Cho et al. reset before the product; torch and cuDNN
    after it, so that one product with h serves all gates. There is no fused kernel for "before".
    Keras has the same update and `reset_after`, and the order z, r, h: see
    `unrolled.models.recurrent.keras_gru_weights`.
    Chung et al. (2014) swap the roles, h = (1 − z) h + z h̃; to come from there negate W and b of z.
    """

    gates = ("r", "z", "n")

    @checked
    def __init__(self, input_size: int, hidden_size: int, reset_after: bool = True):
        super().__init__(input_size, hidden_size)
        self.reset_after = reset_after

    def update(self, projected: Tensor, state: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        x_r, x_z, x_n = projected.chunk(3, -1)
        h_r, h_z, h_n = self._from_h(state).chunk(3, -1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        past = r * h_n
        if not self.reset_after:  # one more product, with h reset
            rows = self.rows("n")
            past = F.linear(r * state, self.weight_hh[rows], self.bias_hh[rows])
        n = torch.tanh(x_n + past)
        return (1 - z) * n + z * state, (r, z, n)


class LSTMCell(Cell):
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

        i_t = σ(x_t W_xiᵀ + h_{t−1} W_hiᵀ + b_i)          input gate
        f_t = σ(x_t W_xfᵀ + h_{t−1} W_hfᵀ + b_f)          forget gate: 1 keeps
        g_t = tanh(x_t W_xgᵀ + h_{t−1} W_hgᵀ + b_g)       candidate, also written c̃_t
        o_t = σ(x_t W_xoᵀ + h_{t−1} W_hoᵀ + b_o)          output gate
        c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t
        h_t = o_t ⊙ tanh(c_t)

    The gates stand in the order i, f, g, o: torch's, and Keras's, which calls g "c". Other texts
    stack i, f, o, g, so their rows must be reordered. No peepholes. The state is the pair (h, c).
    forget_bias: the initial b_f = b_xf + b_hf; None leaves it as drawn, so near 0. Jozefowicz et
    al. (2015) recommend 1: a gate that is open at first lets gradients through.
    """

    gates = ("i", "f", "g", "o")
    n_states = 2

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float | None = None):
        super().__init__(input_size, hidden_size)
        if forget_bias is not None:
            with torch.no_grad():
                self.bias_ih[self.rows("f")] = real("forget_bias", forget_bias)
                self.bias_hh[self.rows("f")] = 0

    def update(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        h, c = state
        i, f, g, o = (projected + self._from_h(h)).chunk(4, -1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        c = f * c + i * g
        return (o * torch.tanh(c), c), (i, f, g, o)


CELLS = {"elman": ElmanCell, "minimal": MinimalGatedCell, "gru": GRUCell, "lstm": LSTMCell}
