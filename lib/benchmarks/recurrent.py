"""Recurrent stacks: the fused and the reference implementation beside torch.nn, in one run.

Run by `make bench`; prints one line per measurement, the ratios included.
"""

from __future__ import annotations

import copy
import statistics
import time

import torch
from torch import nn
from unrolled.models.recurrent import Recurrent

# (B, T, D, H, layers, two directions) and how many rounds, more of them where a step is short:
# a small tagger, a language model of the ladder, a wide one.
SHAPES = [
    ((32, 25, 32, 64, 1, True), 150),
    ((32, 64, 128, 256, 2, False), 40),
    ((16, 64, 256, 512, 1, False), 40),
]


def training_step(module: nn.Module, x: torch.Tensor) -> None:
    """Forward and backward, as one step of training runs it."""
    outputs, _ = module(x)
    outputs.square().mean().backward()
    module.zero_grad()


def side_by_side(modules: dict[str, nn.Module], x: torch.Tensor, rounds: int) -> dict[str, list]:
    """Seconds of a training step, one measurement of every module per round.

    Taking turns, and every other round in reverse, spreads what else the machine does evenly.
    """
    times: dict[str, list[float]] = {name: [] for name in modules}
    for n in range(rounds + 3):
        for name in list(modules) if n % 2 else reversed(modules):
            if x.is_cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
            training_step(modules[name], x)
            if x.is_cuda:
                torch.cuda.synchronize()
            if n >= 3:  # the first rounds warm up
                times[name].append(time.perf_counter() - begin)
    return times


def against_torch(kind: str, device: str) -> None:
    """torch.nn's speed is 1; a ratio is the median over rounds of its seconds over ours."""
    for (batch, n_steps, width, hidden_size, n_layers, bidirectional), rounds in SHAPES:
        fused = Recurrent(width, hidden_size, kind, n_layers, bidirectional).to(device)
        reference = copy.deepcopy(fused)
        reference.implementation = "reference"
        # After a copy .to() lays the weights out for cuDNN again.
        theirs = copy.deepcopy(fused).to(device).as_torch()
        x = torch.randn(batch, n_steps, width, device=device)
        torch.testing.assert_close(fused(x), theirs(x))  # what is timed computes the same
        torch.testing.assert_close(reference(x), theirs(x), rtol=1e-3, atol=1e-4)
        quick = side_by_side({"torch": theirs, "fused": fused}, x, rounds)
        slow = side_by_side({"torch": theirs, "reference": reference}, x, max(5, rounds // 5))
        print(
            f"{kind:5} {device:4} B {batch:2} T {n_steps:2} D {width:3} H {hidden_size:3} "
            f"layers {n_layers} directions {1 + bidirectional}: "
            f"torch.nn {1e3 * statistics.median(quick['torch']):6.1f} ms   "
            f"fused × {ratio(quick, 'fused'):.3f}   reference × {ratio(slow, 'reference'):.2f}"
        )


def ratio(times: dict[str, list[float]], ours: str) -> float:
    """Our speed as a multiple of torch.nn's."""
    return statistics.median(t / o for t, o in zip(times["torch"], times[ours], strict=True))


def without_kernel(device: str) -> None:
    """What the cells without a kernel cost: the reference loop beside the same loop of the GRU."""
    batch, n_steps, width, hidden_size = SHAPES[0][0][:4]
    cells = {
        "torch": Recurrent(width, hidden_size, "gru", implementation="reference"),
        "minimal": Recurrent(width, hidden_size, "minimal"),
        "gru, reset before": Recurrent(width, hidden_size, "gru", reset_after=False),
    }
    cells = {name: cell.to(device) for name, cell in cells.items()}
    times = side_by_side(cells, torch.randn(batch, n_steps, width, device=device), 30)
    for name in list(cells)[1:]:
        print(f"{name:17} {device}: × {ratio(times, name):.2f} of the GRU's reference loop")


if __name__ == "__main__":
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; speeds, torch.nn = 1")
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        for kind in ("lstm", "gru", "elman"):
            against_torch(kind, device)
        without_kernel(device)
