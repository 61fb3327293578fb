"""The check of a tokeniser: every text comes back, whole or piece by piece."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from unrolled_book.behaviour.arrays import BehaviourError

TEXTS = (  # from easy to hard; each is lost by some tokeniser
    "", "to be", "To be, OR not", " a  b\t", "one\n\ntwo\r\n", "don't o'er", "12 1998 3.14",
    "café naïve", "cafe\u0301", "нет हिन्दी 漢字", "😀 👩‍👩‍👧", "\0\u2028\ufeff\U0010ffff",
    "“don’t” 5\u00a0m – ▁Ġ</w>", "a <s> <unk> [UNK] ## b , c .", "Straße ٣ \u00ad\u200b \ufffd",
    " ".join(map(str, range(1_000))),
)  # fmt: skip


def check_round_trip(
    encode: Callable[[str], Any],
    decode: Callable[[Any], Any],
    texts: Sequence[str] = TEXTS,
) -> None:
    """Check that decode(encode(text)) is the text, to the character.

    encode: a text to its ids. decode: these ids to the text, or to pieces of it (a list, a
    generator), which are joined: so a decoder that writes while a model is still generating is
    checked as well. texts: by default case, white space, digits, accents, other alphabets, emoji,
    the marks of tokenisers themselves, and one text of some thousand characters.

    Raises BehaviourError with the first text that does not come back, the first character that
    differs, and a guess (cut characters, case, white space, unknown words, normal forms); also
    where encode or decode raises an error, and where decode gives no text. TypeError for one text
    in place of several, ValueError for none.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, got one: {_short(texts)}")
    if not texts:
        raise ValueError("texts must hold at least one text")
    for text in texts:
        try:
            decoded = decode(encode(text))
            got = decoded if isinstance(decoded, str) else "".join(decoded)
        except Exception as error:
            raise BehaviourError(
                f"{_short(text)} cannot be encoded and decoded: {error}"
            ) from error
        if got != text:
            at = next(i for i, (a, b) in enumerate(zip_longest(text, got)) if a != b)
            raise BehaviourError(
                f"{_short(text, at)} comes back as {_short(got, at)}: it differs from character "
                f"{at} on{_why(text, got)}"
            )


def _short(text: str, at: int = 0) -> str:
    """The text in quotes; of a long one, the part around the character `at`."""
    if len(text) <= 60:
        return repr(text)
    start = max(0, at - 20)
    before, after = "…" * (start > 0), "…" * (start + 40 < len(text))
    return f"{before}{text[start : start + 40]!r}{after}"


def _why(text: str, got: str) -> str:
    """A guess at what was lost."""
    replaced = "\ufffd" in got and "\ufffd" not in text
    solid, solid_text = ("".join(each.split()) for each in (got, text))
    unknown = any(name in got and name not in text for name in ("<unk>", "[UNK]"))
    guesses = {
        "the bytes of one character are decoded apart; wait until it is whole": replaced,
        "it is not in the vocabulary, and no smaller pieces stand in for it": unknown,
        "upper case is lost": got == text.lower(),
        "white space is lost or added": solid == solid_text,
        "upper case and white space are lost": solid == solid_text.lower(),
        "Unicode's normal forms are taken for equal": any(
            unicodedata.normalize(form, text) == got for form in ("NFC", "NFD", "NFKC", "NFKD")
        ),
        "what is no ASCII is dropped": got == text.encode("ascii", "ignore").decode(),
    }  # fmt: skip
    return next((f". It looks as if {guess}" for guess, fits in guesses.items() if fits), "")
