"""Chapter 5: a word that is met a few times, under a name that no text has used.

`run` gives some occurrences of forty words a new name in the plays, counts anew, and asks where the
word itself stands among the nearest of its new name. The control is the same in shuffled text.
Fifteen seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrolled_book import vectors
from unrolled_book.experiments.c05_vectors import CORPUS, by_counting, text

WORDS = tuple(range(109, 500, 10))  # every tenth word of the ranks 110, 120 … 500
OCCURRENCES = (10, 30, 100)  # of each word that get a new name; the rarest occurs 153 times


def found_again(n: int, seed: int, words: Sequence[int] = WORDS, shuffled: bool = False) -> dict:
    """Give n occurrences of each word a new name, one for each word, and count anew.

    ranks: where the word stands among the nearest of its new name (1: the nearest of all). In
    shuffled text nothing but the frequency could tell.
    """
    vocab, tokens = text()
    rng = np.random.default_rng(seed)
    tokens = rng.permutation(tokens) if shuffled else tokens.copy()
    for new, word in enumerate(words, len(vocab)):
        tokens[rng.choice(np.flatnonzero(tokens == word), n, replace=False)] = new
    rows = by_counting(tokens, vocab_size=len(vocab) + len(words))
    scores = vectors.cosines(rows[len(vocab) :], rows[: len(vocab)])
    own = scores[np.arange(len(words)), list(words)]
    ranks = 1 + (scores > own[:, None]).sum(axis=1)
    return {"n": n, "seed": seed, "shuffled": shuffled, "ranks": ranks.tolist()}


def run(
    seeds: Sequence[int] = (0, 1, 2),
    words: Sequence[int] = WORDS,
    occurrences: Sequence[int] = OCCURRENCES,
) -> dict:
    """Count anew for each number of occurrences and seed. metrics: found, and the control."""
    metrics = {
        name: [found_again(n, seed, words, shuffled) for n in occurrences for seed in seeds]
        for name, shuffled in (("found", False), ("control", True))
    }
    config = {"corpus": CORPUS, "words": [text()[0][word] for word in words]}
    return {"config": config, "seeds": [*seeds], "metrics": metrics}
