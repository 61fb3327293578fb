"""Stacks of recurrent cells over batches of sequences, by a readable loop or by torch's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.recurrent_cells import (
    Cell,
    ElmanCell,
    GRUCell,
    LSTMCell,
    MinimalGatedCell,
    State,
    check_input,
    check_state,
    hidden,
)

CELLS = {"elman": ElmanCell, "minimal": MinimalGatedCell, "gru": GRUCell, "lstm": LSTMCell}
IMPLEMENTATIONS = ("reference", "fused", "auto")


class Recurrent(nn.Module):
    """Layers of one kind of cell run over sequences, in one direction or both.

    Layer 1 reads the input, layer k the outputs of layer k − 1. With two directions each layer has
    a second cell that reads from each sequence's end to its beginning; the outputs of the two stand
    side by side. `cells` lists the cells layer by layer, forward before backward.

    There are two implementations over the same parameters. "reference" loops over time in Python.
    "fused" hands them to the kernels under torch.nn.RNN, GRU and LSTM (cuDNN on a GPU), which know
    neither the minimal gated cell, nor `reset_after=False`, nor a cell of one's own. "auto" is
    "fused" where there is a kernel. Two differences remain: on a GPU the fused backward pass cannot
    be differentiated again; and from one seed the two draw the same dropout masks only on a CPU and
    without padding.
    """

    def __init__(
        self,
        cell: str | type[Cell],
        input_size: int,
        hidden_size: int,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        implementation: str = "auto",
        **options,
    ):
        """A stack with fresh parameters; one seed gives those of torch's module.

        cell: "elman", "minimal", "gru", "lstm" or a subclass of `Cell`. input_size: D.
        hidden_size: H, per direction. dropout: probability in [0, 1) with which, in training, an
        entry of a layer's outputs is zeroed on its way to the next layer. options: passed on to
        the cell (`nonlinearity`, `reset_after`, `forget_bias`). Raises ValueError for sizes below
        1, an unknown name, a dropout out of range or with no next layer, "fused" without a kernel.
        """
        super().__init__()
        kind = CELLS.get(cell, cell) if isinstance(cell, str) else cell
        if not (isinstance(kind, type) and issubclass(kind, Cell)):
            raise ValueError(f"cell must be one of {', '.join(CELLS)} or a Cell, got {cell!r}")
        if isinstance(n_layers, bool) or not isinstance(n_layers, int) or n_layers < 1:
            raise ValueError(f"n_layers must be a whole number of at least 1, got {n_layers!r}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        if dropout and n_layers == 1:
            raise ValueError(f"dropout acts between layers: {dropout} has no place in one layer")
        if implementation not in IMPLEMENTATIONS:
            names = ", ".join(IMPLEMENTATIONS)
            raise ValueError(f"implementation must be one of {names}, got {implementation!r}")
        self.input_size, self.hidden_size, self.n_layers = input_size, hidden_size, n_layers
        self.bidirectional, self.dropout, self.implementation = (
            bidirectional,
            dropout,
            implementation,
        )
        self.n_directions = 2 if bidirectional else 1
        self.output_size = hidden_size * self.n_directions
        self.cells = nn.ModuleList(
            kind(input_size if layer == 0 else self.output_size, hidden_size, **options)
            for layer in range(n_layers)
            for _ in range(self.n_directions)
        )
        if implementation == "fused" and self._kernel() is None:
            raise ValueError(f"there is no fused kernel for this {kind.__name__}: {options}")

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, State]:
        """(outputs, state): h of the last layer at every step, and the state of every layer after.

        x: (B, T, D) with the parameters' dtype. state: as returned, or None for zeros; tensors
        (n_layers · directions, B, H) in the order of `cells`, a pair of them for the LSTM. The
        backward direction starts from its part of it at the end of each sequence. mask: bool
        (B, T), True where a sequence has a token, all of them on the left; or lengths: (B,), each
        from 1 to T. What x holds beyond a sequence's end changes nothing.
        outputs: (B, T, H · directions), zero beyond the end; the state is the one at the end.
        Raises ValueError or TypeError naming the shape or dtype that does not fit.
        """
        check_input(x, self.input_size, self.cells[0].weight_ih)
        if x.ndim != 3 or 0 in x.shape:
            raise ValueError(f"the input must be (B, T, D), none of them 0, got {tuple(x.shape)}")
        if state is None:
            state = self.initial_state(len(x))
        shape = (len(self.cells), len(x), self.hidden_size)
        check_state(state, self.cells[0].n_states, shape, self.cells[0].weight_ih)
        lengths = _lengths(x, mask, lengths)
        run = self._fused if self.uses_fused else self._reference
        return run(x, state, lengths)

    @property
    def uses_fused(self) -> bool:
        """Whether the next call goes to torch's kernel."""
        return self.implementation != "reference" and self._kernel() is not None

    def initial_state(self, batch_size: int) -> State:
        """Zeros, (n_layers · directions, B, H); for the LSTM a pair."""
        return self.cells[0].initial_state(len(self.cells), batch_size)

    def _reference(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Layer by layer, direction by direction, step by step."""
        x, real = x.transpose(0, 1), None  # (T, B, D)
        if lengths is not None:
            steps = torch.arange(len(x), device=x.device)
            real = (steps[:, None] < lengths.to(x.device))[..., None]  # (T, B, 1)
            x = x.masked_fill(~real, 0)  # so that not even a NaN there reaches a gradient
        ends = []
        for layer in range(self.n_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(self.n_directions):
                k = len(ends)
                start = _map(lambda s, k=k: s[k], state)
                out, end = _run(self.cells[k], x, start, real, backward=direction == 1)
                outputs.append(out)
                ends.append(end)
            x = torch.cat(outputs, -1)  # (T, B, H · directions)
        return x.transpose(0, 1), _map(lambda *s: torch.stack(s), *ends)

    def _kernel(self):
        """The torch function that computes this stack, or None."""
        cell = self.cells[0]
        if type(cell) is ElmanCell:
            return torch.rnn_tanh if cell.nonlinearity == "tanh" else torch.rnn_relu
        if type(cell) is GRUCell and cell.reset_after:
            return torch.gru
        return torch.lstm if type(cell) is LSTMCell else None

    def _fused(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """One call of the kernel under torch.nn's module, with the cells' own parameters."""
        weights = [
            parameter
            for cell in self.cells
            for parameter in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        ]
        how = (weights, True, self.n_layers, self.dropout, self.training, self.bidirectional)
        if lengths is None:
            outputs, *end = self._kernel()(x, state, *how, True)  # True: batch first
            return outputs, _as_state(end)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        state = _map(lambda s: s[:, packed.sorted_indices], state)
        data, *end = self._kernel()(packed.data, packed.batch_sizes, state, *how)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(
            packed._replace(data=data), batch_first=True, total_length=x.shape[1]
        )
        return outputs, _map(lambda s: s[:, packed.unsorted_indices], _as_state(end))

    def as_torch(self) -> nn.RNNBase:
        """A torch.nn.RNN, GRU or LSTM on these very parameters: to change one changes the other.

        So `stack.as_torch().load_state_dict(module.state_dict())` copies a module's weights here;
        its `weight_ih_l{k}` is our `cells.{k}.weight_ih`, or with two directions
        `cells.{2k}.weight_ih` and, of `weight_ih_l{k}_reverse`, `cells.{2k+1}.weight_ih`, and so on
        for weight_hh, bias_ih and bias_hh. Raises ValueError where torch has no such module.
        """
        cell = self.cells[0]
        if self._kernel() is None:
            raise ValueError(f"torch has no module for this {type(cell).__name__}")
        kind = {ElmanCell: nn.RNN, GRUCell: nn.GRU, LSTMCell: nn.LSTM}[type(cell)]
        options = {"nonlinearity": cell.nonlinearity} if kind is nn.RNN else {}
        module = kind(
            self.input_size,
            self.hidden_size,
            self.n_layers,
            batch_first=True,
            dropout=self.dropout,
            bidirectional=self.bidirectional,
            device="meta",
            **options,
        )
        names = [name for name, _ in module.named_parameters()]  # before they are replaced
        for name, parameter in zip(names, self.parameters(), strict=True):
            setattr(module, name, parameter)
        return module.train(self.training)

    def _apply(self, fn, recurse: bool = True):
        """As in torch.nn's modules: after a move to a GPU, lay the weights out as cuDNN wants."""
        super()._apply(fn, recurse)
        if self._kernel() is not None and self.cells[0].weight_ih.is_cuda:
            self.as_torch().flatten_parameters()
        return self


def detach(state: State) -> State:
    """The same numbers without their history: what truncated backpropagation carries on."""
    return _map(Tensor.detach, state)


def reset(state: State, rows: Tensor) -> State:
    """The state with zeros for the sequences where rows, bool (B,), is True; a new tensor.

    state: tensors (..., B, H). Raises ValueError where rows does not fit.
    """
    batch = hidden(state).shape[-2]
    if rows.dtype != torch.bool or rows.shape != (batch,):
        raise ValueError(f"rows must be bool ({batch},), got {rows.dtype} {tuple(rows.shape)}")
    return _map(lambda s: s.masked_fill(rows[:, None], 0), state)


def _run(cell: Cell, x: Tensor, state: State, real: Tensor | None, backward: bool):
    """One cell along (T, B, D): outputs (T, B, H) and the state after the last real step.

    Where a step is padding the state stands still. So the backward direction, which meets a
    sequence's padding first, still begins with the state it was given.
    """
    projected = cell.project(x).unbind(0)
    outputs = [x] * len(x)
    for t in reversed(range(len(x))) if backward else range(len(x)):
        new = cell.update(projected[t], state)
        state = new if real is None else _map(lambda n, s, t=t: n.where(real[t], s), new, state)
        outputs[t] = hidden(state)
    stacked = torch.stack(outputs)
    return (stacked if real is None else stacked.masked_fill(~real, 0)), state


def _lengths(x: Tensor, mask: Tensor | None, lengths) -> Tensor | None:
    """int64 (B,) on the CPU, where pack_padded_sequence wants it; None if nothing is padding."""
    batch, n_steps = x.shape[:2]
    if mask is not None:
        if lengths is not None:
            raise ValueError("give a mask or lengths, not both")
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            raise TypeError(f"mask must be a bool tensor, got {getattr(mask, 'dtype', type(mask))}")
        if mask.shape != (batch, n_steps):
            raise ValueError(f"mask must have shape {(batch, n_steps)}, got {tuple(mask.shape)}")
        lengths = mask.sum(1)
        if not torch.equal(mask, torch.arange(n_steps, device=mask.device) < lengths[:, None]):
            raise ValueError("mask must be True up to a sequence's end and False after it")
    elif lengths is None:
        return None
    lengths = torch.as_tensor(lengths).cpu()
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be whole numbers, got {lengths.dtype}")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths must have shape ({batch},), got {tuple(lengths.shape)}")
    if lengths.min() < 1 or lengths.max() > n_steps:
        raise ValueError(f"lengths must lie between 1 and {n_steps}, got {lengths.tolist()}")
    return None if lengths.min() == n_steps else lengths.long()


