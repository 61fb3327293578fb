"""The Transformer: our language model beside others of its size, and fused beside plain attention.

Run by `make bench`; prints one line per measurement, the ratios included. On a CPU times are
processor seconds of one thread, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.models.attention import attend
from unrolled.models.reference_weights import load_reference_weights
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.cost import parameters

# (layers, D, heads, V, T, B): a model of the ladder, twice its width, and a large vocabulary.
SHAPES = [(4, 128, 4, 89, 128, 8), (4, 256, 4, 89, 128, 8), (4, 256, 4, 8192, 128, 8)]
LENGTHS = (1024, 2048, 4096, 8192)
GPT2 = (12, 768, 12, 50_304, 1024, 32)  # V filled up to a multiple of 64
ROUNDS = 12

Step = Callable[[], None]


def seconds(step: Step, device: str) -> float:
    """What one call takes: of the processor, or on the clock until the GPU is done."""
    if device == "cpu":
        begin = time.process_time()
        step()
        return time.process_time() - begin
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def side_by_side(steps: dict[str, Step], device: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of every step in every round; they take turns, every other round in reverse."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for n in range(rounds + 2):
        for name in list(steps) if n % 2 else reversed(steps):
            taken = seconds(steps[name], device)
            if n >= 2:  # the first rounds warm up
                times[name].append(taken)
    return times


def ratio(times: dict[str, list[float]], ours: str, theirs: str) -> float:
    """The speed of `ours` as a multiple of theirs: the median over the rounds."""
    pairs = zip(times[theirs], times[ours], strict=True)
    return statistics.median(t / o for t, o in pairs)


def loss_of(logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """(inputs (B, T), targets (B, T)) → the mean loss."""

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits(inputs).flatten(0, 1), targets.flatten())

    return loss


def loss_in_chunks(model: TransformerLM, rows: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The same mean loss, by torch's operation that holds the logits of `rows` tokens at a time."""

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        x = model.stack(model.embed(inputs)).flatten(0, 1)
        options = nn.LinearCrossEntropyOptions(batch_chunk_size=rows)
        return F.linear_cross_entropy(x, model.head.weight, targets.flatten(), options=options)

    return loss


