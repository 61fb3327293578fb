"""What tests share: how outputs and gradients are compared, what is refused, small models."""

import sys

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close


def close(got, expected, tolerance=1e-12) -> None:
    """Tensors, or sequences of them, are equal up to an absolute tolerance."""
    assert_close(got, expected, rtol=0, atol=tolerance)


def refuses(*rows, of=lambda call: call(), error=ValueError):
    """A test that each row is refused: what is given, its error unless it is `error`, the message.

    of: whom it is given to; left out, it is a function itself.
    """

    @pytest.mark.parametrize("row", rows, ids=[row[-1] for row in rows])
    def test(row):
        *given, message = row
        own = isinstance(given[-1], type) and issubclass(given[-1], Exception)
        with pytest.raises(given.pop() if own else error, match=message):
            of(*given)

    return test


def with_gradients(f, *inputs: Tensor) -> list[Tensor]:
    """f(*inputs), and the gradients of a sum in which each of its entries has another weight.

    They are those of the inputs, and of the parameters if f is a module.
    """
    output = f(*inputs)
    weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype, device=output.device)
    wanted = [*inputs, *(f.parameters() if isinstance(f, nn.Module) else ())]
    return [output, *torch.autograd.grad((weights.view_as(output) * output).sum(), wanted)]


def randomised(module: nn.Module, std: float = 0.5) -> nn.Module:
    """The module with random biases and norms as well, so that one that is lost shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=std)
    return module


def passes_gradcheck(module: nn.Module, *inputs: Tensor, f=None, **options) -> bool:
    """Whether the gradients of inputs and parameters are those of finite differences.

    f: what is made of the module's output; a tensor of integers has no gradient.
    """
    names, n = [name for name, _ in module.named_parameters()], len(inputs)

    def run(*given):
        named = dict(zip(names, given[n:], strict=True))
        output = torch.func.functional_call(module, named, given[:n])
        return output if f is None else f(output)

    given = [x.detach().clone() for x in (*inputs, *module.parameters())]
    return torch.autograd.gradcheck(
        run, [x.requires_grad_(x.is_floating_point()) for x in given], **options
    )


def lines_run(work, files) -> int:
    """How many lines of these files `work` runs: as good as a time, the same everywhere."""
    n_lines, before = 0, sys.gettrace()

    def trace(frame, event, _):
        nonlocal n_lines
        n_lines += event == "line"
        return trace if frame.f_code.co_filename in files else None

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return n_lines


def up_to(*lengths: int, width: int, device="cpu") -> Tensor:
    """The mask (B, width) of sequences of these lengths: True where a token stands."""
    return torch.arange(width, device=device) < torch.tensor(lengths, device=device)[:, None]


def bigram(vocab_size: int, dropout=0.0, *, width=3, seed=1, dtype=torch.float32) -> nn.Sequential:
    """(B, T) ids → (B, T, V) logits: embedding, dropout, linear; the same for the same seed."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        layers = nn.Embedding(vocab_size, width), nn.Dropout(dropout), nn.Linear(width, vocab_size)
        return nn.Sequential(*layers).to(dtype)


class Fixed(nn.Module):
    """The same logits after any text."""

    def __init__(self, logits, context_length: int | None = None):
        super().__init__()
        self.logits = nn.Parameter(torch.as_tensor(logits, dtype=torch.get_default_dtype()))
        self.context_length = context_length

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits.expand(*tokens.shape, -1)