def _map(f, *states: State) -> State:
    """f on the tensors of states, whether h alone or (h, c)."""
    if isinstance(states[0], tuple):
        return tuple(f(*tensors) for tensors in zip(*states, strict=True))
    return f(*states)


def _as_state(tensors: list[Tensor]) -> State:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def keras_gru_weights(
    kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor
) -> tuple[dict[str, Tensor], bool]:
    """(state_dict, reset_after) of the `GRUCell` that computes what keras.layers.GRU computes.

    kernel: (D, 3H), recurrent_kernel: (H, 3H), columns in the order z, r, h. bias: (2, 3H), its
    rows for x and for h, as `reset_after=True` has it; or (3H,), as `reset_after=False` has it.
    Raises ValueError for other shapes.
    """
    width = recurrent_kernel.shape[-1]
    expected = (kernel.ndim == 2, kernel.shape[-1] == width, bias.shape in ((width,), (2, width)))
    if not all(expected) or recurrent_kernel.shape != (width // 3, width) or width % 3:
        shapes = [tuple(a.shape) for a in (kernel, recurrent_kernel, bias)]
        raise ValueError(f"expected (D, 3H), (H, 3H) and (2, 3H) or (3H,), got {shapes}")

    def reorder(columns: Tensor) -> Tensor:
        z, r, h = columns.chunk(3, -1)
        return torch.cat([r, z, h], -1)

    reset_after = bias.ndim == 2
    bias_x, bias_h = bias if reset_after else (bias, torch.zeros_like(bias))
    weights = {
        "weight_ih": reorder(kernel).T,
        "weight_hh": reorder(recurrent_kernel).T,
        "bias_ih": reorder(bias_x),
        "bias_hh": reorder(bias_h),
    }
    return weights, reset_after
