"""Character and word tokenisers: text to an array of integers, and back (chapters 1 and 4).

Every tokeniser of the book has `encode(text) -> ids`, `decode(ids) -> text`, `vocab_size` and
`vocab`, and is made by `train(text)`. The ids are positions in `vocab`. Decoding what the character
tokeniser encoded gives the same text; the word tokeniser loses what its docstring says. A text that
is not a `str` raises TypeError. Subwords are in `bpe` and `wordpiece`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrolled.validate import checked, whole

UNKNOWN, START, END = "<unk>", "<s>", "</s>"

# A word, perhaps with one apostrophe inside it (o'er, don't), or one character that is no space.
WORD = r"[^\W\d_]+(?:'[^\W\d_]+)?|[^\s]"


class CharTokenizer:
    """One token per character (Unicode code point); the vocabulary is in code-point order."""

    @checked
    def __init__(self, vocab: str | Sequence[str]) -> None:
        """vocab: the characters, each once; ValueError for what is none."""
        self.vocab = check_distinct(vocab)
        self.vocab_size = len(self.vocab)
        if odd := [token for token in self.vocab if not isinstance(token, str) or len(token) != 1]:
            raise ValueError(f"vocab must hold single characters, got {odd[0]!r}")
        points = [ord(char) for char in self.vocab]
        self._ids = np.full(max(points, default=0) + 2, -1, dtype=np.int64)  # last: beyond all
        self._ids[points] = np.arange(len(points))
        self._points = np.array(points, dtype="<u4")

    @classmethod
    @checked
    def train(cls, text: str) -> CharTokenizer:
        """A tokeniser whose vocabulary is the characters of `text`."""
        return cls(sorted(set(check_text(text))))

    @checked
    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids (n,) of the n characters; ValueError names the first unknown."""
        points = np.frombuffer(check_text(text).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ids = self._ids[np.minimum(points, len(self._ids) - 1)]
        if len(ids) and ids.min() < 0:
            at = int(np.argmin(ids >= 0))
            raise ValueError(
                f"character {text[at]!r} at position {at} is not among the {self.vocab_size} "
                "characters of the training text"
            )
        return ids

    @checked
    def decode(self, ids: ArrayLike) -> str:
        """The text of ids (n,); ValueError if one lies outside 0 … vocab_size − 1."""
        points = self._points[as_ids(ids, 0, self.vocab_size, "ids", 1)]
        return points.tobytes().decode("utf-32-le", "surrogatepass")


class WordTokenizer:
    """Words and punctuation (`WORD`); rare and unseen ones become `<unk>`.

    The vocabulary is `<unk>`, `<s>`, `</s>`, then words by falling count, ties in alphabetical
    order. `encode` drops white space and, by default, case; `decode` puts single spaces between
    tokens. `encode_lines` prepares what a language model of words reads and predicts.
    """

    unk_id, bos_id, eos_id = 0, 1, 2  # of the special tokens <unk>, <s>, </s>

    @checked
    def __init__(self, vocab: Sequence[str], *, lowercase: bool = True) -> None:
        self.vocab = check_distinct(vocab)
        self.vocab_size = len(self.vocab)
        if self.vocab[:3] != (UNKNOWN, START, END):
            raise ValueError(f"a vocabulary starts with <unk>, <s>, </s>, got {self.vocab[:3]}")
        self.lowercase = lowercase
        self._ids = {word: i for i, word in enumerate(self.vocab)}

    @classmethod
    @checked
    def train(
        cls, text: str, min_count: int = 2, *, max_size: int | None = None, lowercase: bool = True
    ) -> WordTokenizer:
        """A tokeniser for the words that `text` holds at least `min_count` times.

        `max_size`, at least 3, keeps only the most frequent, so that vocab_size, the three special
        tokens included, is at most that.
        """
        whole("min_count", min_count)
        if max_size is not None:
            whole("max_size", max_size, 3)
        counts = Counter(words(text, lowercase=lowercase))
        kept = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
        return cls((UNKNOWN, START, END, *kept)[:max_size], lowercase=lowercase)

    @checked
    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids (n,) of the n words of `text`, across line ends, without special tokens."""
        ids = [self._ids.get(word, 0) for word in words(text, lowercase=self.lowercase)]
        return np.array(ids, dtype=np.int64)

    @checked
    def encode_lines(self, text: str) -> list[NDArray[np.int64]]:
        """The ids of each non-empty line of `text`, with `</s>` at its end.

        `</s>` is predicted like a word. `unrolled.models.ngram` puts `<s>` before each line itself.
        """
        text = check_text(text).lower() if self.lowercase else check_text(text)
        lines = [re.findall(WORD, line) for line in text.splitlines()]
        rows = [[self._ids.get(word, 0) for word in line] for line in lines if line]
        return [np.array([*ids, self.eos_id], dtype=np.int64) for ids in rows]

    @checked
    def decode(self, ids: ArrayLike) -> str:
        """The tokens of ids (n,), joined by spaces; ValueError if one is no id."""
        return " ".join(self.vocab[i] for i in as_ids(ids, 0, self.vocab_size, "ids", 1))


@checked
def words(text: str, *, lowercase: bool = True) -> list[str]:
    """The words and punctuation marks of `text` by the pattern `WORD`."""
    return re.findall(WORD, check_text(text).lower() if lowercase else check_text(text))


def check_text(text: str) -> str:
    """`text`, or TypeError if it is anything else: a list of lines, say, or bytes."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str), got {type(text).__name__}")
    return text


def check_distinct(vocab: Sequence) -> tuple:
    """`vocab` as a tuple, or ValueError with a token that occurs in it more than once."""
    vocab = tuple(vocab)
    if len(set(vocab)) != len(vocab):
        twice = next(v for v, n in Counter(vocab).items() if n > 1)
        raise ValueError(f"each token must occur once in a vocabulary, {twice!r} occurs more often")
    return vocab


def as_ids(
    ids: ArrayLike, low: int, high: int, what: str, ndim: int | None = None
) -> NDArray[np.int64]:
    """ids as int64; ValueError unless all are integers in low … high − 1, with ndim axes."""
    ids = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)  # what a GPU gave
    other_shape = ndim is not None and ids.ndim != ndim
    if other_shape or (ids.size and ids.dtype.kind not in "iu"):
        kind = "integers" if ndim is None else f"integers with ndim={ndim}"
        raise ValueError(f"{what} must be {kind}, got {ids.dtype} {ids.shape}")
    if ids.size and (ids.min() < low or ids.max() >= high):
        bad = ids.min() if ids.min() < low else ids.max()
        raise ValueError(f"{what} holds the id {bad}, expected {low} … {high - 1}")
    return ids.astype(np.int64)
