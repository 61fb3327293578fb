"""Text with and without a cache, and beside transformers' `generate` on the same weights.

Run by `make bench`; prints one line per measurement, the ratios included. Times are processor
seconds of one thread, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from unrolled.accounting.cost import cache_bytes
from unrolled.generation.generate import generate
from unrolled.generation.search import beam_search
from unrolled.models import pretrained
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.transformer import TransformerLM

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT = 4, 128, 4, 512, 640
LENGTHS, BATCHES, N_PROMPT, N_NEW, ROUNDS = (64, 128, 256, 512), (1, 4, 32), 16, 64, 5

Step = Callable[[], Tensor]


def seconds(step: Step) -> float:
    """What one call takes of the processor."""
    begin = time.process_time()
    step()
    return time.process_time() - begin


def side_by_side(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds of every step in every round; they take turns, every other round in reverse."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for n in range(rounds + 1):
        for name in list(steps) if n % 2 else reversed(steps):
            taken = seconds(steps[name])
            if n:  # the first round warms up
                times[name].append(taken)
    return times


def pair(kind: str) -> tuple[TransformerLM | EncoderDecoder, torch.nn.Module]:
    """(ours, theirs) of equal random weights; theirs never stop by themselves."""
    import transformers

    common = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, n_positions=CONTEXT, **common
        )
        theirs = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.T5Config(
            num_layers=LAYERS, d_model=WIDTH, num_heads=HEADS, d_kv=WIDTH // HEADS, d_ff=4 * WIDTH,
            decoder_start_token_id=0, **common,
        )  # fmt: skip
        theirs = transformers.T5ForConditionalGeneration(config)
    ours = (TransformerLM if kind == "gpt2" else EncoderDecoder)(
        pretrained.config_from(config, kind).replace(context_length=CONTEXT)
    )
    pretrained.load(ours, theirs.state_dict(), kind)
    return ours.eval(), theirs.eval()


def over_length(model: TransformerLM) -> None:
    """Seconds by the number of new tokens n, and the exponent of n from the last doubling."""
    taken: dict[str, list[float]] = {"cached": [], "uncached": []}
    prompt = torch.randint(VOCAB, (1, 1))
    for n in LENGTHS:
        steps = {
            name: lambda n=n, cache=cache: generate(
                model, prompt, n, temperature=0, cache=cache
            )
            for name, cache in (("cached", True), ("uncached", False))
        }  # fmt: skip
        for name, times in side_by_side(steps, 2).items():
            taken[name].append(min(times))
    for name, times in taken.items():
        fitted = np.polyfit(np.log(LENGTHS), np.log(times), 1)[0]
        last = math.log2(times[-1] / times[-2])
        listed = ", ".join(f"{n}: {1e3 * t:.0f} ms" for n, t in zip(LENGTHS, times, strict=True))
        print(f"generate, {name}: {listed}; exponent {fitted:.2f}, of the last doubling {last:.2f}")
    gain = taken["uncached"][-1] / taken["cached"][-1]
    print(f"generate, {LENGTHS[-1]} tokens: cached × {gain:.1f}")


def against_transformers(kind: str, batch: int, n_beams: int) -> None:
    """Greedy text, or that of a beam search, from the same weights: the same tokens, timed."""
    ours, theirs = pair(kind)
    prompt = torch.randint(VOCAB, (batch, N_PROMPT))
    given, start = {}, prompt
    if kind == "t5":
        given, start = {"source": prompt}, torch.zeros(batch, 1, dtype=torch.int64)

    def run_ours() -> Tensor:
        if n_beams == 1:
            return generate(ours, start, N_NEW, temperature=0, **given)
        return beam_search(ours, start, N_NEW, n_beams=n_beams, **given).tokens[:, 0]

    def run_theirs() -> Tensor:
        return theirs.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N_NEW, do_sample=False,
            num_beams=n_beams, **({"length_penalty": 0.0} if n_beams > 1 else {}),
        )  # fmt: skip

    assert torch.equal(run_ours(), run_theirs())  # what is timed computes the same
    times = side_by_side({"ours": run_ours, "theirs": run_theirs}, ROUNDS)
    ratio = statistics.median(t / o for t, o in zip(times["theirs"], times["ours"], strict=True))
    speed = batch * N_NEW / statistics.median(times["ours"])
    print(
        f"generate, {kind}, {n_beams} beams, B {batch:2}: {speed:,.0f} tokens/s, "
        f"transformers × 1, ours × {ratio:.2f}"
    )


def cache_memory(model: TransformerLM) -> None:
    """What a cache holds after as many tokens, counted and computed."""
    tokens, cache = torch.randint(VOCAB, (8, 500)), model.new_cache()
    with torch.inference_mode():
        model(tokens, cache=cache)
    held = sum(2 * layer.keys.numel() * layer.keys.itemsize for layer in cache.layers)
    print(
        f"cache, B 8, T 500: {held / 2**20:.1f} MiB held, "
        f"{cache_bytes(model.config, 500, batch=8) / 2**20:.1f} MiB computed"
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread; layers {LAYERS}, D {WIDTH}, V {VOCAB}")
    model, _ = pair("gpt2")
    over_length(model)
    cache_memory(model)
    for kind in ("gpt2", "t5"):
        for batch in BATCHES:
            against_transformers(kind, batch, n_beams=1)
        against_transformers(kind, 4, n_beams=4)
