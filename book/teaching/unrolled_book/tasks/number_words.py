"""Numbers from 1 to 999,999,999,999 in German, English and French words (chapters 13 and 19).

>>> words(21, "de"), words(21, "en")
('einundzwanzig', 'twenty-one')
>>> tokens(21, "de"), tokens(21, "en")
(('ein', 'und', 'zwanzig'), ('twenty', 'one'))

German puts units before tens, English behind them: a small translation whose words change places.
What ships are the words of 1 … 999, of as many thousands, millions and milliards, as the package
num2words writes them; `words` joins up to four of them. `lib/corpora/number_words.py` rebuilds the
file and compares `words` with the package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from unrolled.data.batches import IGNORE, pad
from unrolled.data.corpora import read_text
from unrolled.validate import checked, one_of, whole

SOURCE = "num2words 0.5.14 of the Python Package Index, its output in de, en and fr"
LICENCE = "the package LGPL 2.1; number words are facts of the languages and free"
SHA256 = (
    "b9bee872b4bbec55d7a76a4ce40bd61b5716a1aad5fc211c26445ac783aedd12"  # of the uncompressed file
)

TEXT = Path(__file__).parents[1] / "texts" / "number_words.bz2"
LANGUAGES = ("de", "en", "fr")
MAX_DIGITS, PER_LENGTH = 12, 4000
PAD, START, END = 0, 1, 2  # the first ids of every vocabulary
SPLITS = ("train", "valid", "test")
# by="length": training stops at eight digits.
LENGTHS = {"train": range(1, 9), "valid": range(9, 11), "test": range(11, 13)}

UNITS = "ein eine eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf sech sieb"
TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
SCALES = "und hundert tausend Million Millionen Milliarde Milliarden"
MORPHEMES = tuple(f"{UNITS} {TENS} {SCALES}".split())
_LONGEST = re.compile("|".join(sorted(MORPHEMES, key=len, reverse=True)))


@checked
def words(n: int, language: str) -> str:
    """The number 1 ≤ n < 10¹² as the language spells it; ValueError for another one."""
    whole("a number", n, 1, 10**MAX_DIGITS - 1)
    parts = _parts()[one_of("the language", language, LANGUAGES)]
    groups = [n // 1000**k % 1000 for k in range(4)]
    *larger, last = (parts[k][groups[k] - 1] if groups[k] else "" for k in (3, 2, 1, 0))
    if language == "de":
        return " ".join(filter(None, [*larger[:2], larger[2] + last]))
    if language == "fr":
        return " ".join(filter(None, [*larger, last]))
    text = ", ".join(filter(None, larger))
    link = " and " if groups[0] < 100 else ", "  # one thousand and one; one thousand, one hundred
    return link.join(filter(None, [text, last]))


@checked
def tokens(n: int, language: str) -> tuple[str, ...]:
    """The tokens of `words`: German morphemes, English and French words."""
    text = words(n, language)
    if language == "de":
        return tuple(piece for word in text.split() for piece in morphemes(word))
    return tuple(re.split("[ ,-]+", text))


@checked
def morphemes(word: str) -> tuple[str, ...]:
    """A German number word cut from left to right, each time at the longest of MORPHEMES that fits.

    Raises ValueError where none fits.
    """
    pieces, at = [], 0
    while at < len(word):
        found = _LONGEST.match(word, at)
        if not found:
            raise ValueError(f"no morpheme begins {word[at:]!r}")
        pieces.append(found[0])
        at = found.end()
    return tuple(pieces)


@checked
@cache
def vocabulary(language: str) -> tuple[str, ...]:
    """All tokens of a language: padding, the start and the end mark, then its words."""
    if one_of("the language", language, LANGUAGES) == "de":
        return ("<pad>", "<s>", "</s>", *MORPHEMES)
    phrases = " ".join(phrase for part in _parts()[language] for phrase in part)
    found = {*re.split("[ ,-]+", phrases), *(["and"] if language == "en" else [])}
    return ("<pad>", "<s>", "</s>", *sorted(found))


@checked
def encode(n: int, language: str) -> NDArray[np.int64]:
    """The ids of `tokens`, without marks."""
    known = _ids(language)
    return np.array([known[token] for token in tokens(n, language)])


@checked
def decode(ids: Iterable[int], language: str) -> tuple[str, ...]:
    """The tokens of ids up to the end mark; other marks are left out."""
    known, found = vocabulary(language), []
    for i in ids:
        if i == END:
            break
        if i > END:
            found.append(known[i])
    return tuple(found)


class Pairs(NamedTuple):
    """Numbers in two languages, as a model for translation takes them; each array is padded."""

    source: NDArray[np.int64]  # (B, S)
    source_mask: NDArray[np.bool_]  # (B, S), True at a token
    inputs: NDArray[np.int64]  # (B, T): the start mark, then the target's tokens
    targets: NDArray[np.int64]  # (B, T): the target's tokens, then the end mark; `IGNORE` after it


@checked
def pairs(numbers: Sequence[int], source: str = "de", target: str = "en") -> Pairs:
    """The numbers in the language `source`, and in `target` behind a start, before an end."""
    read, mask = pad([encode(n, source) for n in numbers], PAD)
    written = [encode(n, target) for n in numbers]
    inputs = pad([np.array([START, *ids]) for ids in written], PAD).tokens
    targets = pad([np.array([*ids, END]) for ids in written], IGNORE).tokens
    return Pairs(read, mask, inputs, targets)


@checked
def split_of(n: int) -> str:
    """The split of a number, from the first byte of the SHA-256 of its digits and nothing else."""
    whole("n", n)
    first = hashlib.sha256(str(n).encode()).digest()[0]
    return "valid" if first < 13 else "test" if first < 26 else "train"


@checked
def numbers(
    split: str, *, by: str = "number", digits: Collection[int] = range(1, MAX_DIGITS + 1)
) -> tuple[int, ...]:
    """The book's numbers of a split, in order; no number is in two splits.

    There are all numbers of up to three digits, and of each length above 4000 draws.
    by: "number" deals out each number by `split_of`: about 5 % are valid, 5 % test. "length" trains
        on up to eight digits, and holds out 9 and 10 (valid), 11 and 12 (test).
    digits: only numbers of these lengths.
    """
    one_of("the split", split, SPLITS)
    if one_of("by", by, ("number", "length")) == "length":
        return tuple(n for d in LENGTHS[split] if d in digits for n in _drawn(d))
    lengths = (d for d in range(1, MAX_DIGITS + 1) if d in digits)
    return tuple(n for d in lengths for n in _dealt_out(d)[split])


@cache
def _dealt_out(digits: int) -> dict[str, list[int]]:
    """The book's numbers of this length by their split."""
    dealt: dict[str, list[int]] = {split: [] for split in SPLITS}
    for n in _drawn(digits):
        dealt[split_of(n)].append(n)
    return dealt


@cache
def _drawn(digits: int) -> list[int]:
    """The book's numbers of this length, by a rule that no generator's version can change."""
    low = 10 ** (digits - 1)
    if digits < 4:
        return [*range(low, 10 * low)]
    found = set()
    for i in range(PER_LENGTH):
        drawn = hashlib.sha256(f"{digits} digits, number {i}".encode()).digest()
        found.add(low + int.from_bytes(drawn[:16]) % (9 * low))
    return sorted(found)


@cache
def _parts() -> dict[str, tuple[tuple[str, ...], ...]]:
    """For each language the words of 1 … 999 times 1, 1000, 10⁶ and 10⁹."""
    text = read_text(TEXT, SHA256)
    parts: dict[str, tuple[tuple[str, ...], ...]] = dict.fromkeys(LANGUAGES, ())
    for section in text.split("\f")[1:]:
        heading, body = section.split("\n", 1)
        parts[heading.split("\t")[0]] += (tuple(body.splitlines()),)
    return parts


@cache
def _ids(language: str) -> dict[str, int]:
    return {token: i for i, token in enumerate(vocabulary(language))}
