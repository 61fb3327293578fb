"""Counts of all n-grams of a text up to an order, in a few sorted arrays (chapter 2).

A context of k tokens is one token more than its suffix, the nearest k − 1. Level k holds two sorted
lists of int64 keys,

    contexts  row(the context's suffix) · V + the context's farthest token
    ngrams    row(the context) · V + the token that follows,

and a row is found by binary search. Looking up a context finds the rows of all its suffixes on the
way: smoothing falls back on them.

Rows and counts are int64, also where numpy counts positions in 32 bits (in a web page): a row
times V must not run over there. What numpy takes as positions or as repetitions is np.intp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unrolled.data.tokens import as_ids
from unrolled.validate import checked, whole

Sequences = np.ndarray | Sequence[np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class CountLevel:
    """All n-grams hw of one length; C different contexts h, G different n-grams."""

    contexts: np.ndarray  # (C,) sorted keys
    ngrams: np.ndarray  # (G,) sorted keys
    counts: np.ndarray  # (G,) how often each was seen
    continuation_counts: np.ndarray | None = None  # (G,) different tokens before it; None: longest


class NGramCounts:
    """Counts of the n-grams of length 1 … `order` that end in a token to be predicted.

    sequences: one id array (n,), or several; no n-gram crosses from one to the next. bos, eos: ids
    put before and after each sequence (eos where it is not there yet). **One** `bos` stands before
    each sequence; it is a context only and never predicted. Nothing can precede an n-gram that
    begins with it, so such an n-gram keeps its raw count in `continuation_counts`.

    Raises ValueError for ids outside 0 … vocab_size − 1, for an order above the number of tokens
    and where there is nothing to count, TypeError for an argument that is not an integer.
    """

    @checked
    def __init__(
        self,
        sequences: Sequences,
        order: int,
        vocab_size: int,
        *,
        bos: int | None = None,
        eos: int | None = None,
    ):
        self.vocab_size = whole("vocab_size", vocab_size)
        self.bos = bos if bos is None else whole("bos", bos, 0)
        self.eos = eos if eos is None else whole("eos", eos, 0)
        if bos is not None and bos == eos:
            raise ValueError(f"bos is never predicted and eos is: they cannot both be {bos}")
        tokens, before = self.concatenate(sequences)
        self.order = whole("order", order, 1, len(tokens))
        if self.vocab_size * (len(tokens) + 1) >= 2**63:
            size = f"vocab_size {vocab_size} times {len(tokens)} tokens"
            raise ValueError(f"{size} is beyond the int64 keys")
        self.levels = _count(tokens, before, self.order, self.vocab_size, bos)
        self._starts = [  # where each context's n-grams begin
            np.searchsorted(level.ngrams, _numbers(len(level.contexts) + 1) * self.vocab_size)
            for level in self.levels
        ]

    @property
    def n_ngrams(self) -> tuple[int, ...]:
        """How many different n-grams were seen, by length 1 … order."""
        return tuple(len(level.ngrams) for level in self.levels)

    @checked
    def next_counts(self, context: Sequence[int] = ()) -> np.ndarray:
        """How often each token followed `context` (at most `order − 1` ids): int64 (V,)."""
        ids = as_ids(context, 0, self.vocab_size, "context", 1)
        out = np.zeros(self.vocab_size, dtype=np.int64)
        _, tokens, ngrams = self.followers(len(ids), self.context_rows(ids[None])[-1])
        out[tokens] = self.levels[len(ids)].counts[ngrams]
        return out

    @checked
    def unseen_share(self, sequences: Sequences, n: int | None = None) -> float:
        """The share of a text's n-grams (running n-grams, not types) that were never counted."""
        n = self.order if n is None else whole("n", n, 1, self.order)
        tokens, before = self.concatenate(sequences)
        t = np.flatnonzero(before >= max(n - 1, self.bos is not None))
        if not len(t):
            raise ValueError(f"no sequence holds an n-gram of length {n}")
        rows = self.context_rows(tokens[t[:, None] + np.arange(1 - n, 0)])[-1]
        return float(np.mean(self.ngram_rows(n - 1, rows, tokens[t]) < 0))

    def context_rows(self, contexts: np.ndarray) -> list[np.ndarray]:
        """Rows of the contexts' last 0, 1, … m tokens, each (N,); −1 where never seen.

        contexts: (N, m) with m < order; a token of −1 is no token.
        """
        m = whole("the length of a context", contexts.shape[-1], 0, self.order - 1)
        rows = [np.zeros(len(contexts), dtype=np.int64)]
        for k in range(1, m + 1):
            rows.append(_find(self.levels[k].contexts, self._key(rows[-1], contexts[:, -k])))
        return rows

    def ngram_rows(self, k: int, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Row of the n-gram (context of k tokens in row, token), (N,); −1 where never seen."""
        return _find(self.levels[k].ngrams, self._key(rows, tokens))

    def ngram_tokens(self, n: int) -> np.ndarray:
        """The ids of all n-grams of length n, in the order of their rows: (G, n)."""
        whole("n", n, 1, self.order)
        contexts, keys = np.zeros((1, 0), dtype=np.int64), self.levels[n - 1].ngrams
        for level in self.levels[1:n]:
            farthest, suffixes = level.contexts % self.vocab_size, level.contexts // self.vocab_size
            contexts = np.column_stack([farthest, contexts[suffixes]])
        return np.column_stack([contexts[keys // self.vocab_size], keys % self.vocab_size])

    def followers(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All n-grams that extend the contexts of k tokens in `rows` (N,), row −1 having none.

        Returns three arrays of one length: which of the N, the token that follows, the n-gram.
        """
        start, stop = self._starts[k][rows], self._starts[k][rows + 1]
        n = np.asarray(np.where(rows >= 0, stop - start, 0), dtype=np.intp)
        ngrams = _numbers(n.sum()) + np.repeat(start - np.cumsum(n) + n, n)
        tokens = self.levels[k].ngrams[ngrams] % self.vocab_size
        return np.repeat(_numbers(len(rows)), n), tokens, ngrams

    def concatenate(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
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
        lengths = np.array([len(ids) for ids in arrays], dtype=np.intp)
        if lengths.sum() <= len(arrays) * len(first):
            raise ValueError("there is no token: every sequence is empty")
        tokens = as_ids(np.concatenate(arrays), 0, self.vocab_size, "sequences")
        return tokens, _numbers(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def _key(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return np.where((rows >= 0) & (tokens >= 0), rows * self.vocab_size + tokens, -1)


def _numbers(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int64)


def _int64(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def _find(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The index of each query in the sorted `keys`, −1 for a query that they do not hold."""
    if not len(keys):
        return np.full(len(queries), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[at] == queries, at, np.int64(-1))


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
            contexts, context, _ = _number(context[longer] * vocab_size + tokens[t - k])
        ngrams, ngram, counts = _number(context * vocab_size + tokens[t])
        if k:  # each n-gram of this length adds 1 to the continuation count of its suffix
            suffix = np.empty(len(ngrams), dtype=np.intp)
            suffix[ngram] = shorter[longer]
            continued = np.bincount(suffix, minlength=len(levels[-1].ngrams)).astype(np.int64)
            if bos is not None:  # an n-gram with nothing before it begins with bos
                first = shorter[~longer]
                continued[first] = levels[-1].counts[first]
            levels[-1] = replace(levels[-1], continuation_counts=continued)
        levels.append(CountLevel(contexts=contexts, ngrams=ngrams, counts=counts))
    return tuple(levels)


def _number(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """np.unique(keys, return_inverse=True, return_counts=True), several times as fast.

    Keys from a small range are counted in a table. Of others key and position are sorted as one
    number as long as they fit into 63 bits.
    """
    n = len(keys)
    if n and int(keys.max()) < 4 * n:
        table = np.bincount(keys)
        ordered = np.flatnonzero(table)
        rank = np.empty(len(table), dtype=np.int64)
        rank[ordered] = _numbers(len(ordered))
        return _int64(ordered), rank[keys], _int64(table[ordered])
    bits = n.bit_length()
    if not n or int(keys.max()) >> (63 - bits):
        ordered, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return ordered, _int64(which), _int64(counts)
    packed = np.sort(keys << bits | _numbers(n))
    ordered, position = packed >> bits, packed & ((1 << bits) - 1)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(first, append=n)
    which = np.empty(n, dtype=np.int64)
    which[position] = np.repeat(_numbers(len(first)), counts)
    return ordered[first], which, _int64(counts)
