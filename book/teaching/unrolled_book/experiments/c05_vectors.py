"""Chapter 5: skip-gram beside PPMI + SVD on the plays, and its optimum beside shifted PMI.

`run` trains skip-gram with every seed on all training plays and on the same words shuffled, and
compares its neighbours with those of the singular vectors, of the next seed, and of shuffled text.
On the smaller corpus it trains several widths without subsampling, and compares each product of a
word's and a context's vector with what Levy and Goldberg's theorem says. Ten minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache

import numpy as np
from unrolled.data import corpora
from unrolled.data.tokens import words
from unrolled.models.skipgram import SkipGramSettings, train

from unrolled_book import vectors

CORPUS, SMALL, MIN_COUNT, WINDOW, WIDTH = "shakespeare", "shakespeare-small", 20, 4, 50
SKIPGRAM = SkipGramSettings(d=WIDTH, window=WINDOW, n_epochs=5)
WIDTHS = (10, 50, 200)  # of the vectors whose products are compared with PMI
LINK = replace(SKIPGRAM, threshold=None, n_epochs=6)
PROBES = ("king", "father", "sea", "eyes", "horse", "walk")
OFTEN = 5  # a pair counted less often has a PMI that is mostly chance
LONGER = 12  # epochs: is it the width or the time that brings the products near PMI − ln k?
BANDS = ((0, 100), (100, 500), (500, 1500))  # ids, that is ranks of frequency


@cache
def text(corpus: str = CORPUS) -> tuple[tuple[str, ...], np.ndarray]:
    """The words of the training plays, the most frequent first, and the plays as ids (n,).

    Words in lower case, without punctuation; −1 stands for words met less than MIN_COUNT times.
    """
    tokens = [word for word in words(corpora.load(corpus).train) if word[0].isalpha()]
    counts = Counter(tokens)
    kept = [word for word in counts if counts[word] >= MIN_COUNT]
    vocab = tuple(sorted(kept, key=lambda word: (-counts[word], word)))
    ids = {word: i for i, word in enumerate(vocab)}
    return vocab, np.array([ids.get(word, -1) for word in tokens], dtype=np.int64)


def by_counting(
    tokens: np.ndarray, negatives: float = 1, vocab_size: int | None = None
) -> np.ndarray:
    """The singular vectors of the words' PPMI, (V, WIDTH)."""
    counts = vectors.cooccurrences(tokens, vocab_size or len(text()[0]), WINDOW)
    return vectors.svd_vectors(vectors.ppmi(counts, negatives=negatives), WIDTH)


def nearest(rows: np.ndarray, n: int) -> np.ndarray:
    """The n nearest other words of each word, (V, n)."""
    scores = vectors.cosines(rows)
    np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :n]


def overlap(a: np.ndarray, b: np.ndarray, ranks: slice = slice(0, 1500)) -> float:
    """How many of their ten nearest words two sets of vectors share, a mean over words."""
    pairs = zip(nearest(a, 10)[ranks], nearest(b, 10)[ranks], strict=True)
    return round(float(np.mean([len(set(x) & set(y)) for x, y in pairs])), 2)


def named(rows: np.ndarray) -> dict[str, list]:
    """For each probe its five nearest words with their cosines."""
    vocab, _ = text()
    found = {}
    for probe in PROBES:
        i = vocab.index(probe)
        ids, scores = vectors.neighbours(rows, rows[i], 5, exclude=[i])
        found[probe] = [[vocab[j], round(float(s), 2)] for j, s in zip(ids, scores, strict=True)]
    return found


def against_shuffled(rows: np.ndarray, null: np.ndarray) -> list[dict]:
    """For each band of ranks: the median cosine to the nearest word in the text and in the shuffled
    text, and the share of words for which the former is larger.
    """
    closest = [np.sort(vectors.cosines(some), axis=1)[:, -2] for some in (rows, null)]
    medians = []
    for band in BANDS:
        real, shuffled = (found[slice(*band)] for found in closest)
        medians.append(
            {
                "ranks": [band[0] + 1, band[1]],
                "text": round(float(np.median(real)), 2),
                "shuffled": round(float(np.median(shuffled)), 2),
                "nearer": round(float(np.mean(real > shuffled)), 2),
            }
        )
    return medians


