"""`fit` beside a plain loop, our Transformer beside transformers', fused beside plain attention.

Run by `make bench`; prints one line per measurement, the ratios included. On a CPU times are
processor seconds of one thread, so that what else runs on the machine counts little. On a GPU the
first lines are GPT-2 with 124 M parameters, T = 1024, B = 32, bfloat16: tokens per second and the
peak of memory, eager and compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.models import pretrained
from unrolled.models.attention import attend
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.fit import FitConfig, fit, next_token_loss
from unrolled.training.schedule import cosine

# (layers, D, heads, V, T, B): a model of the ladder, twice its width, and a large vocabulary.
SHAPES = [(4, 128, 4, 89, 128, 8), (4, 256, 4, 89, 128, 8), (4, 256, 4, 8192, 128, 8)]
SMALL = (2, 64, 2, 89, 64, 8)  # to compile
LENGTHS = (1024, 2048, 4096, 8192)
GPT2 = (12, 768, 12, 50_304, 1024, 32)  # V filled up to a multiple of 64
ROUNDS, LR = 8, 1e-4

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


def batches(shape: tuple[int, ...], seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random tokens (B, T) and the ones after them, as arrays on the CPU."""
    *_, vocab_size, length, batch = shape
    rng = np.random.default_rng(seed)
    while True:
        tokens = rng.integers(vocab_size, size=(batch, length + 1))
        yield tokens[:, :-1], tokens[:, 1:]


class PlainGPT2(nn.Module):
    """GPT-2 as one would write it down: fused projections, torch's kernels, nothing else."""

    def __init__(self, n_layers: int, width: int, n_heads: int, vocab_size: int, length: int, _=0):
        super().__init__()
        self.n_heads = n_heads
        self.wte, self.wpe = nn.Embedding(vocab_size, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(
            nn.ModuleDict({
                "ln_1": nn.LayerNorm(width), "ln_2": nn.LayerNorm(width),
                "c_attn": nn.Linear(width, 3 * width), "attn_proj": nn.Linear(width, width),
                "c_fc": nn.Linear(width, 4 * width), "mlp_proj": nn.Linear(4 * width, width),
            })
            for _ in range(n_layers)
        )  # fmt: skip
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            nn.init.normal_(p, std=0.02) if p.ndim > 1 else None

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """(B, T), (B, T) → the mean loss."""
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for b in self.h:
            qkv = b.c_attn(b.ln_1(x)).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*qkv, is_causal=True)  # (B, H, T, K)
            x = x + b.attn_proj(y.transpose(1, 2).flatten(2))
            x = x + b.mlp_proj(F.gelu(b.c_fc(b.ln_2(x)), approximate="tanh"))
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def as_published(self) -> dict[str, Tensor]:
        """The weights by the names and in the layout of the published files."""
        names = {"c_attn": "attn.c_attn", "attn_proj": "attn.c_proj", "c_fc": "mlp.c_fc",
                 "mlp_proj": "mlp.c_proj"}  # fmt: skip
        found = {}
        for name, x in self.state_dict().items():
            part = name.split(".")[-2]
            transposed = part in names and x.ndim == 2
            found[name.replace(part, names.get(part, part))] = x.T if transposed else x
        return found


def plain_loop(model: PlainGPT2, source: Iterable, n_steps: int, *, compiled: bool) -> list[float]:
    """Training as one would write it down: the losses that it logs, every tenth and the first."""
    device, losses = next(model.parameters()).device, []
    cuda = device.type == "cuda"
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), fused=cuda)
    run, source = torch.compile(model) if compiled else model, iter(source)

    def draw() -> list[Tensor]:
        pair = (torch.from_numpy(x.copy()) for x in next(source))
        return [x.pin_memory().to(device, non_blocking=True) if cuda else x for x in pair]

    batch = draw()
    for step in range(n_steps):
        for group in optimizer.param_groups:
            group["lr"] = LR * cosine(step, n_steps, warmup_steps=2)
        with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
            loss = run(*batch)
        if step + 1 < n_steps:
            batch = draw()  # while the device computes
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            losses.append(loss.item())
    return losses


class Clocked:
    """Batches that start a clock when batch `start` is drawn: what comes before it warms up."""

    def __init__(self, source: Iterable, start: int, device: str) -> None:
        self.source, self.start, self.device = source, start, device

    def __iter__(self) -> Iterator:
        for n, batch in enumerate(self.source):
            if n == self.start:
                self.begin = now(self.device)
            yield batch

    def seconds(self) -> float:
        """Since then."""
        return now(self.device) - self.begin


