"""Character and word tokenisers: text to an array of integers, and back.

Both offer `encode(text) -> ids`, `decode(ids) -> text`, `vocab_size` and `vocab`, and are made by
`train(text)`. The ids are positions in `vocab`. The character tokeniser gives back exactly what it
was given; the word tokeniser loses what its docstring says. A text that is no `str` raises
TypeError.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNKNOWN, START, END = "<unk>", "<s>", "</s>"

# A word, with one apostrophe inside it if need be (o'er, don't); else one sign that is not space.
WORD = r"[^\W\d_]+(?:'[^\W\d_]+)?|[^\s]"


@runtime_checkable
class Tokenizer(Protocol):
    """What every tokeniser of the book offers."""

    @property
    def vocab(self) -> tuple[str, ...]: ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> NDArray[np.int64]: ...

    def decode(self, ids: ArrayLike) -> str: ...


class CharTokenizer:
    """One token per character (Unicode code point); the vocabulary is in code-point order."""

    def __init__(self, vocab: Sequence[str]) -> None:
        self.vocab = _distinct(vocab)
        points = [ord(char) for char in self.vocab]
        self._ids = np.full(max(points, default=0) + 2, -1, dtype=np.int64)  # last: beyond all
        self._ids[points] = np.arange(len(points))
        self._points = np.array(points, dtype="<u4")

    @classmethod
    def train(cls, text: str) -> CharTokenizer:
        """A tokeniser whose vocabulary is the characters of `text`."""
        return cls(sorted(set(_text(text))))

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids (n,) of the n characters; ValueError names the first unknown."""
        points = np.frombuffer(_text(text).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ids = self._ids[np.minimum(points, len(self._ids) - 1)]
        if len(ids) and ids.min() < 0:
            at = int(np.argmin(ids >= 0))
            raise ValueError(
                f"character {text[at]!r} at position {at} is not among the {self.vocab_size} "
                "characters of the training text"
            )
        return ids

    def decode(self, ids: ArrayLike) -> str:
        """The text of ids (n,); ValueError if one lies outside 0 .. vocab_size − 1."""
        points = self._points[_checked(ids, self.vocab_size)]
        return points.tobytes().decode("utf-32-le", "surrogatepass")

    def __repr__(self) -> str:
        return f"CharTokenizer(vocab_size={self.vocab_size})"


class WordTokenizer:
    """Words and punctuation signs (`WORD`), rare and unseen ones as `<unk>`.

    The vocabulary is `<unk>`, `<s>`, `</s>`, then words by falling count, ties in alphabetical
    order. `encode` drops white space and, by default, case; `decode` puts single spaces between
    tokens. `encode_lines` prepares what a language model of words reads and predicts.
    """

    def __init__(self, vocab: Sequence[str], *, lowercase: bool = True) -> None:
        self.vocab = _distinct(vocab)
        if self.vocab[:3] != (UNKNOWN, START, END):
            raise ValueError(f"a vocabulary starts with <unk>, <s>, </s>, got {self.vocab[:3]}")
        self.lowercase = lowercase
        self._ids = {word: i for i, word in enumerate(self.vocab)}
        self.unknown, self.start, self.end = 0, 1, 2

    @classmethod
    def train(
        cls,
        text: str,
        min_count: int = 2,
        *,
        max_size: int | None = None,
        lowercase: bool = True,
    ) -> WordTokenizer:
        """A tokeniser for the words that `text` holds at least `min_count` times.

        `max_size` keeps only the most frequent so that vocab_size, with the three marks, is at most
        that. ValueError for min_count < 1 or max_size < 3.
        """
        if min_count < 1 or (max_size is not None and max_size < 3):
            raise ValueError(f"expected min_count >= 1, max_size >= 3: {min_count=}, {max_size=}")
        counts = Counter(words(text, lowercase=lowercase))
        kept = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
        vocab = (UNKNOWN, START, END, *kept)
        return cls(vocab[:max_size], lowercase=lowercase)

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids (n,) of the n words and signs of `text`, lines running on, no marks added."""
        get = self._ids.get
        ids = [get(word, 0) for word in words(text, lowercase=self.lowercase)]
        return np.array(ids, dtype=np.int64)

    def encode_lines(self, text: str, *, start: bool = False) -> list[NDArray[np.int64]]:
        """Each non-empty line of `text` as ids that end with `</s>`.

        `</s>` is predicted like a word. With `start`, `<s>` comes first: as context only, a model
        never predicts it (`unrolled.models.ngram` adds its own contexts and wants none).
        """
        head = [self.start] if start else []
        lines = (self.encode(line) for line in _text(text).splitlines())
        return [np.array([*head, *ids, self.end], dtype=np.int64) for ids in lines if len(ids)]

    def decode(self, ids: ArrayLike) -> str:
        """The tokens of ids (n,), joined by spaces; ValueError if one is no id."""
        return " ".join(self.vocab[i] for i in _checked(ids, self.vocab_size))

    def __repr__(self) -> str:
        return f"WordTokenizer(vocab_size={self.vocab_size}, lowercase={self.lowercase})"


def words(text: str, *, lowercase: bool = True) -> list[str]:
    """The words and punctuation signs of `text` by the pattern `WORD`."""
    return re.findall(WORD, _text(text).lower() if lowercase else _text(text))


def _text(text: str) -> str:
    """`text`, or TypeError if it is none: a list of lines, say, or bytes."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str), got {type(text).__name__}")
    return text


def _distinct(vocab: Sequence[str]) -> tuple[str, ...]:
    vocab = tuple(vocab)
    if len(set(vocab)) != len(vocab):
        twice = next(v for v, n in Counter(vocab).items() if n > 1)
        raise ValueError(f"a token stands once in a vocabulary, {twice!r} stands more often")
    return vocab


def _checked(ids: ArrayLike, vocab_size: int) -> NDArray[np.int64]:
    """`ids` as a vector of valid positions, or an error that names the first that is not."""
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"expected integers (n,), got {array.dtype} of shape {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array >= vocab_size))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"id {array[at]} at position {at} is not in 0 .. {vocab_size - 1}")
    return array
