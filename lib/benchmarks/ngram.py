"""n-gram models: how fast they are built and scored, beside nltk.lm, and how well they predict.

Run by `make bench`; prints one line per measurement, the ratios included.
"""

from __future__ import annotations

import time

import numpy as np
from nltk.lm import KneserNeyInterpolated
from nltk.util import everygrams
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled.training.evaluate import bits, perplexity

# Runs with other code on the same packages (valid/test): characters in bits, words in perplexity.
# For words on Shakespeare text and splits are the same. For characters that text still had the
# speakers' names, in capitals (4.0 MB); put back, our models give 2.168/2.239 (n = 5), 2.068/2.145
# (n = 7), small 2.491 (n = 4), 2.252/2.295 (n = 7). Austen's chapters were split otherwise.
EXPECTED_CHARACTERS = {
    "shakespeare": {5: (2.170, 2.236), 7: (2.069, 2.142)},
    "shakespeare-small": {4: (2.498, None), 7: (2.258, 2.293)},
    "austen": {8: (1.621, 1.573)},
}
EXPECTED_WORDS = {
    "shakespeare": {1: (320, 339), 2: (130.7, 143.9), 3: (116.0, 129.6), 5: (114.6, 128.4)},
    "austen": {1: (360, 328), 2: (104.3, 85.1), 3: (90.6, 70.3), 5: (89.7, 69.4)},
}
SPLITS = ("train", "valid", "test")


def seconds(work, repeats: int = 3) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def building_and_growth() -> None:
    train = corpora.load("shakespeare").train
    tokenizer = CharTokenizer.train(train)
    ids, vocab_size = tokenizer.encode(train), tokenizer.vocab_size
    sizes = [len(ids) // 16, len(ids) // 8, len(ids) // 4, len(ids) // 2, len(ids)]
    times = [
        seconds(lambda n=n: NGram.fit(ids[:n], 5, vocab_size, "kneser-ney", modified=True))
        for n in sizes
    ]
    for n, t in zip(sizes, times, strict=True):
        print(f"build 5-gram Kneser–Ney, {n:9,} characters: {t:6.2f} s, {n / t / 1e6:.2f} M/s")
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"growth: seconds ∝ characters^{exponent:.2f}")
    model = NGram.fit(ids, 5, vocab_size, "kneser-ney", modified=True)
    valid = tokenizer.encode(corpora.load("shakespeare").valid)
    print(f"scoring: {len(valid) / seconds(lambda: model.score(valid)):,.0f} characters/s")


def against_nltk(n_train: int = 20_000, n_scored: int = 40) -> None:
    """The same words of the same text, order 3; nltk scores only a few, since it is slow."""
    corpus = corpora.load("shakespeare-small")
    words = corpus.train.lower().split()[:n_train]
    vocab = {word: i for i, word in enumerate(dict.fromkeys(words))}
    words += words[:2]  # the beginning recurs: there the two definitions coincide
    ids = np.array([vocab[word] for word in words])
    discount = (0.0, 0.75, 0.75)

    theirs = KneserNeyInterpolated(3, discount=0.75)
    build_theirs = seconds(
        lambda: theirs.fit([list(everygrams(words, max_len=3))], vocabulary_text=words), 1
    )
    ours = NGram.fit(ids, 3, len(vocab), "kneser-ney", discount=discount)
    build_ours = seconds(lambda: NGram.fit(ids, 3, len(vocab), "kneser-ney", discount=discount))

    at = np.random.default_rng(0).integers(2, len(words), n_scored)
    begin = time.perf_counter()
    scores = np.array([theirs.score(words[t], words[t - 2 : t]) for t in at])
    speed_theirs = n_scored / (time.perf_counter() - begin)
    speed_ours = len(ids) / seconds(lambda: ours.score(ids))
    difference = np.abs(np.exp(ours.score(ids)[at]) - scores).max()

    print(f"nltk and ours on {n_train:,} words, order 3: differ by at most {difference:.0e}")
    print(f"build: nltk {build_theirs:.2f} s, ours {build_ours:.3f} s, "
          f"ratio {build_theirs / build_ours:.0f}")  # fmt: skip
    print(f"score: nltk {speed_theirs:.0f} tokens/s, ours {speed_ours:,.0f} tokens/s, "
          f"ratio {speed_ours / speed_theirs:,.0f}")  # fmt: skip


def report(what: str, got: list[float], expected: tuple[float | None, ...]) -> None:
    off = [f"{(g / e - 1):+.2%}" if e else "–" for g, e in zip(got, expected, strict=True)]
    values = "/".join(f"{g:.4g}" for g in got)
    wanted = "/".join("–" if e is None else f"{e:g}" for e in expected)
    print(f"{what:48} {values:>14}   pilot {wanted:>14}   {'  '.join(off)}")


def held_out_characters() -> None:
    for name, expected in EXPECTED_CHARACTERS.items():
        corpus = corpora.load(name)
        # The alphabet of the whole: the small text's training plays lack a sign of the others'.
        tokenizer = CharTokenizer.train(corpus.train + corpus.valid + corpus.test)
        ids = tokenizer.encode(corpus.train)
        counts = NGramCounts(ids, max(expected), tokenizer.vocab_size)
        for order, pilot in expected.items():
            model = NGram(counts, "kneser-ney", order=order, modified=True)
            texts = (corpus.valid, corpus.test)
            got = [-bits(model.score(tokenizer.encode(text)).mean()) for text in texts]
            report(f"{name}, characters, n = {order}, bits", got, pilot)


def held_out_words() -> None:
    """One line per unit, lower case, train count at least 2, the end of a line predicted."""
    for name, expected in EXPECTED_WORDS.items():
        corpus = corpora.load(name)
        tokenizer = WordTokenizer.train(corpus.train, min_count=2)
        lines = {split: tokenizer.encode_lines(getattr(corpus, split)) for split in SPLITS}
        counts = NGramCounts(
            lines["train"], max(expected), tokenizer.vocab_size, bos=tokenizer.bos_id
        )
        for order, pilot in expected.items():
            model = NGram(counts, "kneser-ney", order=order, modified=True)
            got = [perplexity(-model.score(lines[split]).mean()) for split in ("valid", "test")]
            report(f"{name}, words ({tokenizer.vocab_size}), n = {order}, perplexity", got, pilot)


if __name__ == "__main__":
    building_and_growth()
    against_nltk()
    held_out_characters()
    held_out_words()
