"""Chapter 12: an LSTM, an Elman network and Kneser–Ney on the same words.

About 12 minutes on one core.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from unrolled.data import corpora
from unrolled.data.tokens import WordTokenizer
from unrolled.models.ngram import NGram
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.evaluate import evaluate, perplexity
from unrolled.training.fit import FitResult, fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded, windows

Tokens = Mapping[str, np.ndarray]  # "train", "valid", "test": ids (N,)

SEEDS = (0, 1, 2)
LRS = (4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
EXHIBIT_LR = 4e-3  # the rate of an LSTM that nobody tuned
ORDERS = (2, 3, 4, 5, 6)
PEEK = 10_000  # validation tokens for the checks during training
NAMES = {"lstm": "LSTM", "elman": "Elman"}


def tokens_of(corpus: str, vocab_size: int) -> tuple[Tokens, WordTokenizer]:
    """The three splits as streams of word ids with `</s>` after each line, and their tokeniser."""
    texts = corpora.load(corpus)
    tokenizer = WordTokenizer.train(texts.train, max_size=vocab_size)
    streams = {
        split: np.concatenate(tokenizer.encode_lines(getattr(texts, split)))
        for split in ("train", "valid", "test")
    }
    return streams, tokenizer


def train(
    cell: str, tokens: Tokens, tokenizer: WordTokenizer, *, lr: float, n_steps: int, seed: int
) -> tuple[RecurrentLM, FitResult]:
    """Train one model: embeddings of 64 → 128 units → 64, tied; the best on the first PEEK tokens.

    Raises DivergedError if the loss is no longer finite.
    """
    options = {"embedding_dim": 64, "hidden_size": 128, "tie_embeddings": True}
    options |= {"forget_bias": 1.0} if cell == "lstm" else {}
    with seeded(seed):
        model = RecurrentLM(tokenizer.vocab_size, cell, **options)
    config = cosine(n_steps, lr, seed, eval_every=max(1, n_steps // 10))
    batches = windows(tokens["train"], seed, batch_size=16, window=32)
    peek = tokens["valid"][:PEEK]

    def valid(model: RecurrentLM) -> float:
        return evaluate(model, peek, 1, start=tokenizer.eos_id, overlap=16).nats / len(peek)

    return model, fit(model, batches, config, valid=valid, progress=False)


def search(
    cell: str, tokens: Tokens, tokenizer: WordTokenizer, lrs: Sequence[float], n_steps: int
) -> list[dict]:
    """Validation perplexity of a short run for each learning rate; None if it diverged."""
    options = {"n_steps": n_steps, "seed": 100}
    return _common.search(
        lrs,
        lambda lr: perplexity(train(cell, tokens, tokenizer, lr=lr, **options)[1].best_loss),
        "valid_perplexity",
    )


def recurrent_row(
    cell: str, tokens: Tokens, tokenizer: WordTokenizer, *,
    lr: float, n_steps: int, seeds: Sequence[int],
) -> tuple[dict, list[dict]]:  # fmt: skip
    """A row with the scores of every seed and the processor seconds of one training, and the
    curves."""
    scores: dict[str, list[float]] = {"valid": [], "test": []}
    seconds, curve = [], []
    for seed in seeds:
        begin = time.process_time()  # does not depend on other programs
        model, result = train(cell, tokens, tokenizer, lr=lr, n_steps=n_steps, seed=seed)
        seconds.append(time.process_time() - begin)
        history = result.history
        for split, found in scores.items():
            found.append(evaluate(model, tokens[split], 1, start=tokenizer.eos_id).perplexity)
        curve += [
            {"model": cell, "lr": lr, "seed": seed, "step": step,
             "seconds": seconds[-1] * step / n_steps, "valid_perplexity": perplexity(loss)}
            for step, loss in zip(history.valid_step, history.valid_loss, strict=True)
        ]  # fmt: skip
    row = {
        "model": NAMES[cell], "lr": lr, "seeds": list(seeds),
        "parameters": n_parameters(model),
        "seconds": float(np.mean(seconds)),
    }  # fmt: skip
    for split, found in scores.items():
        row[f"{split}_perplexity"] = float(np.mean(found))
        row[f"{split}_perplexity_by_seed"] = found
    return row, curve


def kneser_ney_rows(tokens: Tokens, tokenizer: WordTokenizer, orders: Sequence[int]) -> list[dict]:
    """Modified Kneser–Ney of every order, with as much context as the windows of `evaluate` give.

    The first token follows `</s>`, as for the networks. Nothing is random, so there are no seeds.
    """
    rows = []
    for order in orders:
        begin = time.process_time()
        model = NGram.fit(tokens["train"], order, tokenizer.vocab_size, "kneser-ney", modified=True)
        row = {
            "model": "Kneser–Ney", "order": order, "seeds": [],
            "parameters": model.n_parameters, "seconds": time.process_time() - begin,
        }  # fmt: skip
        for split in ("valid", "test"):
            log_probs = model.score(np.append(tokenizer.eos_id, tokens[split]))[1:]
            row[f"{split}_perplexity"] = perplexity(-log_probs.mean())
        rows.append(row)
    return rows


def run(
    *,
    corpus: str = "shakespeare",
    vocab_size: int = 2000,
    n_steps: int = 5000,
    search_steps: int = 2000,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    exhibit_lr: float | None = EXHIBIT_LR,
    orders: Sequence[int] = ORDERS,
) -> dict:
    """The fields of the record; perplexity is per token, including `</s>`.

    metrics: `rows`, first Kneser–Ney of every order, then the networks, each at its best learning
    rate on validation after search_steps steps with another seed; `exhibit`, the LSTM at exhibit_lr
    (None leaves it out).
    """
    tokens, tokenizer = tokens_of(corpus, vocab_size)
    unknown = {split: float(np.mean(ids == tokenizer.unk_id)) for split, ids in tokens.items()}
    rows, curve, searches = kneser_ney_rows(tokens, tokenizer, orders), [], {}
    for cell in ("elman", "lstm"):
        searches[cell] = search(cell, tokens, tokenizer, lrs, search_steps)
        best = best_lr(searches[cell], "valid_perplexity")
        row, points = recurrent_row(cell, tokens, tokenizer, lr=best, n_steps=n_steps, seeds=seeds)
        rows.append(row)
        curve += points
    metrics = {"rows": rows}
    if exhibit_lr is not None:
        metrics["exhibit"], points = recurrent_row(
            "lstm", tokens, tokenizer, lr=exhibit_lr, n_steps=n_steps, seeds=seeds
        )
        curve += points
    config = {
        "corpus": corpus, "sha256": corpora.load(corpus).sha256, "vocab_size": vocab_size,
        "tokens": {split: len(ids) for split, ids in tokens.items()}, "unknown": unknown,
        "width": 64, "hidden_size": 128, "tied": True, "batch_size": 16, "window": 32,
        "n_steps": n_steps, "search": searches, "search_steps": search_steps, "peek": PEEK,
    }  # fmt: skip
    return {"config": config, "seeds": list(seeds), "curve": curve, "metrics": metrics}
