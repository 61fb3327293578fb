"""n-gram models as ARPA files, the text format that SRILM, KenLM and others read (chapter 2).

Each line holds log₁₀ p(w | h), the n-gram hw and the logarithm of its back-off weight γ(hw). A
reader takes p(w | h) from the line of hw or, if there is none, γ(h) p(w | h′), h′ being h without
its farthest token; a context without a line has γ = 1. An interpolated model fits this form
exactly: the line of a seen n-gram holds the whole mixture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unrolled.models.ngram import NGram
from unrolled.validate import checked

LOG_ZERO = -99.0  # the format's logarithm of 0


@checked
def write_arpa(model: NGram, path: str | Path, vocab: Sequence[str]) -> None:
    """Write a model with "absolute" or "kneser-ney" smoothing to an ARPA file (UTF-8).

    vocab: the names of the ids 0 … V − 1, all different, without white space; other programs expect
    `<s>` and `</s>` for bos and eos. Probabilities are written with all their digits. Raises
    ValueError for another smoothing (it does not back off to p(w | h′)) and for other names.
    """
    if not model.interpolates:
        raise ValueError(f'ARPA needs "absolute" or "kneser-ney", got {model.smoothing!r}')
    if len(vocab) != model.vocab_size or len(set(vocab)) != len(vocab):
        raise ValueError(f"vocab must hold {model.vocab_size} different names, got {len(vocab)}")
    for name in vocab:
        if len(name.split()) != 1 or name != name.strip():
            raise ValueError(f"a name must be one word without white space, got {name!r}")
    tables = [np.arange(model.vocab_size)[:, None]]  # n-grams of length n: (G, n)
    tables += [model.counts.ngram_tokens(n) for n in range(2, model.order + 1)]
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {n}={len(table)}\n" for n, table in enumerate(tables, start=1))
        for n, table in enumerate(tables, start=1):
            file.write(f"\n\\{n}-grams:\n")
            file.writelines(_lines(model, table, vocab))
        file.write("\n\\end\\\n")


def _lines(model: NGram, ngrams: np.ndarray, vocab: Sequence[str]):
    """The lines of n-grams (G, n); those of the highest order have no back-off weight."""
    columns = [model.log_probs(ngrams[:, :-1], ngrams[:, -1]) / math.log(10)]
    if ngrams.shape[1] < model.order:
        with np.errstate(divide="ignore"):
            columns.append(np.log10(model.backoff_weights(ngrams)))
    rows = np.maximum(np.column_stack(columns), LOG_ZERO).tolist()
    for ids, (log_prob, *backoff) in zip(ngrams.tolist(), rows, strict=True):
        words = " ".join(vocab[i] for i in ids)
        yield "\t".join([repr(log_prob), words, *map(repr, backoff)]) + "\n"
