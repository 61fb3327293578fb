"""Byte-level byte-pair encoding: merges learnt from a text, applied to others, undone (chapter 4).

A pattern cuts a text into pieces, a piece begins as its UTF-8 bytes, and merges join neighbouring
tokens within a piece. `unrolled.data.tokenizer_files` writes and reads the two public file forms.

Sennrich, Haddow & Birch 2016, algorithm 1, on bytes and with the pattern of GPT-2 (Radford et al.
2019).
"""

from __future__ import annotations

import codecs
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import regex
from numpy.typing import ArrayLike, NDArray

from unrolled.data.bpe_merges import BYTES, END, GONE, Pair, learn_merges
from unrolled.data.tokens import as_ids, check_distinct, check_text
from unrolled.validate import checked, one_of

PATTERNS = {  # each match is a piece
    "gpt2": regex.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ),
    "none": regex.compile(r"(?s).+"),  # the whole text is one piece
}

_LAST_CUT = regex.compile(r"(?s).*\S(?=\s)")  # ends where white space follows something else
_CACHED_PIECES, _CACHED_LENGTH = 100_000, 40


class BPETokenizer:
    """Tokens of one byte or more, made by `merges`, and special tokens.

    vocab holds bytes for an ordinary token and str for a special one; the ids are the 256 bytes,
    then what each merge makes, in order, then the special tokens. `special_ids` gives their ids by
    name. Every text comes back exactly: no character is unknown. A lone surrogate has no UTF-8 and
    raises UnicodeEncodeError, which is a ValueError.
    """

    @checked
    def __init__(
        self,
        merges: Sequence[Pair],
        special_tokens: Collection[str] = (),
        *,
        pattern: str = "gpt2",
        vocab: Sequence[bytes | str] | None = None,
    ) -> None:
        """A tokeniser with these merges; vocab gives the same tokens other ids, as files may.

        Raises ValueError for a merge of tokens that no merge before it makes, or into a token that
        there is already; for a special token with white space; and for a vocab of other tokens.
        """
        self.merges = tuple((bytes(a), bytes(b)) for a, b in merges)
        self.pattern = one_of("pattern", pattern, PATTERNS)
        self._special = _special_pattern(special_tokens)
        made = dict.fromkeys(BYTES)
        for n, (a, b) in enumerate(self.merges):
            if not (a in made and b in made):
                missing = b if a in made else a
                raise ValueError(f"merge {n} joins {a} and {b}, but none before makes {missing}")
            if a + b in made:
                raise ValueError(f"merge {n} joins {a} and {b}, but {a + b} is a token already")
            made[a + b] = None
        tokens = (*made, *special_tokens)
        self.vocab = check_distinct(tokens if vocab is None else vocab)
        if different := sorted(set(self.vocab) ^ set(tokens), key=repr):
            wrong = "is missing" if different[0] in tokens else "is none of them"
            raise ValueError(
                "a vocabulary holds the bytes, what the merges make, and the special tokens; "
                f"{different[0]!r} {wrong}"
            )
        self.vocab_size = len(self.vocab)
        self._ids = {token: i for i, token in enumerate(self.vocab)}
        self.special_ids = {token: self._ids[token] for token in special_tokens}
        self._bytes = [t.encode() if isinstance(t, str) else t for t in self.vocab]
        self._byte_ids = [self._ids[byte] for byte in BYTES]
        self._joins = [(self._ids[a], self._ids[b], self._ids[a + b]) for a, b in self.merges]
        self._ranks = {(a, b): rank for rank, (a, b, _) in enumerate(self._joins)}
        self._cache: dict[str, list[int]] = {}

    @classmethod
    @checked
    def train(
        cls,
        text: str,
        n_merges: int = 1_000,
        special_tokens: Collection[str] = (),
        *,
        pattern: str = "gpt2",
        min_count: int = 2,
    ) -> BPETokenizer:
        """A tokeniser with at most `n_merges` merges from `text`: see `learn_merges`.

        Special tokens in the text are counted nowhere, and no piece reaches across one.
        """
        pieces = PATTERNS[one_of("pattern", pattern, PATTERNS)]
        counts = Counter()
        for part in _special_pattern(special_tokens).split(_encodable(text))[::2]:
            counts.update(pieces.findall(part))
        counted = {piece.encode(): count for piece, count in counts.items()}
        merges = learn_merges(counted, n_merges, min_count)
        return cls(merges, special_tokens, pattern=pattern)

    @checked
    def encode(self, text: str, *, special: bool = False) -> NDArray[np.int64]:
        """The ids (n,) of the n tokens of `text`.

        A special token in the text is cut like any other characters, since who writes a text should
        not steer a model by it; special=True gives it its own id, the longest where several fit.
        """
        parts = self._special.split(_encodable(text)) if special else [_encodable(text)]
        ids: list[int] = []
        for n, part in enumerate(parts):
            if n % 2:
                ids.append(self.special_ids[part])
                continue
            for piece in PATTERNS[self.pattern].findall(part):
                ids += self._cache.get(piece) or self._encode_piece(piece)
        return np.array(ids, dtype=np.int64)

    @checked
    def encode_stream(
        self, texts: Iterable[str], *, special: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """The ids of the joined `texts`, array after array: for a text too long for memory.

        The texts may be cut anywhere: joined, the arrays are what `encode` gives for the whole. A
        text is held until white space follows something else, where GPT-2's pattern always begins
        a piece. With pattern "none" all is one piece and is held to the end.
        """
        held = ""
        for text in texts:
            seen = max(len(held) - 1, 0)
            held += check_text(text)
            cut = _LAST_CUT.match(held, seen) if self.pattern != "none" else None
            if cut:
                yield self.encode(held[: cut.end()], special=special)
                held = held[cut.end() :]
        yield self.encode(held, special=special)

    @checked
    def encode_bytes(self, piece: bytes) -> NDArray[np.int64]:
        """The ids (n,) of any bytes, also of invalid UTF-8, taken as one piece."""
        return np.array(self._merged(piece), dtype=np.int64)

    @checked
    def decode_bytes(self, ids: ArrayLike) -> bytes:
        """The bytes of ids (n,); ValueError if one lies outside 0 … vocab_size − 1."""
        ids = as_ids(ids, 0, self.vocab_size, "ids", 1)
        return b"".join([self._bytes[i] for i in ids.tolist()])

    @checked
    def decode(self, ids: ArrayLike) -> str:
        """The text of ids (n,); bytes that are no UTF-8, as of a cut character, become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")

    @checked
    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids that arrive one by one: for each, the characters it makes whole.

        Bytes of an unfinished character are held back; joined, the pieces are what `decode` gives.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for i in ids:
            yield decoder.decode(self.decode_bytes([i]))
        yield decoder.decode(b"", final=True)

    def _encode_piece(self, piece: str) -> list[int]:
        ids = self._merged(piece.encode())
        if len(piece) <= _CACHED_LENGTH:
            if len(self._cache) == _CACHED_PIECES:
                self._cache.clear()
            self._cache[piece] = ids
        return ids

    def _merged(self, piece: bytes) -> list[int]:
        """The ids after all merges: at each step the earliest learnt, of equal ones the leftmost.

        This gives what applying all merges in turn gives, since a merge joins only what merges
        before it have made. A linked list and a heap: the time for n bytes is O(n log n).
        """
        tokens = [*(self._byte_ids[byte] for byte in piece), END]
        n = len(tokens)
        left, right, ranks = list(range(-1, n - 1)), list(range(1, n + 1)), self._ranks
        # rank · n + position: one number each, quicker to compare than a tuple
        heap = [ranks[pair] * n + i for i, pair in enumerate(pairwise(tokens)) if pair in ranks]
        heapq.heapify(heap)
        while heap:
            rank, i = divmod(heapq.heappop(heap), n)
            a, b, new = self._joins[rank]
            j = right[i]
            if tokens[i] != a or tokens[j] != b:  # joined with another neighbour since
                continue
            k = right[j]
            tokens[i], tokens[j], right[i], left[k] = new, GONE, k, i
            h = left[i]  # −1 for the first, and tokens[−1] is the end
            if (tokens[h], new) in ranks:
                heapq.heappush(heap, ranks[tokens[h], new] * n + h)
            if (new, tokens[k]) in ranks:
                heapq.heappush(heap, ranks[new, tokens[k]] * n + i)
        return [token for token in tokens if token >= 0]


def _encodable(text: str) -> str:
    """`text`; TypeError if it is no str, UnicodeEncodeError for a lone surrogate."""
    check_text(text).encode()
    return text


def _special_pattern(special_tokens: Collection[str]) -> regex.Pattern:
    """Matches each special token, the longest first, as a group: `split` keeps it at odd places."""
    for token in special_tokens:
        if check_text(token).split() != [token]:
            raise ValueError(f"a special token has no white space and is not empty, got {token!r}")
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.compile(f"({'|'.join(map(regex.escape, longest_first)) or '(?!)'})")
