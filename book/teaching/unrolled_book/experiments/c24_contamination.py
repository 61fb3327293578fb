"""Chapter 24: what it is worth to have read the test, and what a search for copies finds.

A held-out text, about one play, is put into the training text of a 7-gram: word for word, with
some letters altered, in other words, or not at all. About two minutes on one core.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Sequence

import numpy as np
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram

from unrolled_book import vectors, word_vectors
from unrolled_book.experiments.ladder import CORPUS

ORDER = 7
ALTERED = 0.15  # of the letters
WINDOW, PASSAGE = 8, 50  # words: of a copy, and of what is asked about
WINDOWS = (3, 5, 8, 13)
COPIES = ("none", "word for word", "letters altered", "other words")
EVERY = 5  # one word in so many gets another


def texts() -> list[str]:
    """Four held-out texts of about 100,000 characters: halves of validation and of test."""
    corpus = corpora.load(CORPUS)
    found = []
    for text in (corpus.valid, corpus.test):
        middle = text.index("\n", len(text) // 2) + 1
        found += [text[:middle], text[middle:]]
    return found


def altered(text: str, seed: int, share: float = ALTERED) -> str:
    """The text with this share of its letters replaced by random small ones."""
    rng = np.random.default_rng(seed)
    letters = np.array([*text])
    change = (rng.random(len(letters)) < share) & np.char.isalpha(letters)
    letters[change] = rng.choice([*string.ascii_lowercase], change.sum())
    return "".join(letters)


def reworded(text: str, every: int = EVERY) -> str:
    """The text with one word in `every` replaced by its nearest neighbour among the word vectors.

    Where a word has no vector the next that has one is replaced.
    """
    glove = word_vectors.load()
    known, unit = {word: i for i, word in enumerate(glove.words)}, vectors.unit(glove.vectors)
    kept = 0  # words since the last one that was replaced

    @functools.cache
    def neighbour(word: str) -> str:
        near = unit @ unit[known[word]]
        near[known[word]] = -1
        return glove.words[near.argmax()]

    def other(match: re.Match) -> str:
        nonlocal kept
        kept += 1
        if kept < every or match[0].lower() not in known:
            return match[0]
        kept = 0
        return neighbour(match[0].lower())

    return re.sub("[A-Za-z]+", other, text)


def copied(text: str, how: str, seed: int) -> str:
    """What is put into the training text; see COPIES."""
    if how == "none":
        return ""
    if how == "letters altered":
        return altered(text, seed)
    return reworded(text) if how == "other words" else text


def words(text: str) -> list[str]:
    """Its words in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def windows(found: Sequence[str], n: int) -> list[int]:
    """All n words in a row, as numbers that are equal where the words are."""
    return [hash(window) for window in zip(*(found[i:] for i in range(n)), strict=False)]


def overlap(text: str, known: set[int], n: int) -> float:
    """The share of the text's windows of n words that are known."""
    found = windows(words(text), n)
    return sum(window in known for window in found) / len(found)


def flagged(text: str, known: set[int], n: int = WINDOW, size: int = PASSAGE) -> float:
    """The share of the text's passages of `size` words with at least one known window of n."""
    found = words(text)
    passages = [found[i : i + size] for i in range(0, len(found) - size + 1, size)]
    return sum(not known.isdisjoint(windows(p, n)) for p in passages) / len(passages)


def run(*, which: Sequence[int] = range(4), n_train: int | None = None) -> dict:
    """A record's fields: a row of `metrics["rows"]` for each text and kind of copy.

    "bits": of the 7-gram, per character of the held-out text as it is; "flagged": the share of its
    passages that a search for WINDOW words finds in the training text; "overlap": the share of its
    windows found there, for each length of WINDOWS.
    """
    corpus = corpora.load(CORPUS)
    training = corpus.train[:n_train]
    tokenizer = CharTokenizer.train(corpus.train)
    known = {n: set(windows(words(training), n)) for n in WINDOWS}
    rows = []
    for i, how in itertools.product(which, COPIES):
        text = texts()[i]
        copy = copied(text, how, i)
        of_all = {n: known[n].union(windows(words(copy), n)) for n in WINDOWS}
        read, size = tokenizer.encode(training + copy), tokenizer.vocab_size
        model = NGram.fit(read, ORDER, size, "kneser-ney", modified=True)
        nats = -model.score(tokenizer.encode(text))[ORDER - 1 :].mean()
        rows.append({
            "text": i, "copy": how, "bits": float(nats / np.log(2)),
            "flagged": flagged(text, of_all[WINDOW]),
            "overlap": [overlap(text, of_all[n], n) for n in WINDOWS],
        })  # fmt: skip
    config = {
        "corpus": CORPUS, "order": ORDER, "altered": ALTERED, "window": WINDOW, "passage": PASSAGE,
        "windows": [*WINDOWS], "copies": [*COPIES], "every": EVERY,
        "characters": [len(texts()[i]) for i in which],
    }  # fmt: skip
    return {"config": config, "seeds": [*which], "metrics": {"rows": rows}, "curve": []}