def now(device: str) -> float:
    """Processor seconds, or on the clock once the GPU is done."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def fit_against_plain_loop(
    shape: tuple[int, ...], device: str, *, compiled: bool, rounds: int, n_steps: int, warm: int
) -> None:
    """The same training of the same model by `fit` and by `plain_loop`, in turns."""
    n_layers, width, _, vocab_size, length, batch = shape
    kind = "compiled" if compiled else "eager"
    config = FitConfig(n_steps=n_steps, lr=LR, betas=(0.9, 0.95), weight_decay=0.1, grad_clip=1.0,
                       schedule="cosine", warmup_steps=2, compile=compiled)  # fmt: skip
    taken, peaks = {"plain": [], "fit": []}, {}
    for n in range(rounds):
        losses = {}
        for name in ("plain", "fit") if n % 2 else ("fit", "plain"):
            torch.manual_seed(0)
            torch.compiler.reset() if n == 0 else None
            plain = PlainGPT2(*shape[:5])
            source = Clocked(batches(shape), warm, device)
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            if name == "plain":
                losses[name] = plain_loop(plain.to(device), source, n_steps, compiled=compiled)[0]
            else:
                ours = gpt2(shape)
                pretrained.load(ours, plain.as_published(), "gpt2")
                history = fit(ours.to(device), source, config, progress=False).history
                losses[name] = history.train_loss[0]
            taken[name].append(source.seconds() / (n_steps - warm))
            peaks[name] = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0
        # What is timed computes the same.
        assert math.isclose(losses["fit"], losses["plain"], rel_tol=1e-2), losses
    speed = {name: batch * length / statistics.median(times) for name, times in taken.items()}
    memory = ", " + ", ".join(f"{n} {p:.1f} GiB" for n, p in peaks.items()) if peaks["fit"] else ""
    print(
        f"fit, {kind}, {device}, {n_layers} layers, D {width}, V {vocab_size}, T {length}, "
        f"B {batch}: {speed['fit']:,.0f} tokens/s, plain loop {speed['plain']:,.0f}: "
        f"× {ratio(taken, 'fit', 'plain'):.3f}{memory}"
    )


def gpt2(shape: tuple[int, ...]) -> TransformerLM:
    """Ours of this shape, without dropout."""
    n_layers, width, n_heads, vocab_size, length, _ = shape
    return TransformerLM(
        preset(
            "gpt2", n_layers=n_layers, d_model=width, n_heads=n_heads, vocab_size=vocab_size,
            context_length=length, dropout=0.0,
        )
    )  # fmt: skip


def training_step(model: nn.Module, loss: Callable, tokens: Tensor) -> Step:
    """Forward, backward and AdamW on the same tokens: a model alone, without a loop around it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss(tokens[:, :-1], tokens[:, 1:]).backward()
        optimizer.step()

    return step


def loss_of(logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """(inputs (B, T), targets (B, T)) → the mean loss."""

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits(inputs).flatten(0, 1), targets.flatten())

    return loss


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
    ours = gpt2(shape)
    pretrained.load(ours, reference.state_dict(), "gpt2")
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
        Path("/proc/self/clear_refs").write_text("5", "utf8")  # Linux: begin the peak anew
        before = _status("VmRSS")
        step()
        return (_status("VmHWM") - before) / 2**10
    return math.nan


def _status(name: str) -> int:
    """kB, as Linux counts them for this process."""
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def chunks_against_all_logits(rounds: int = 3) -> None:
    """Steps of `fit` with a vocabulary of GPT-2's size, by the way the loss is computed."""
    shape, times, peaks = (4, 256, 4, 50_304, 128, 8), {"all": [], "chunks": []}, {}
    losses = {"all": next_token_loss, "chunks": partial(next_token_loss, chunk_rows=256)}
    config, found = FitConfig(n_steps=3, lr=LR), {}
    for n in range(rounds):
        for name, loss in losses.items():
            torch.manual_seed(0)
            model, source = gpt2(shape), Clocked(batches(shape), 1, "cpu")

            def train(model=model, source=source, loss=loss, name=name) -> None:
                found[name] = fit(model, source, config, loss=loss, progress=False).history

            if n == 0:
                peaks[name] = peak_of(train, "cpu")
            else:
                train()
                times[name].append(source.seconds())
    torch.testing.assert_close(found["chunks"].train_loss, found["all"].train_loss)
    print(
        f"fit, D 256, V 50304, T 128, B 8: all logits {peaks['all']:.0f} MiB, in chunks "
        f"{peaks['chunks']:.0f} MiB, × {ratio(times, 'chunks', 'all'):.2f} as fast"
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


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread on the CPU; speeds, the other one = 1")
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        print(torch.cuda.get_device_name())
        for compiled in (False, True):
            options = {"rounds": 3, "n_steps": 50, "warm": 20}
            fit_against_plain_loop(GPT2, "cuda", compiled=compiled, **options)
        fused_against_reference("cuda")
    for shape in SHAPES[:2]:
        fit_against_plain_loop(shape, "cpu", compiled=False, rounds=5, n_steps=8, warm=3)
    if shutil.which("g++"):
        fit_against_plain_loop(SMALL, "cpu", compiled=True, rounds=3, n_steps=30, warm=5)
    for shape in SHAPES:
        against_transformers(shape)
    chunks_against_all_logits()
    fused_against_reference("cpu")