def training_step(model: nn.Module, loss: Callable, tokens: Tensor, **options) -> Step:
    """Forward, backward and AdamW on the next tokens, in bfloat16 on a GPU, as a fit runs them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=tokens.is_cuda):
            value = loss(tokens[:, :-1], tokens[:, 1:])
        value.backward()
        optimizer.step()

    return step


def against_transformers(shape: tuple[int, ...], rounds: int = ROUNDS) -> None:
    """GPT-2 in transformers (its fastest attention, no dropout, no cache), of equal weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    n_layers, width, n_heads, vocab_size, length, batch = shape
    reference = GPT2LMHeadModel(
        GPT2Config(
            n_layer=n_layers, n_embd=width, n_head=n_heads, vocab_size=vocab_size,
            n_positions=length, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            attn_implementation="sdpa", bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip
    ours = TransformerLM(
        preset(
            "gpt2", n_layers=n_layers, d_model=width, n_heads=n_heads, vocab_size=vocab_size,
            context_length=length, dropout=0.0,
        )
    )  # fmt: skip
    load_reference_weights(ours, reference.state_dict(), "gpt2")
    tokens = torch.randint(vocab_size, (batch, length + 1))

    def their_logits(x: Tensor) -> Tensor:
        return reference(x, use_cache=False).logits

    # What is timed computes the same.
    torch.testing.assert_close(ours(tokens[:, 1:]), their_logits(tokens[:, 1:]))
    steps = {
        "ours": training_step(ours, loss_of(ours), tokens),
        "theirs": training_step(reference, loss_of(their_logits), tokens),
    }
    times = side_by_side(steps, "cpu", rounds)
    print(
        f"training step, {n_layers} layers, D {width}, V {vocab_size}, T {length}, B {batch}: "
        f"transformers {1e3 * statistics.median(times['theirs']):.0f} ms, "
        f"ours × {ratio(times, 'ours', 'theirs'):.3f}"
    )


def peak_of(step: Step, device: str) -> float:
    """MiB that a step needs at most beyond what was held before; NaN where nobody counts."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept does not count
        Path("/proc/self/clear_refs").write_text("5")  # Linux: begin the peak anew
        before = _status("VmRSS")
        step()
        return (_status("VmHWM") - before) / 2**10
    return math.nan


def _status(name: str) -> int:
    """kB, as Linux counts them for this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def chunks_against_all_logits(rounds: int = 4) -> None:
    """A training step with a vocabulary of GPT-2's size, by the way its loss is computed."""
    torch.manual_seed(0)
    config = preset(
        "gpt2", n_layers=4, d_model=256, n_heads=4, context_length=128, vocab_size=50_304,
        dropout=0.0,
    )  # fmt: skip
    model, tokens = TransformerLM(config), torch.randint(50_304, (8, 129))
    losses = {"all logits": loss_of(model), "chunks": loss_in_chunks(model, 256)}
    values, gradients = {}, {}
    for name, loss in losses.items():
        values[name] = loss(tokens[:, :-1], tokens[:, 1:])
        gradients[name] = torch.autograd.grad(values[name], model.parameters())
    torch.testing.assert_close(values["chunks"], values["all logits"])
    torch.testing.assert_close(gradients["chunks"], gradients["all logits"], rtol=1e-4, atol=1e-6)
    del values, gradients
    steps = {name: training_step(model, loss, tokens) for name, loss in losses.items()}
    times = side_by_side(steps, "cpu", rounds)
    peaks = {name: peak_of(step, "cpu") for name, step in steps.items()}
    print(
        f"training step, D 256, V 50304, T 128, B 8: all logits {peaks['all logits']:.0f} MiB, in "
        f"chunks {peaks['chunks']:.0f} MiB, × {ratio(times, 'chunks', 'all logits'):.2f} as fast"
    )


def fused_against_reference(device: str) -> None:
    """Causal attention, forward and backward: the seconds and the memory of both paths by T."""
    heads, width = (1, 64) if device == "cpu" else (16, 64)
    for length in LENGTHS:
        shape = (1, heads, length, width)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        q, k, v = (torch.randn(shape, device=device, dtype=dtype).requires_grad_() for _ in "qkv")
        steps = {name: attention_step(name, q, k, v) for name in ("fused", "reference")}
        times = side_by_side(steps, device, 3)
        peaks = {name: peak_of(step, device) for name, step in steps.items()}
        milliseconds = {name: 1e3 * statistics.median(t) for name, t in times.items()}
        print(
            f"attention {device}, T {length}: reference {milliseconds['reference']:.1f} ms "
            f"{peaks['reference']:.0f} MiB, fused {milliseconds['fused']:.1f} ms "
            f"{peaks['fused']:.0f} MiB: × {ratio(times, 'fused', 'reference'):.2f} as fast, "
            f"1/{peaks['reference'] / max(peaks['fused'], 1):.0f} of the memory"
        )


def attention_step(implementation: str, *qkv: Tensor) -> Step:
    """Forward and backward of causal attention."""

    def step() -> None:
        output = attend(*qkv, causal=True, implementation=implementation)
        torch.autograd.grad(output.sum(), qkv)

    return step


class PlainGPT2(nn.Module):
    """GPT-2 as one would write it down: fused projections, torch's kernels, nothing else."""

    def __init__(self, n_layers: int, width: int, n_heads: int, vocab_size: int, length: int):
        super().__init__()
        self.n_heads = n_heads
        self.tokens, self.places = nn.Embedding(vocab_size, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({
                "norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width),
                "out": nn.Linear(width, width), "norm2": nn.LayerNorm(width),
                "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            })
            for _ in range(n_layers)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) → (B, T, V)."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for b in self.blocks:
            qkv = b.qkv(b.norm1(x)).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*qkv, is_causal=True)  # (B, H, T, K)
            x = x + b.out(y.transpose(1, 2).flatten(2))
            x = x + b.down(F.gelu(b.up(b.norm2(x)), approximate="tanh"))
        return self.head(self.norm(x))


def matrix_ceiling(size: int = 8192) -> float:
    """Floating-point operations per second of a large bfloat16 matrix product."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    times = side_by_side({"product": lambda: a @ b}, "cuda", 20)["product"]
    return 2 * size**3 / statistics.median(times)


def at_full_size() -> None:
    """GPT-2 on a GPU, bfloat16, compiled: ours beside a plain one; a line for each."""
    n_layers, width, _, vocab_size, length, batch = GPT2
    config = preset("gpt2", vocab_size=vocab_size, dropout=0.0)
    # 6 operations for each parameter but the table of positions, and attention's products: 12·L·D·T
    # for a full square, of which a causal kernel does half.
    count = parameters(config)["total"] - length * width
    operations = 6 * count + 12 * n_layers * width * length // 2
    ceiling = matrix_ceiling()
    print(f"{torch.cuda.get_device_name()}: bf16 matrix product {ceiling / 1e12:.0f} TFLOP/s")
    tokens = torch.randint(vocab_size, (batch, length + 1), device="cuda")
    for compiled in (False, True):
        times, peaks = {}, {}
        # One after the other: two do not share the memory well.
        for name in ("plain", "ours", "ours, loss in chunks"):
            torch.manual_seed(0)
            with torch.device("cuda"):
                model = PlainGPT2(*GPT2[:5]) if name == "plain" else TransformerLM(config)
            loss = loss_in_chunks(model, 4096) if "chunks" in name else loss_of(model)
            loss = torch.compile(loss) if compiled else loss
            step = training_step(model, loss, tokens, fused=True)
            times |= side_by_side({name: step}, "cuda", 15)
            peaks[name] = (peak_of(step, "cuda") + torch.cuda.memory_allocated() / 2**20) / 2**10
            del model, loss, step
            torch.cuda.empty_cache()
        for name, taken in times.items():
            rate = batch * length / statistics.median(taken)
            print(
                f"GPT-2 {'compiled' if compiled else 'eager'}, {name}: {rate / 1e3:.0f} k tokens/s "
                f"({rate * operations / ceiling:.0%} of the product's), {peaks[name]:.1f} GiB"
            )
        for name in list(times)[1:]:
            print(f"{name} × {ratio(times, name, 'plain'):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread on the CPU; speeds, the other one = 1")
    for shape in SHAPES:
        against_transformers(shape)
    chunks_against_all_logits()
    fused_against_reference("cpu")
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        fused_against_reference("cuda")
        at_full_size()
