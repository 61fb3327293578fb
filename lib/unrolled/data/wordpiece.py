"""WordPiece: how it chooses a merge, and how it cuts a word (chapter 4).

Byte-pair encoding counts pairs. WordPiece (Schuster & Nakajima 2012) takes the pair that makes the
training text most likely; it keeps the vocabulary, not the merges, and cuts a word into the longest
tokens from the left. A token that continues a word begins with ##, as in BERT (Devlin et al. 2019).
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrolled.data.tokens import as_ids, check_distinct, words
from unrolled.validate import checked, one_of, whole

UNKNOWN, CONTINUES = "[UNK]", "##"
CRITERIA = ("ratio", "gain")


@checked
def characters(word: str) -> tuple[str, ...]:
    """The word as its first tokens, the characters: hug is h, ##u, ##g."""
    return tuple(CONTINUES + char if n else char for n, char in enumerate(word))


@checked
def pair_scores(
    counts: Mapping[tuple[str, ...], int], criterion: str = "ratio"
) -> dict[tuple[str, str], float]:
    """The score of each pair of neighbours in `counts`, word as tokens → how often it occurs.

    With f for counts and N tokens in all, "ratio" is f(ab) / (f(a) f(b)), as courses give it.
    "gain" is by how many nats the merge makes the text more likely, if a token has the probability
    f / N: the change of Σ f ln f − N ln N. For a pair that is rare among its parts that is about
    f(ab) · (ln(N f(ab) / (f(a) f(b))) − 1); the −1 stands for the tokens that the merge leaves as
    they are. Google has not published the trainer of BERT's vocabulary, so both are
    reconstructions. A ratio says nothing of how common a pair is: on real text the first may occur
    once. The library tokenizers trains its WordPiece by the counts f(ab) alone.
    """
    one_of("criterion", criterion, CRITERIA)
    single, pairs, joins = Counter(), Counter(), Counter()
    for tokens, count in counts.items():
        for token in tokens:
            single[token] += count
        ends = {}  # of a pair: where its last join ends, since aaa has room for one a, a
        for at, pair in enumerate(pairwise(tokens)):
            pairs[pair] += count
            if ends.get(pair, 0) <= at:
                joins[pair] += count
                ends[pair] = at + 2
    if criterion == "ratio":
        return {(a, b): n / (single[a] * single[b]) for (a, b), n in pairs.items()}
    total = single.total()
    return {pair: _gain(single, total, pair, joins[pair]) for pair in pairs}


def _gain(single: Counter[str], total: int, pair: tuple[str, str], n: int) -> float:
    """The nats by which the text becomes more likely when `pair` is joined n times."""
    changes = Counter({join(pair, pair)[0]: n})
    for part in pair:
        changes[part] -= n
    likelier = sum(_log_power(single[t] + d) - _log_power(single[t]) for t, d in changes.items())
    return likelier - (_log_power(total - n) - _log_power(total))


def _log_power(count: int) -> float:
    """x ln x, the logarithm of x to the power of x, and 0 for 0."""
    return count * math.log(count) if count else 0.0


@checked
def join(tokens: Sequence[str], pair: tuple[str, str]) -> tuple[str, ...]:
    """The tokens of a word with `pair` made one token wherever it occurs, from left to right."""
    joined: list[str] = []
    at = 0
    while at < len(tokens):
        both = tuple(tokens[at : at + 2]) == pair
        joined.append(pair[0] + pair[1].removeprefix(CONTINUES) if both else tokens[at])
        at += 2 if both else 1
    return tuple(joined)


class WordPieceTokenizer:
    """Words as the longest tokens from the left; a word that cannot be cut so is `[UNK]`.

    Words are those of `unrolled.data.tokens.words`: white space is lost and, by default, case.
    """

    @checked
    def __init__(self, vocab: Sequence[str], *, lowercase: bool = True) -> None:
        self.vocab = check_distinct(vocab)
        self.vocab_size = len(self.vocab)
        self.lowercase = lowercase
        self._ids = {token: i for i, token in enumerate(self.vocab)}
        if UNKNOWN not in self._ids:
            raise ValueError(f"the vocabulary of {self.vocab_size} tokens lacks {UNKNOWN}")
        self.unk_id = self._ids[UNKNOWN]
        self._longest = max(len(token) for token in self.vocab)

    @classmethod
    @checked
    def train(
        cls, text: str, n_merges: int = 100, *, criterion: str = "ratio", lowercase: bool = True
    ) -> WordPieceTokenizer:
        """`[UNK]`, the characters of `text`, and what merging the best pair n_merges times makes.

        Ties go to the greatest pair. All scores are computed again at every merge, which is plain
        and slow: for small texts.
        """
        whole("n_merges", n_merges, 0)
        counts = {characters(w): n for w, n in Counter(words(text, lowercase=lowercase)).items()}
        vocab = dict.fromkeys([UNKNOWN, *sorted({token for word in counts for token in word})])
        for _ in range(n_merges):
            scores = pair_scores(counts, criterion)
            if not scores:
                break
            best = max(scores, key=lambda pair: (scores[pair], pair))
            counts = {join(word, best): n for word, n in counts.items()}
            vocab[join(best, best)[0]] = None
        return cls(tuple(vocab), lowercase=lowercase)

    @checked
    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids (n,) of the tokens of all words of `text`."""
        ids: list[int] = []
        for word in words(text, lowercase=self.lowercase):
            ids += self.encode_word(word)
        return np.array(ids, dtype=np.int64)

    @checked
    def encode_word(self, word: str) -> list[int]:
        """The ids of one word: the longest token that it begins with, then of the rest again."""
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUES if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if prefix + word[start:end] in self._ids:
                    break
            else:
                return [self.unk_id]
            ids.append(self._ids[prefix + word[start:end]])
            start = end
        return ids

    @checked
    def decode(self, ids: ArrayLike) -> str:
        """The tokens of ids (n,): with ## glued to the one before, others after a space."""
        tokens = [self.vocab[i] for i in as_ids(ids, 0, self.vocab_size, "ids", 1)]
        glued = "".join(
            token.removeprefix(CONTINUES) if token.startswith(CONTINUES) else f" {token}"
            for token in tokens
        )
        return glued.removeprefix(" ")


@checked
def bert_words(text: str, *, lowercase: bool = True) -> list[str]:
    """The words that a published BERT was trained on, to be cut by `encode_word`.

    Each punctuation mark and each CJK character is a word, accents go with the case, and control
    characters go. BERT's own code takes a word of more than 200 characters for [UNK],
    transformers one of more than 100.
    """
    cut: list[str] = []
    for char in unicodedata.normalize("NFD", text) if lowercase else text:
        kind, name = unicodedata.category(char), unicodedata.name(char, "")
        is_mark = kind[0] == "P" or (char.isascii() and not char.isalnum())
        if char in "\t\n\r" or kind[0] == "Z":
            cut.append(" ")
        elif (is_mark and kind[0] != "C") or (name.startswith("CJK ") and "IDEOGRAPH-" in name):
            cut.append(f" {char} ")
        elif kind[0] != "C" and not (lowercase and kind == "Mn") and char != "\ufffd":
            cut.append(char.lower() if lowercase else char)
    return "".join(cut).split()
