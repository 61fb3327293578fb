"""Stacks of recurrent cells over batches of sequences (chapters 9 and 11).

A readable loop over time and torch's fused kernels compute the same from the same parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.recurrent_cells import CELLS, Cell, ElmanCell, GRUCell, LSTMCell, State, hidden
from unrolled.models.tensors import check_floats
from unrolled.validate import checked, instance, one_of, real, whole


class Recurrent(nn.Module):
    """Layers of one kind of cell run over sequences, in one direction or both.

    With two directions each layer has a second cell that reads each sequence from its end to its
    beginning; the outputs of the two stand side by side. `cells` lists the cells layer by layer,
    forward before backward.

    "reference" loops over time in Python. "fused" calls the kernels under torch.nn.RNN, GRU and
    LSTM (cuDNN on a GPU); "auto" does so where there is one: not for the minimal gated cell,
    `reset_after=False` or your own cell. On a GPU the fused backward pass cannot be differentiated
    again, and one seed gives both the same dropout masks only on a CPU and without padding. Both
    compute in the parameters' dtype, without autocast, under which cuDNN would take float16.
    """

    @checked
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell: str | type[Cell] = "lstm",
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        implementation: str = "auto",
        **options,
    ):
        """input_size: D. hidden_size: H, per direction. cell: "elman", "minimal", "gru", "lstm" or
        a subclass of `Cell`. dropout: probability in [0, 1) with which, in training, an entry of a
        layer's outputs is zeroed on its way to the next layer. options: of the cell, as
        `forget_bias`. One seed gives the parameters of torch's module.

        Raises ValueError or TypeError for what is
        out of range, dropout without a next layer, "fused" without a kernel.
        """
        super().__init__()
        kind = CELLS.get(cell) if isinstance(cell, str) else cell
        if not (isinstance(kind, type) and issubclass(kind, Cell)):
            raise ValueError(f"cell must be one of {', '.join(CELLS)} or a Cell, got {cell!r}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.n_layers = whole("n_layers", n_layers)
        self.dropout = real("dropout", dropout, 0, below=1)
        if dropout and n_layers == 1:
            raise ValueError(f"dropout acts between layers: {dropout} has no place in one layer")
        modes = ("reference", "fused", "auto")
        self.implementation = one_of("implementation", implementation, modes)
        self.bidirectional, self.n_directions = bidirectional, 2 if bidirectional else 1
        self.output_size = hidden_size * self.n_directions
        self.cells = nn.ModuleList(
            kind(input_size if layer == 0 else self.output_size, hidden_size, **options)
            for layer in range(n_layers)
            for _ in range(self.n_directions)
        )
        if implementation == "fused" and self._kernel() is None:
            raise ValueError(f"there is no fused kernel for this {kind.__name__}: {options}")

    def forward(
        self, x: Tensor, state: State | None = None, *, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """(outputs, state): h of the last layer at every step, and the final state of every layer.

        x: (B, T, D) with the parameters' dtype. state: as returned, or None for zeros; tensors
        (n_layers · directions, B, H) in the order of `cells`, a pair of them for the LSTM; backward
        cells begin with theirs at the end of each sequence. mask: bool (B, T), True where a
        sequence has a token: at least one, all on the left. What x holds at padding changes
        nothing. outputs: (B, T, H · directions), zero at padding.
        Raises ValueError or TypeError for a shape or dtype that does not fit.
        """
        cell, dtype = self.cells[0], self.cells[0].weight_ih.dtype
        cell.check_kind("the input", x)
        if x.ndim != 3 or x.shape[2] != self.input_size or 0 in x.shape:
            size = f"(B, T, {self.input_size})"
            raise ValueError(f"the input must be {size}, none of them 0, got {tuple(x.shape)}")
        batch = len(self.cells), len(x)
        if state is None:
            state = cell.initial_state(*batch)
        else:
            cell.check_state(state, *batch)
            # a state from inference mode cannot be saved for a backward pass, its copy can
            state = _map(lambda s: s.to(dtype, copy=True), state)
        lengths = None if mask is None else _lengths(x, mask)
        fused = self.implementation != "reference" and self._kernel() is not None
        run = self._fused if fused else self._reference
        with torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False):
            return run(x.to(dtype), state, lengths)

    def _reference(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Layer by layer, direction by direction, step by step."""
        x, present = x.transpose(0, 1), None  # (T, B, D)
        if lengths is not None:
            steps = torch.arange(len(x), device=x.device)
            present = (steps[:, None] < lengths.to(x.device))[..., None]  # (T, B, 1)
            x = x.masked_fill(~present, 0)  # so that not even a NaN there reaches a gradient
        ends = []
        for layer in range(self.n_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for backward in range(self.n_directions):
                k = len(ends)
                start = _map(lambda s, k=k: s[k], state)
                out, end = _run(self.cells[k], x, start, present, backward)
                outputs.append(out)
                ends.append(end)
            x = torch.cat(outputs, -1)  # (T, B, H · directions)
        return x.transpose(0, 1), _map(lambda *s: torch.stack(s), *ends)

    def _kernel(self):
        """The torch function that computes this stack, or None."""
        cell = self.cells[0]
        if type(cell) is ElmanCell:
            return torch.rnn_tanh if cell.nonlinearity == "tanh" else torch.rnn_relu
        if type(cell) is GRUCell:
            return torch.gru if cell.reset_after else None
        return torch.lstm if type(cell) is LSTMCell else None

    def _fused(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """One call of the kernel under torch.nn's module, with the cells' own parameters."""
        weights = list(self.cells.parameters())  # of each cell: weight_ih, weight_hh, two biases
        dropout = self.dropout * self.training
        trains = self.training or torch.is_grad_enabled()  # else cuDNN keeps nothing for a backward
        how = (weights, True, self.n_layers, dropout, trains, self.bidirectional)
        if lengths is None:
            outputs, *end = self._kernel()(x, state, *how, True)  # True: batch first
        else:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
            state = _map(lambda s: s[:, packed.sorted_indices], state)
            data, *end = self._kernel()(packed.data, packed.batch_sizes, state, *how)
            end = [s[:, packed.unsorted_indices] for s in end]
            packed = packed._replace(data=data)
            outputs, _ = nn.utils.rnn.pad_packed_sequence(packed, True, total_length=x.shape[1])
        return outputs, end[0] if len(end) == 1 else tuple(end)

    def as_torch(self) -> nn.RNNBase:
        """A torch.nn.RNN, GRU or LSTM that shares these parameters, in the same order.

        So `stack.as_torch().load_state_dict(module.state_dict())` copies a module's weights here.
        Raises ValueError where torch has no such module.
        """
        cell = self.cells[0]
        if self._kernel() is None:
            raise ValueError(f"torch has no module for this {type(cell).__name__}")
        kind = {ElmanCell: nn.RNN, GRUCell: nn.GRU, LSTMCell: nn.LSTM}[type(cell)]
        options = {"nonlinearity": cell.nonlinearity} if kind is nn.RNN else {}
        options |= {"dropout": self.dropout, "bidirectional": self.bidirectional, "device": "meta"}
        sizes = self.input_size, self.hidden_size, self.n_layers
        module = kind(*sizes, batch_first=True, **options)
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


def select(state: State, rows: Tensor) -> State:
    """The state of these rows of the batch, int64 (B',), in this order; one may come twice."""
    return _map(lambda s: s.index_select(1, rows), state)


def _run(cell: Cell, x: Tensor, state: State, present: Tensor | None, backward: bool):
    """One cell along (T, B, D): outputs (T, B, H) and the state after the last real step.

    Padding leaves the state as it is. So the backward direction, which meets a sequence's padding
    first, still begins with the state it was given.
    """
    projected = cell.project(x).unbind(0)
    outputs = [x] * len(x)
    for t in reversed(range(len(x))) if backward else range(len(x)):
        new, _ = cell.update(projected[t], state)
        if present is not None:
            new = _map(lambda n, s, t=t: n.where(present[t], s), new, state)
        state = new
        outputs[t] = hidden(state)
    stacked = torch.stack(outputs)
    return (stacked if present is None else stacked.masked_fill(~present, 0)), state


def _lengths(x: Tensor, mask: Tensor) -> Tensor | None:
    """int64 (B,) on the CPU, as pack_padded_sequence wants it; None if nothing is padding."""
    if instance("mask", mask, Tensor).dtype != torch.bool or mask.shape != x.shape[:2]:
        got = f"{mask.dtype} {tuple(mask.shape)}"
        raise ValueError(f"mask must be bool {tuple(x.shape[:2])}, got {got}")
    mask = mask.cpu()  # once: each of the questions below would wait for a GPU
    if not mask[:, 0].all() or (mask[:, 1:] & ~mask[:, :-1]).any():
        raise ValueError("each row of mask must be True up to a sequence's end, False after it")
    return None if mask.all() else mask.sum(1)


def _map(f, *states: State) -> State:
    """f on the tensors of the states, h alone or h and c."""
    if isinstance(states[0], tuple):
        return tuple(f(*tensors) for tensors in zip(*states, strict=True))
    return f(*states)


def keras_gru_weights(
    kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor
) -> tuple[dict[str, Tensor], bool]:
    """(state_dict, reset_after) of the `GRUCell` that computes what keras.layers.GRU computes.

    kernel: (D, 3H), recurrent_kernel: (H, 3H), columns in the order z, r, h. bias: (2, 3H), its
    rows for x and for h, with `reset_after=True`; or (3H,), with `reset_after=False`. Raises
    ValueError for other shapes.
    """
    check_floats(kernel=kernel, recurrent_kernel=recurrent_kernel, bias=bias)
    shapes, size = [tuple(a.shape) for a in (kernel, recurrent_kernel, bias)], kernel.shape[-1]
    fits = kernel.ndim == 2 and shapes[1] == (size // 3, size) and size % 3 == 0
    if not fits or shapes[2] not in ((size,), (2, size)):
        raise ValueError(f"expected (D, 3H), (H, 3H) and (2, 3H) or (3H,), got {shapes}")
    reset_after = bias.ndim == 2
    bias_x, bias_h = bias if reset_after else (bias, torch.zeros_like(bias))
    theirs = {"weight_ih": kernel.T, "weight_hh": recurrent_kernel.T}
    theirs |= {"bias_ih": bias_x, "bias_hh": bias_h}
    parts = {name: x.chunk(3) for name, x in theirs.items()}
    return {name: torch.cat([r, z, h]) for name, (z, r, h) in parts.items()}, reset_after
