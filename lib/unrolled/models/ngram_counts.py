"""Counts of all n-grams of a text up to an order, in a few sorted arrays.

A text of N tokens has at most N different n-grams of each length, so its counts are flat arrays.
A context is read from its nearest token backwards: the context of k tokens is one token more than
its suffix of k − 1. Level k holds two sorted lists of int64 keys,

    contexts  row(the context's suffix) · V + the context's farthest token
    ngrams    row(the context) · V + the token that follows,

and a row is found by binary search. One walk along a context meets every shorter context on the
way, which is what smoothing falls back on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

Sequences = np.ndarray | Sequence[np.ndarray]


@dataclass(frozen=True, kw_only=True)
class CountLevel:
    """All n-grams hw of one length; C different contexts h, G different n-grams."""

    contexts: np.ndarray  # (C,) sorted keys
    ngrams: np.ndarray  # (G,) sorted keys
    counts: np.ndarray  # (G,) how often each was seen
    neighbours: np.ndarray | None  # (G,) different tokens seen before it; None: longest level

    @property
    def n_contexts(self) -> int:
        return len(self.contexts)


class NGramCounts:
    """Counts of the n-grams of length 1 … `order` that end in a token to be predicted.

    sequences: one id array (n,), or several, which no n-gram crosses. bos, eos: ids put before and
    after each sequence (eos where it is not there yet). **One** `bos` stands before each sequence;
    it is a context only and never predicted. Nothing can precede an n-gram that begins with it, so
    such an n-gram keeps its raw count in `neighbours`. Raises ValueError for ids outside
    0 … vocab_size − 1 and where there is nothing to count, TypeError for an order, a vocab_size or
    a mark that is no integer.
    """

    def __init__(
        self,
        sequences: Sequences,
        order: int,
        vocab_size: int,
        *,
        bos: int | None = None,
        eos: int | None = None,
    ):
        order, vocab_size = as_integer(order, "order"), as_integer(vocab_size, "vocab_size")
        bos = bos if bos is None else as_integer(bos, "bos")
        eos = eos if eos is None else as_integer(eos, "eos")
        if order < 1 or vocab_size < 1:
            raise ValueError(
                f"order and vocab_size must be at least 1, got {order} and {vocab_size}"
            )
        if bos is not None and bos == eos:
            raise ValueError(f"bos is never predicted and eos is: they cannot both be {bos}")
        self.order, self.vocab_size, self.bos, self.eos = order, vocab_size, bos, eos
        tokens, before = self.join(sequences)
        if vocab_size * (len(tokens) + 1) >= 2**63:
            raise ValueError(
                f"vocab_size {vocab_size} times {len(tokens)} tokens is beyond the int64 keys"
            )
        self.levels = _count(tokens, before, order, vocab_size, bos)
        owners = [level.ngrams // vocab_size for level in self.levels]  # the context of each n-gram
        self._starts = [
            np.searchsorted(owner, np.arange(level.n_contexts + 1))
            for owner, level in zip(owners, self.levels, strict=True)
        ]

    @property
    def n_ngrams(self) -> tuple[int, ...]:
        """How many different n-grams were seen, by length 1 … order."""
        return tuple(len(level.ngrams) for level in self.levels)

    def after(self, context: Sequence[int] = ()) -> np.ndarray:
        """How often each token followed `context` (at most `order − 1` ids): int64 (V,)."""
        ids = check_ids(context, 0, self.vocab_size, "context")
        if ids.ndim != 1:
            raise ValueError(f"context must have shape (m,), got {ids.shape}")
        m = len(ids)
        if m >= self.order:
            raise ValueError(f"a context has at most {self.order - 1} tokens, got {m}")
        rows = self.walk(ids[None])[-1]
        out = np.zeros(self.vocab_size, dtype=np.int64)
        _, tokens, ngrams = self.continuations(m, rows)
        out[tokens] = self.levels[m].counts[ngrams]
        return out

    def unseen_share(self, sequences: Sequences, n: int | None = None) -> float:
        """The share of a text's n-grams (running n-grams, not types) that were never counted."""
        n = self.order if n is None else n
        if not 1 <= n <= self.order:
            raise ValueError(f"n must lie between 1 and the order, {self.order}; got {n}")
        tokens, before = self.join(sequences)
        t = np.flatnonzero(before >= max(n - 1, self.bos is not None))
        if not len(t):
            raise ValueError(f"no sequence holds an n-gram of length {n}")
        rows = self.walk(tokens[t[:, None] + np.arange(1 - n, 0)])[-1]
        return float(np.mean(self.find(n - 1, rows, tokens[t]) < 0))

    def walk(self, contexts: np.ndarray) -> list[np.ndarray]:
        """Rows of the contexts' last 0, 1, … m tokens, each (N,); −1 where never seen.

        contexts: (N, m) with m < order; a token of −1 is no token.
        """
        rows = [np.zeros(len(contexts), dtype=np.int64)]
        for k in range(1, contexts.shape[1] + 1):
            keys = self.levels[k].contexts
            rows.append(_find(keys, self._key(rows[-1], contexts[:, -k])))
        return rows

    def find(self, k: int, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Index of the n-gram (context of k tokens in row, token), (N,); −1 where never seen."""
        return _find(self.levels[k].ngrams, self._key(rows, tokens))

    def continuations(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All n-grams that extend the contexts of k tokens in `rows` (N,), row −1 having none.

        Returns three arrays of one length: which of the N, the token that follows, the n-gram.
        """
        start, stop = self._starts[k][rows], self._starts[k][rows + 1]
        n = np.where(rows >= 0, stop - start, 0)
        ngrams = np.arange(n.sum()) + np.repeat(start - np.cumsum(n) + n, n)
        return (
            np.repeat(np.arange(len(rows)), n),
            self.levels[k].ngrams[ngrams] % self.vocab_size,
            ngrams,
        )

    def join(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """All sequences with bos and eos, end to end; how many tokens of its own precede each."""
        if isinstance(sequences, np.ndarray) and sequences.ndim == 1 and sequences.dtype != object:
            sequences = [sequences]
        first = np.array([] if self.bos is None else [self.bos], dtype=np.int64)
        last = np.array([] if self.eos is None else [self.eos], dtype=np.int64)
        arrays = []
        for i, ids in enumerate(map(np.asarray, sequences)):
            if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
                raise ValueError(f"sequence {i} must be integers (n,), got {ids.dtype} {ids.shape}")
            if self.bos is not None and np.any(ids == self.bos):
                raise ValueError(f"sequence {i} holds bos, {self.bos}, which is put before it here")
            ended = ids.size and ids[-1] == self.eos
            arrays.append(np.concatenate([first, ids.astype(np.int64), last[: 0 if ended else 1]]))
        lengths = np.array([len(ids) for ids in arrays], dtype=np.int64)
        if lengths.sum() <= len(arrays) * len(first):
            raise ValueError("there is nothing to count: every sequence is empty")
        tokens = np.concatenate(arrays)
        check_ids(tokens, 0, self.vocab_size, "sequences")
        return tokens, np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def _key(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return np.where((rows >= 0) & (tokens >= 0), rows * self.vocab_size + tokens, -1)


def as_integer(value: int, what: str) -> int:
    """value as Python's int; TypeError for all that is none, True and False included."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, got {value!r}")
    return int(value)


def check_ids(ids: np.ndarray, low: int, high: int, what: str) -> np.ndarray:
    """ids as int64; ValueError unless all are integers in low … high − 1."""
    ids = np.asarray(ids)
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"{what} must be integers, got {ids.dtype} {ids.shape}")
    if ids.size and (ids.min() < low or ids.max() >= high):
        bad = ids.min() if ids.min() < low else ids.max()
        raise ValueError(f"{what} holds the id {bad}, expected {low} … {high - 1}")
    return ids.astype(np.int64)


def _find(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Where each query stands in the sorted `keys`; −1 for one that is not there."""
    if not len(keys):
        return np.full(len(queries), -1)
    at = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[at] == queries, at, -1)


def _count(
    tokens: np.ndarray, before: np.ndarray, order: int, vocab_size: int, bos: int | None
) -> tuple[CountLevel, ...]:
    """Number the contexts and n-grams that end at every predicted position, level by level."""
    t = np.flatnonzero(before >= (bos is not None))
    context = ngram = np.zeros(len(t), dtype=np.int64)  # rows of each position's context, n-gram
    contexts = np.zeros(1, dtype=np.int64)
    levels: list[CountLevel] = []
    for k in range(order):
        longer = before[t] >= k
        if k:
            t, shorter = t[longer], ngram
            keys = context[longer] * vocab_size + tokens[t - k]
            contexts, context, _ = _number(keys)
        keys = context * vocab_size + tokens[t]
        ngrams, ngram, counts = _number(keys)
        if k:  # each different n-gram of this length is one neighbour of the one a token shorter
            suffix = np.empty(len(ngrams), dtype=np.int64)
            suffix[ngram] = shorter[longer]
            neighbours = np.bincount(suffix, minlength=len(levels[-1].ngrams))
            if bos is not None:  # what has nothing before it begins with bos
                first = shorter[~longer]
                neighbours[first] = levels[-1].counts[first]
            levels[-1] = replace(levels[-1], neighbours=neighbours)
        levels.append(CountLevel(contexts=contexts, ngrams=ngrams, counts=counts, neighbours=None))
    return tuple(levels)


def _number(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different keys in order, which of them each key is, and how often each occurs.

    What np.unique returns, but several times as fast on millions of keys: key and position are
    sorted as one number while they fit into 63 bits.
    """
    n = len(keys)
    bits = n.bit_length()
    if not n or int(keys.max()) >> (63 - bits):
        return np.unique(keys, return_inverse=True, return_counts=True)
    packed = np.sort(keys << bits | np.arange(n))
    ordered, position = packed >> bits, packed & ((1 << bits) - 1)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(first, append=n)
    which = np.empty(n, dtype=np.int64)
    which[position] = np.repeat(np.arange(len(first)), counts)
    return ordered[first], which, counts
