"""The ladder's first rungs: uniform, additive smoothing of orders 1 to 5, Kneser–Ney.

About a minute; nothing is random.
"""

from __future__ import annotations

import time

import numpy as np
from unrolled.data import corpora
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts

from unrolled_book.experiments.ladder import CORPUS, Course

ALPHAS = (1.0, 0.1, 0.01, 0.001)
ORDERS = tuple(range(2, 11))


def run() -> dict:
    """The n-gram rows, and Kneser–Ney by order as the curve."""
    course = Course.load()
    rows, curve = ngram_rows(course)
    config = {
        "corpus": CORPUS, "sha256": corpora.load(CORPUS).sha256, "tokens": "characters",
        "vocab_size": course.vocab_size, "train_tokens": len(course.train),
        "test_bytes": course.held_out["test"][1], "alphas": ALPHAS, "orders": ORDERS,
        "kneser_ney": "modified, three discounts per order",
    }  # fmt: skip
    return {"config": config, "seeds": [], "curve": curve, "metrics": {"rows": rows}}


def ngram_rows(course: Course) -> tuple[list[dict], list[dict]]:
    """The ladder's n-gram rows, and the scores of Kneser–Ney by order.

    Nothing is random, so there are no seeds. Additive smoothing's α and Kneser–Ney's order are
    chosen on the validation text.
    """
    vocab_size = course.vocab_size
    uniform = np.full(vocab_size, -np.log(vocab_size))
    rows = [
        course.row(
            "uniform", lambda tokens: np.broadcast_to(uniform, (*tokens.shape, vocab_size)),
            parameters=0, seconds=0.0, seeds=[],
        )
    ]  # fmt: skip

    def row(name: str, order: int, smoothing: str, **options) -> dict:
        begin = time.perf_counter()
        model = NGram.fit(course.train, order, vocab_size, smoothing, **options)
        seconds = time.perf_counter() - begin
        return course.row(name, model, parameters=model.n_parameters, seconds=seconds, seeds=[],
                          overlap=order - 1, context_length=1024)  # fmt: skip

    counts = NGramCounts(course.train, 5, vocab_size)
    valid, _ = course.held_out["valid"]
    for order in range(1, 6):
        alpha = max(
            ALPHAS, key=lambda a: NGram(counts, "additive", order=order, alpha=a).score(valid).sum()
        )
        name = "unigram" if order == 1 else f"{order}-gram"
        rows.append(row(f"{name}, additive (α = {alpha:g})", order, "additive", alpha=alpha))
    curve = [
        {"order": order} | row(f"{order}-gram, Kneser–Ney", order, "kneser-ney", modified=True)
        for order in ORDERS
    ]
    best = min(curve, key=lambda r: r["valid_bits_per_byte"])
    for chosen in sorted({5, best["order"]}):
        rows.append({k: v for k, v in curve[ORDERS.index(chosen)].items() if k != "order"})
    return rows, curve
