"""Selective state spaces: a recurrence whose steps are linear, so that a scan can compute them.

The state keeps one size however long the text is. Chapter 24d derives the layer, Mamba, and
measures it against attention. The paper's A, B, C and D are here −exp(log_decay), write, read and
skip; B and D are axes, batch and model width, as everywhere in the book.
"""

from __future__ import annotations

import math
from types import NoneType
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.tensors import check_floats
from unrolled.validate import checked, instance, one_of, whole

RULES = ("euler", "zero-order hold")


def discretise(
    step: Tensor, decay: Tensor, write: Tensor, *, rule: str = "euler"
) -> tuple[Tensor, Tensor]:
    """(keep, add) of h_t = keep_t · h_{t−1} + add_t · x_t, from h′ = decay · h + write · x.

    keep = exp(step · decay), (B, T, F, N), is exact while x rests for the time `step` (zero-order
    hold). add = step · write is Euler's, and what Mamba's code computes; its paper's equation 4 has
    the zero-order hold's, (exp(step · decay) − 1) / decay · write, which is smaller: by half where
    step · |decay| = 1.6.

    step: (B, T, F), above 0. decay: (F, N), below 0. write: (B, T, N). rule: of `add`, one of
    RULES. Raises ValueError for another. Source: Gu & Dao (2023), section 2 and algorithm 2.
    """
    check_floats(step=step, decay=decay, write=write)
    if step.ndim != 3 or (*step.shape[:2], *decay.shape) != (*step.shape, write.shape[-1]):
        shapes = f"{tuple(step.shape)}, {tuple(decay.shape)} and {tuple(write.shape)}"
        raise ValueError(f"expected step (B, T, F), decay (F, N) and write (B, T, N), got {shapes}")
    exponent = step[..., None] * decay  # (B, T, F, N)
    if one_of("rule", rule, RULES) == "euler":
        factor = step[..., None]
    else:
        factor = torch.expm1(exponent) / decay
    return exponent.exp(), factor * write[:, :, None, :]


def scan(keep: Tensor, add: Tensor, state: Tensor | None = None) -> Tensor:
    """All h_t = keep_t · h_{t−1} + add_t, (B, T, …), one step after another.

    keep, add: (B, T, …). state: h_0, (B, …); zeros when left out. Raises ValueError for shapes that
    differ.
    """
    add = _with_state(keep, add, state)
    states = [add[:, 0]]
    for t in range(1, add.shape[1]):
        states.append(keep[:, t] * states[-1] + add[:, t])
    return torch.stack(states, 1)


def parallel_scan(keep: Tensor, add: Tensor, state: Tensor | None = None) -> Tensor:
    """What `scan` gives, in ⌈log₂ T⌉ rounds that each treat all positions at once.

    Two steps in a row are one step, (k₁, a₁) then (k₂, a₂): h ↦ k₁k₂·h + (k₂a₁ + a₂). That is
    associative, so a round joins each position's step with the one `width` before it, and the next
    round doubles the width. It does T log T work where the loop does T. Raises as `scan` does.
    Source: Hillis & Steele (1986); Blelloch (1990), section 1.4.
    """
    add, width = _with_state(keep, add, state), 1
    while width < add.shape[1]:
        joined = keep[:, width:] * add[:, :-width] + add[:, width:]
        keep = torch.cat([keep[:, :width], keep[:, width:] * keep[:, :-width]], 1)
        add = torch.cat([add[:, :width], joined], 1)
        width *= 2
    return add


SCANS = {"loop": scan, "parallel": parallel_scan}


def _with_state(keep: Tensor, add: Tensor, state: Tensor | None) -> Tensor:
    """add with the state before the first step in it, so that the scans begin at zero."""
    check_floats(keep=keep, add=add)
    if keep.shape != add.shape or keep.ndim < 2 or not keep.shape[1]:
        shapes = f"{tuple(keep.shape)} and {tuple(add.shape)}"
        raise ValueError(f"keep and add must have one shape (B, T, …), T ≥ 1, got {shapes}")
    if state is None:
        return add
    check_floats(state=state)
    if state.shape != add[:, 0].shape:
        expected, got = tuple(add[:, 0].shape), tuple(state.shape)
        raise ValueError(f"the state must be {expected}, got {got}")
    return torch.cat([(keep[:, 0] * state + add[:, 0])[:, None], add[:, 1:]], 1)


class SelectiveState(NamedTuple):
    """All that a `Mamba` layer remembers, whatever it has read."""

    recent: Tensor  # (B, F, width − 1), the convolution's last inputs
    hidden: Tensor  # (B, F, N)


