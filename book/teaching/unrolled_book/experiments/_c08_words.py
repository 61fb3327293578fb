"""What chapter 8's experiments share: chapter 12's words, a network, the scores of all tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch.nn import functional as F
from unrolled.data import corpora
from unrolled.data.tokens import WordTokenizer
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.ngram import NGram
from unrolled.training.evaluate import perplexity
from unrolled.training.fit import fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import cosine, seeded, windows

CORPUS, VOCAB_SIZE = "shakespeare", 2000
WIDTH, HIDDEN, BATCH_SIZE, WINDOW = 64, 128, 16, 32
SEARCH_SEED, LOSS = 100, "valid_perplexity"
PEEK = 10_000  # validation tokens for the checks during training
AT_ONCE = 2048  # tokens scored together


@dataclass(frozen=True, kw_only=True, eq=False)
class Words:
    """The corpus as streams of word ids with `</s>` after each line, by split."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    eos: int
    vocab_size: int


@cache
def words() -> Words:
    """Chapter 12's streams: the commonest words, all others `<unk>`."""
    texts = corpora.load(CORPUS)
    tokenizer = WordTokenizer.train(texts.train, max_size=VOCAB_SIZE)
    streams = {
        split: np.concatenate(tokenizer.encode_lines(getattr(texts, split)))
        for split in ("train", "valid", "test")
    }
    return Words(**streams, eos=tokenizer.eos_id, vocab_size=tokenizer.vocab_size)


def settings() -> dict:
    """What all records have in their configuration."""
    return {
        "corpus": CORPUS, "sha256": corpora.load(CORPUS).sha256, "vocab_size": words().vocab_size,
        "width": WIDTH, "hidden_size": HIDDEN, "batch_size": BATCH_SIZE, "window": WINDOW,
        "search_seed": SEARCH_SEED, "peek": PEEK,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Net:
    """A `NeuralLM` without direct connections, and its training."""

    context_length: int = 3
    learn_table: bool = True  # otherwise the embeddings stay as they were drawn
    lr: float | None = None
    n_steps: int = 3000


def fresh(net: Net, seed: int) -> NeuralLM:
    """An untrained network; torch's generator is unchanged."""
    config = NeuralLMConfig(
        vocab_size=words().vocab_size, context_length=net.context_length, embedding_dim=WIDTH,
        hidden_size=HIDDEN,
    )  # fmt: skip
    with seeded(seed):
        model = NeuralLM(config)
    model.embedding.weight.requires_grad_(net.learn_table)
    return model


def train(net: Net, seed: int) -> NeuralLM:
    """The parameters that were best on the first PEEK validation tokens, from `fit`.

    Raises DivergedError if the loss is no longer finite.
    """
    model, peek = fresh(net, seed), words().valid[:PEEK]
    config = cosine(net.n_steps, net.lr, seed, eval_every=max(1, net.n_steps // 10))
    batches = windows(words().train, seed, batch_size=BATCH_SIZE, window=WINDOW)
    fit(model, batches, config, valid=lambda m: -log_probs(m, peek).mean(), progress=False)
    return model.eval()


def search(net: Net, lrs: Sequence[float]) -> list[dict]:
    """Validation perplexity on PEEK tokens for each learning rate; None if it diverged."""

    def measure(lr: float) -> float:
        model = train(replace(net, lr=lr), SEARCH_SEED)
        return perplexity(-log_probs(model, words().valid[:PEEK]).mean())

    return _common.search(lrs, measure, LOSS)


@torch.inference_mode()
def log_probs(model: NeuralLM, tokens: np.ndarray) -> np.ndarray:
    """ln P of each token (n,), float64, the first as if `</s>` stood before it."""
    inputs = torch.from_numpy(np.append(words().eos, tokens[:-1]))
    targets, memory, found = torch.from_numpy(tokens), model.new_cache(), []
    for begin in range(0, len(tokens), AT_ONCE):
        here = slice(begin, begin + AT_ONCE)
        logits = model(inputs[None, here], cache=memory)[0].double()
        found.append(-F.cross_entropy(logits, targets[here], reduction="none").numpy())
    return np.concatenate(found)


def kneser_ney(order: int) -> NGram:
    """Modified Kneser–Ney on the training words."""
    return NGram.fit(words().train, order, words().vocab_size, "kneser-ney", modified=True)


def counted(model: NGram, tokens: np.ndarray) -> np.ndarray:
    """ln P of each token (n,), the first as if `</s>` stood before it."""
    return model.score(np.append(words().eos, tokens))[1:]
