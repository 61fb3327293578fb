"""The ladder: every model of the book on one held-out text, in bits per byte.

`python -m unrolled_book.experiments.ladder` prints the table of all recorded rows in Markdown;
the experiments named in `RECORDS` run and record the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.training.evaluate import Model, evaluate

from unrolled_book.experiments import record

CORPUS = "shakespeare"
# From the bottom up: the record of each rung, and its name in the table until it is recorded.
RECORDS = {
    "ladder_ngram": "n-gram models",
    "ladder_feedforward": "feed-forward",
    "ladder_rnn": "RNN",
    "ladder_lstm": "LSTM",
    "ladder_transformer": "Transformer",
}


@dataclass(frozen=True, eq=False)
class Course:
    """The ladder's corpus in characters: ids of the splits, and how to evaluate on them."""

    train: np.ndarray
    held_out: dict[str, tuple[np.ndarray, int]]  # "valid", "test": ids, bytes
    vocab_size: int
    newline: int

    @classmethod
    def load(cls, name: str = CORPUS) -> Course:
        """Read the corpus. Raises ValueError if the tokeniser loses a character: every byte must
        count."""
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

    For a model trained with several seeds the scores are means; "test_bits_per_byte_by_seed" holds
    the single scores.
    """
    recorded = record.names()
    return [
        row for name in RECORDS if name in recorded for row in record.load(name)["metrics"]["rows"]
    ]


def table() -> str:
    """The ladder as a Markdown table; a rung without a record keeps its line."""
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
