"""The ladder: every model of the book on one held-out text, in bits per byte.

`python -m unrolled.teaching.experiments.ladder` prints the table of all recorded rows in Markdown;
the experiments named in `RECORDS` run and record the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.teaching.experiments import record
from unrolled.training.metrics import bits_per_byte, nll, perplexity

CORPUS = "shakespeare"
# From the bottom up: the record of each rung, and what stands in the table until it is recorded.
RECORDS = {
    "ladder_ngram": "n-gram models",
    "ladder_feedforward": "feed-forward (chapter 8, to come)",
    "ladder_rnn": "RNN",
    "ladder_lstm": "LSTM",
    "ladder_transformer": "Transformer",
}

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


def rows() -> list[dict]:
    """All recorded rows of the ladder, from the bottom up.

    Of a model trained with several seeds the scores are means, and "test_bits_per_byte_by_seed"
    holds the single ones.
    """
    recorded = record.names()
    return [
        row for name in RECORDS if name in recorded for row in record.load(name)["metrics"]["rows"]
    ]


def table() -> str:
    """The ladder as a Markdown table; a rung without a record keeps its place."""
    lines = [
        "| Model | Bits per byte, validation | Bits per byte, test | Over seeds, test "
        "| Perplexity per character, test | Numbers stored | Training, s |",
        "|:--|--:|--:|:--|--:|--:|--:|",
    ]
    recorded = record.names()
    for name, label in RECORDS.items():
        if name not in recorded:
            lines.append(f"| *{label}* |" + " – |" * 6)
            continue
        lines += map(_line, record.load(name)["metrics"]["rows"])
    return "\n".join(lines)


def _line(row: dict) -> str:
    scores = row.get("test_bits_per_byte_by_seed", [])
    seeds = f"{min(scores):.3f}–{max(scores):.3f} ({len(scores)})" if scores else "–"
    return (
        f"| {row['model']} | {row['valid_bits_per_byte']:.3f} "
        f"| **{row['test_bits_per_byte']:.3f}** | {seeds} | {row['test_perplexity']:.2f} "
        f"| {row['parameters']:,} | {row['seconds']:.1f} |"
    )


if __name__ == "__main__":
    print(table())