class Mamba(nn.Module):
    """A selective state space between two linear maps, with a short convolution and a gate.

    u, z = in_proj(x); u = silu(conv(u)); step, write, read = maps of u; then for each of F channels
    h_t = keep_t ⊙ h_{t−1} + add_t u_t, as `discretise` has it, and y_t = read_t · h_t + skip · u_t;
    the output is out_proj(y ⊙ silu(z)). A step far above 0 lets u_t into the state and forgets the
    past, one near 0 keeps the state as it is: the input selects, which no fixed recurrence can.

    Weights: in_proj (2F, D), u's rows first; conv (F, 1, width); x_proj (rank + 2N, F) gives the
    step's small form, write and read; step_proj (F, rank), bias (F,), before the softplus;
    log_decay (F, N); skip (F,); out_proj (D, F). Source: Gu & Dao (2023), figure 3, algorithm 2.
    """

    @checked
    def __init__(
        self,
        d_model: int,
        *,
        d_inner: int | None = None,
        d_state: int = 16,
        step_rank: int | None = None,
        conv_width: int = 4,
        scan: str = "parallel",
    ):
        """d_model: D. d_inner: F; None: 2·D. d_state: N. step_rank: None: ⌈D/16⌉. scan: one of
        SCANS. Decays begin at −1 … −N, steps between 0.001 and 0.1, as the paper's code has them.
        Raises ValueError or TypeError for another scan and sizes that are no integers from 1 on.
        """
        super().__init__()
        D, N = whole("d_model", d_model), whole("d_state", d_state)
        self.d_state = N
        self.d_inner = whole("d_inner", 2 * D if d_inner is None else d_inner)
        self.step_rank = whole("step_rank", -(-D // 16) if step_rank is None else step_rank)
        self.scan = SCANS[one_of("scan", scan, SCANS)]
        width = whole("conv_width", conv_width)
        self.in_proj = nn.Linear(D, 2 * self.d_inner, bias=False)
        self.conv = nn.Conv1d(self.d_inner, self.d_inner, width, groups=self.d_inner)
        self.x_proj = nn.Linear(self.d_inner, self.step_rank + 2 * N, bias=False)
        self.step_proj = nn.Linear(self.step_rank, self.d_inner)
        decays = torch.arange(1.0, N + 1).log()
        self.log_decay = nn.Parameter(decays.repeat(self.d_inner, 1))  # (F, N)
        self.skip = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, D, bias=False)
        nn.init.uniform_(self.step_proj.weight, -(self.step_rank**-0.5), self.step_rank**-0.5)
        with torch.no_grad():
            steps = torch.empty(self.d_inner).uniform_(math.log(1e-3), math.log(0.1)).exp()
            self.step_proj.bias.copy_(steps + (-torch.expm1(-steps)).log())  # softplus backwards

    def forward(
        self, x: Tensor, state: SelectiveState | None = None
    ) -> tuple[Tensor, SelectiveState]:
        """(outputs (B, T, D), state after the last position) from x (B, T, D), T ≥ 1.

        state: as returned; None: nothing was read. A text read in pieces gives the outputs of
        reading it at once, down to single positions. Raises ValueError for another shape.
        """
        check_floats(x=x)
        instance("state", state, SelectiveState, NoneType)
        D = self.in_proj.in_features
        if x.ndim != 3 or x.shape[2] != D or not x.shape[1]:
            raise ValueError(f"expected x (B, T, {D}), got {tuple(x.shape)}: T must be at least 1")
        begin = self.new_state(x)
        state = begin if state is None else state
        shapes = [tuple(map(tuple, (s.recent.shape, s.hidden.shape))) for s in (begin, state)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"the state must be of shapes {shapes[0]}, got {shapes[1]}")
        u, gate = self.in_proj(x).chunk(2, -1)  # (B, T, F)
        u = torch.cat([state.recent, u.transpose(1, 2)], 2)  # (B, F, width − 1 + T)
        recent = u[:, :, u.shape[2] - state.recent.shape[2] :]
        u = F.silu(self.conv(u)).transpose(1, 2)  # (B, T, F)
        step, write, read = self.x_proj(u).split([self.step_rank, *2 * [self.d_state]], -1)
        step = F.softplus(self.step_proj(step))  # (B, T, F)
        keep, add = discretise(step, -self.log_decay.exp(), write)
        hidden = self.scan(keep, add * u[..., None], state.hidden)  # (B, T, F, N)
        y = (hidden * read[:, :, None, :]).sum(-1) + self.skip * u
        return self.out_proj(y * F.silu(gate)), SelectiveState(recent, hidden[:, -1])

    def new_state(self, x: Tensor) -> SelectiveState:
        """The state before the first position: zeros, for the batch and in the dtype of x."""
        size, recent = (len(x), self.d_inner), self.conv.kernel_size[0] - 1
        return SelectiveState(x.new_zeros(*size, recent), x.new_zeros(*size, self.d_state))
