"""The ladder: every model of the book on one held-out text, in bits per byte.

python -m unrolled.teaching.ladder ngram    run the n-gram rows again and record them
python -m unrolled.teaching.ladder table    print the table of all recorded rows in Markdown
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled.teaching import record
from unrolled.training.metrics import bits_per_byte, nll, perplexity

CORPUS = "shakespeare"
ALPHAS = (1.0, 0.1, 0.01, 0.001)
ORDERS = tuple(range(2, 11))
RECORDS = ("ladder_ngram",)  # from the bottom up

Model = Callable[[np.ndarray], np.ndarray] | torch.nn.Module


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a text cost under a model: total nats for n_tokens tokens, n_bytes bytes."""

    nats: float
    n_tokens: int
    n_bytes: int

    @property
    def bits_per_byte(self) -> float:
        return bits_per_byte(self.nats, self.n_bytes)

    @property
    def perplexity(self) -> float:
        """Per token."""
        return perplexity(self.nats / self.n_tokens)


def evaluate(
    model: Model,
    tokens: np.ndarray,
    n_bytes: int,
    *,
    start: int,
    context_length: int = 256,
    overlap: int = 128,
    batch_size: int = 16,
) -> Evaluation:
    """Score every token of a text, the first as if `start` stood before it.

    model: (B, T) ids → (B, T, V) logits or log-probabilities; a torch module gets a tensor on its
    own device and is put into evaluation mode, anything else an int64 array. tokens: (n,).
    The text is read in windows of context_length tokens; a window repeats the last `overlap`
    tokens of the one before without scoring them again, so that each score but the first few has
    at least `overlap` tokens of context. Raises ValueError for impossible lengths.
    """
    n = len(tokens)
    if not n:
        raise ValueError("there are no tokens to score")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if not 0 <= overlap < context_length:
        raise ValueError(
            f"overlap must lie between 0 and context_length − 1, got {overlap} and {context_length}"
        )
    inputs = np.concatenate([[start], tokens[:-1]]).astype(np.int64)
    width = min(context_length, n)
    starts = np.arange(0, n - width + 1, context_length - overlap)
    if starts[-1] + width < n:
        starts = np.append(starts, n - width)
    columns = starts[:, None] + np.arange(width)  # (windows, width) positions in the text
    done = np.concatenate([[0], starts[:-1] + width])  # positions scored before each window
    total = 0.0
    for i in range(0, len(starts), batch_size):
        at = columns[i : i + batch_size]
        nats = nll(_log_probs(model, inputs[at]), tokens[at])
        total += float(nats[at >= done[i : i + batch_size, None]].sum())
    return Evaluation(nats=total, n_tokens=n, n_bytes=n_bytes)


def _log_probs(model: Model, tokens: np.ndarray) -> np.ndarray:
    """log p over the vocabulary, whether the model gives logits or log-probabilities."""
    if not isinstance(model, torch.nn.Module):
        out = torch.from_numpy(np.ascontiguousarray(model(tokens)))
        # A row of −inf only (maximum likelihood after an unseen context) has nothing to normalise.
        return torch.where(out.isneginf().all(-1, True), out, out.double().log_softmax(-1)).numpy()
    training, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        with torch.inference_mode():
            logits = model(torch.from_numpy(tokens).to(device))
    finally:
        model.train(training)
    return logits.double().log_softmax(-1).cpu().numpy()


@dataclass(frozen=True)
class Course:
    """The ladder's corpus in characters: train, valid, test ids, and how to evaluate on them."""

    train: np.ndarray
    held_out: dict[str, tuple[np.ndarray, int]]  # "valid", "test": ids, bytes
    vocab_size: int
    newline: int

    @classmethod
    def load(cls, name: str = CORPUS) -> Course:
        """Raises ValueError if the tokeniser loses a character: every byte must be paid for."""
        corpus = corpora.load(name)
        tokenizer = CharTokenizer.train(corpus.train)
        held_out = {}
        for split in ("valid", "test"):
            text = getattr(corpus, split)
            ids = tokenizer.encode(text)
            if tokenizer.decode(ids) != text:
                raise ValueError(f"the {split} text of {name!r} does not survive the tokeniser")
            held_out[split] = ids, len(text.encode())
        newline = int(tokenizer.encode("\n")[0])
        return cls(tokenizer.encode(corpus.train), held_out, tokenizer.vocab_size, newline)

    def row(self, name: str, model: Model, *, parameters: int, seconds: float,
            seeds: list[int], **windows: int) -> dict:  # fmt: skip
        """One row of the ladder: the model's bits per byte on both held-out texts, and its cost."""
        scores = {
            split: evaluate(model, ids, n_bytes, start=self.newline, **windows)
            for split, (ids, n_bytes) in self.held_out.items()
        }
        return {
            "model": name,
            "valid_bits_per_byte": scores["valid"].bits_per_byte,
            "test_bits_per_byte": scores["test"].bits_per_byte,
            "test_perplexity": scores["test"].perplexity,
            "parameters": parameters,
            "seconds": seconds,
            "seeds": seeds,
        }


def ngram_rows(course: Course) -> tuple[list[dict], list[dict]]:
    """The ladder's n-gram rows, and valid and test of Kneser–Ney by order.

    Nothing is drawn at random, so there are no seeds. What is chosen, additive smoothing's α and
    Kneser–Ney's order, is chosen on the validation text.
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


def record_ngrams() -> None:
    """Run the n-gram rows and save them as chapters/results/ladder_ngram.json."""
    begin = time.perf_counter()
    course = Course.load()
    rows, curve = ngram_rows(course)
    config = {
        "corpus": CORPUS, "sha256": corpora.load(CORPUS).sha256, "tokens": "characters",
        "vocab_size": course.vocab_size, "train_tokens": len(course.train),
        "test_bytes": course.held_out["test"][1], "alphas": ALPHAS, "orders": ORDERS,
        "kneser_ney": "modified, three discounts per order",
    }  # fmt: skip
    path = record.save("ladder_ngram", config=config, seeds=[], curve=curve,
                       metrics={"rows": rows}, seconds=time.perf_counter() - begin)  # fmt: skip
    print(f"recorded in {path}")


def rows() -> list[dict]:
    """All recorded rows of the ladder, from the bottom up."""
    return [row for name in RECORDS for row in record.load(name)["metrics"]["rows"]]


def table() -> str:
    """The ladder as a Markdown table."""
    lines = [
        "| Model | Bits per byte, validation | Bits per byte, test "
        "| Perplexity per character, test | Numbers stored | Training, s | Seeds |",
        "|:--|--:|--:|--:|--:|--:|:--|",
    ]
    for row in rows():
        seeds = ", ".join(map(str, row["seeds"])) or "–"
        lines.append(
            f"| {row['model']} | {row['valid_bits_per_byte']:.3f} "
            f"| **{row['test_bits_per_byte']:.3f}** | {row['test_perplexity']:.2f} "
            f"| {row['parameters']:,} | {row['seconds']:.1f} | {seeds} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """`ngram` records the n-gram rows, `table` prints the table."""
    if arguments == ["ngram"]:
        record_ngrams()
    elif arguments == ["table"]:
        print(table())
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
