"""Chapter 4: what merges do to a model that counts, in perplexity and in bits per byte.

Byte-pair encoding with 0 to 4,000 merges cuts a text into tokens; modified Kneser–Ney models of
orders 1 to 8 count them, and score two held-out texts. Nothing is random: two held-out texts and
two corpora stand for seeds. The text is scored as it was cut; a sum over all ways to cut it would
cost a little less, so the bits are an upper bound. About a minute on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from unrolled.data import corpora
from unrolled.data.bpe import BPETokenizer
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled.training.evaluate import Evaluation

CORPORA = ("shakespeare-small", "austen")
TRAIN_BYTES = 980_000  # of each corpus's training text, so that both learn from as much
MERGES, ORDERS = (0, 250, 1_000, 4_000), (1, 2, 3, 4, 5, 6, 7, 8)


def inside(ids: np.ndarray, tokenizer: BPETokenizer) -> float:
    """How many bytes of its own token stand before a byte, on average over the bytes of a text."""
    lengths = np.array([len(token) for token in tokenizer.vocab])[ids]
    return float((lengths * (lengths - 1) / 2).sum() / lengths.sum())


def measure(name: str, n_merges: int, orders: Sequence[int] = ORDERS) -> list[dict]:
    """A row for each order and held-out text of the corpus `name`."""
    corpus = corpora.load(name)
    train = corpus.train[:TRAIN_BYTES]
    tokenizer = BPETokenizer.train(train, n_merges)
    counts = NGramCounts(tokenizer.encode(train), max(orders), tokenizer.vocab_size)
    rows = []
    for order in orders:
        model = NGram(counts, "kneser-ney", order=order, modified=True)
        for split in ("valid", "test"):
            text = getattr(corpus, split)
            ids = tokenizer.encode(text)
            nats, n_bytes = -model.score(ids).sum(), len(text.encode())
            cost = Evaluation(nats=nats, n_tokens=len(ids), n_bytes=n_bytes)
            rows.append({
                "corpus": name, "split": split, "merges": n_merges, "order": order,
                "bits_per_byte": float(f"{cost.bits_per_byte:.4g}"),
                "perplexity": float(f"{cost.perplexity:.4g}"),
                "bytes_per_token": float(f"{n_bytes / len(ids):.4g}"),
                "bytes_inside": float(f"{inside(ids, tokenizer):.4g}"),
            })  # fmt: skip
    return rows


def run(
    names: Sequence[str] = CORPORA,
    merges: Sequence[int] = MERGES,
    orders: Sequence[int] = ORDERS,
) -> dict:
    """metrics: "runs", the rows of `measure` for each corpus and number of merges."""
    rows = [row for name in names for k in merges for row in measure(name, k, orders)]
    config = {
        "corpora": [*names], "train_bytes": TRAIN_BYTES, "merges": [*merges],
        "orders": [*orders], "smoothing": "modified Kneser–Ney",
    }  # fmt: skip
    return {"config": config, "seeds": [], "metrics": {"runs": rows}}