def expected_pmi(tokens: np.ndarray, vocab_size: int, settings: SkipGramSettings):
    """What the products should be: (pairs (n, 2), their counts (n,), PMI − ln k (n,)).

    A word that draws its window from 1 … m sees the mean of the tables with windows 1 … m.
    """
    windows = range(1, settings.window + 1)
    counts = sum(vectors.cooccurrences(tokens, vocab_size, w) for w in windows) / len(windows)
    target = vectors.pmi(counts, smoothing=settings.power, negatives=settings.negatives).tocoo()
    pairs = np.stack(target.coords, axis=1)
    return pairs, np.asarray(counts.tocsr()[target.coords]).ravel(), target.data


def link(width: int, seed: int, settings: SkipGramSettings = LINK, corpus: str = SMALL) -> dict:
    """Train, and compare w · c with PMI − ln k: the correlation and the slope over pairs seen at
    least OFTEN times, and the median product of pairs never seen.
    """
    vocab, tokens = text(corpus)
    model, losses = train(tokens, len(vocab), replace(settings, d=width), seed=seed)
    products = (model.word @ model.context.T).detach().numpy()
    pairs, counts, target = expected_pmi(tokens, len(vocab), settings)
    seen = np.zeros(products.shape, dtype=bool)
    seen[tuple(pairs.T)] = True
    often = counts >= OFTEN
    found, wanted = products[tuple(pairs[often].T)], target[often]
    return {
        "width": width,
        "n_epochs": settings.n_epochs,
        "seed": seed,
        "loss": round(losses[-1], 3),
        "correlation": round(float(np.corrcoef(found, wanted)[0, 1]), 3),
        "slope": round(float(np.polyfit(wanted, found, 1)[0]), 3),
        "unseen": round(float(np.median(products[~seen])), 2),
        "n_pairs": int(often.sum()),
    }


def run(
    seeds: Sequence[int] = (0, 1, 2),
    widths: Sequence[int] = WIDTHS,
    skipgram: SkipGramSettings = SKIPGRAM,
    linked: SkipGramSettings = LINK,
) -> dict:
    """Train with every seed. metrics: runs (neighbours, what they share, the shuffled text), link,
    longer (link with more epochs).
    """
    vocab, tokens = text()
    shuffled = [np.random.default_rng(seed).permutation(tokens) for seed in seeds]
    rows, nulls = (
        [
            train(some, len(vocab), skipgram, seed=seed)[0].word.detach().numpy()
            for seed, some in zip(seeds, texts, strict=True)
        ]
        for texts in ([tokens] * len(seeds), shuffled)
    )
    runs = [
        {
            "seed": seed,
            "neighbours": named(rows[k]),
            "shared_with_counting": overlap(rows[k], by_counting(tokens)),
            "shared_with_shifted": overlap(rows[k], by_counting(tokens, skipgram.negatives)),
            "shared_with_next_seed": overlap(rows[k], rows[(k + 1) % len(rows)]),
            "shared_with_shuffled": overlap(rows[k], by_counting(shuffled[k])),
            "nearest": against_shuffled(rows[k], nulls[k]),
        }
        for k, seed in enumerate(seeds)
    ]
    longer = replace(linked, n_epochs=LONGER)
    config = {
        "corpus": CORPUS, "small": SMALL, "min_count": MIN_COUNT, "window": WINDOW,
        "vocab_size": len(vocab), "skipgram": asdict(skipgram), "link": asdict(linked),
        "often": OFTEN, "longer": LONGER,
    }  # fmt: skip
    metrics = {
        "runs": runs,
        "link": [link(w, s, linked) for w in widths for s in seeds],
        "longer": [link(skipgram.d, s, longer) for s in seeds],
    }
    return {"config": config, "seeds": [*seeds], "metrics": metrics}
