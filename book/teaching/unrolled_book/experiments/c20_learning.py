"""Chapter 20: what the chapter's small model writes while it learns, beside counting.

The chapter's model, batches and random numbers, trained on with a schedule that ends later. At each
of LOOKS it writes N_WRITTEN characters. A text is described by the share of its words that occur in
the plays it read, and by its form: letters in a word, characters in a line, lines that begin with a
capital. The same is measured of what an n-gram model writes, and of the validation plays. About 8
minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.generate import generate
from unrolled.models.ngram import NGram
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits, evaluate
from unrolled.training.fit import FitConfig, fit

from unrolled_book.experiments._common import Counting, cosine, n_parameters, seeded, windows
from unrolled_book.experiments.c21_writing import known, words
from unrolled_book.experiments.ladder import Course

CORPUS, SEEDS, SEED_OF_WEIGHTS = "shakespeare-small", (0, 1, 2), 20
LOOKS = 0, 100, 200, 400, 800, 1500, 2200, 3000
N_WRITTEN, N_SHOWN, TEMPERATURE, SEED_OF_TEXT = 2000, 160, 0.8, 4
PEEK = 10_000  # validation characters
ORDERS = 3, 7  # of the n-gram models


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The chapter's model and its training, but for the number of steps."""

    d_model: int = 64
    n_layers: int = 3
    n_heads: int = 4
    context_length: int = 64
    init_std: float = 0.05
    batch_size: int = 16
    lr: float = 6e-3
    warmup_steps: int = 20
    n_steps: int = LOOKS[-1]
    eval_every: int = 100

    def model(self, vocab_size: int, seed: int) -> TransformerLM:
        """A fresh model; seed 0 has the chapter's weights."""
        sizes = "d_model", "n_layers", "n_heads", "context_length", "init_std"
        kept = {name: getattr(self, name) for name in sizes}
        with seeded(SEED_OF_WEIGHTS + seed):
            return TransformerLM(TransformerConfig(vocab_size=vocab_size, **kept))

    def fit(self, seed: int) -> FitConfig:
        """The chapter's loop, with a schedule that ends at `n_steps`."""
        return cosine(self.n_steps, self.lr, seed, warmup_steps=self.warmup_steps,
                      eval_every=self.eval_every)  # fmt: skip


def write(
    model: nn.Module,
    newline: int,
    n: int = N_WRITTEN,
    *,
    temperature: float = TEMPERATURE,
    seed: int = SEED_OF_TEXT,
) -> Tensor:
    """n characters (n,) after a line end, with the random numbers of the seed."""
    rng, prompt = torch.Generator().manual_seed(seed), torch.tensor([[newline]])
    cache = hasattr(model, "new_cache")
    return generate(model, prompt, n, temperature=temperature, rng=rng, cache=cache)[0, 1:]


def described(text: str, vocabulary: set[str]) -> dict:
    """What a text has of the plays: "known" words, and the form of its words and lines.

    The last line may be cut off, so it does not count.
    """
    lines = [line for line in text.split("\n")[:-1] if line]
    return {
        "known": known([text], vocabulary),
        "word_length": float(np.mean([len(word) for word in words(text) or [""]])),
        "line_length": float(np.mean([len(line) for line in lines or [text]])),
        "line_spread": float(np.std([len(line) for line in lines or [text]])),
        "capitals": sum(line[0].isupper() for line in lines) / max(1, len(lines)),
    }


def run(*, settings: Settings = Settings(), looks: Sequence[int] = LOOKS,
        seeds: Sequence[int] = SEEDS, n_written: int = N_WRITTEN) -> dict:  # fmt: skip
    """A record's fields: rows of `described` texts with the model, seed and step of each.

    "bits": of a validation character; every point of `curve` has it. "text": the first N_SHOWN
    characters, of the first seed's model and of counting. `lines`: the mean and the standard
    deviation of the lengths of lines that the last GPT of each seed, and counting with the longest
    history, write at temperature 1; counting with other random numbers for each seed.
    """
    course, corpus = Course.load(CORPUS), corpora.load(CORPUS)
    tokenizer, vocabulary = CharTokenizer.train(corpus.train), set(words(corpus.train))
    valid = course.held_out["valid"][0][:PEEK]
    rows, curve, lines = [], [], []

    def cost(net: nn.Module | NGram, **windows: int) -> float:
        return bits(evaluate(net, valid, 1, start=course.newline, **windows).nats / len(valid))

    def look(net: nn.Module, shown: bool, **of_it: str | int | float) -> None:
        text = tokenizer.decode(write(net, course.newline, n_written).numpy())
        of_it |= {"text": text[:N_SHOWN]} if shown else {}
        rows.append(of_it | described(text, vocabulary))

    def even(net: nn.Module, model: str, seed: int, seed_of_text: int) -> None:
        drawn = write(net, course.newline, n_written, temperature=1.0, seed=seed_of_text)
        form = described(tokenizer.decode(drawn.numpy()), vocabulary)
        kept = {name: form[name] for name in ("line_length", "line_spread")}
        lines.append({"model": model, "seed": seed} | kept)

    T = settings.context_length
    for seed in seeds:

        def peek(net: nn.Module, seed: int = seed) -> float:
            step = settings.eval_every * sum(point["seed"] == seed for point in curve)
            found = cost(net, context_length=T, overlap=T // 2)
            curve.append({"seed": seed, "step": step, "bits": found})
            if step in looks:
                look(net, seed == seeds[0], model="GPT", **curve[-1])
            return found

        model = settings.model(course.vocab_size, seed)
        peek(model.eval())
        batches = windows(course.train, seed, batch_size=settings.batch_size, window=T)
        fit(model, batches, settings.fit(seed), valid=peek, progress=False)
        even(model.eval(), "GPT", seed, SEED_OF_TEXT)
    for order in ORDERS:
        counted = NGram.fit(course.train, order, course.vocab_size, "kneser-ney", modified=True)
        costs = cost(counted, overlap=order - 1)
        look(Counting(counted), True, model=f"{order}-gram", bits=costs)
    for seed in seeds:
        even(Counting(counted), f"{order}-gram", seed, SEED_OF_TEXT + seed)
    rows.append({"model": "Shakespeare"} | described(corpus.valid[:PEEK], vocabulary))
    config = {
        "corpus": CORPUS, "settings": asdict(settings), "fit": settings.fit(0).to_dict(),
        "looks": [*looks], "n_written": n_written, "temperature": TEMPERATURE, "peek": PEEK,
        "parameters": n_parameters(model),
    }  # fmt: skip
    metrics = {"rows": rows, "lines": lines}
    return {"config": config, "seeds": [*seeds], "curve": curve, "metrics": metrics}
