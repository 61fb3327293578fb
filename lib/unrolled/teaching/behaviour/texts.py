"""The check of a tokeniser: every text comes back, whole or piece by piece."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from unrolled.teaching.behaviour.arrays import BehaviourError

TEXTS = (  # from easy to hard; each is lost by some tokeniser
    "", "to be", "To be, OR not", " a  b\t", "one\n\ntwo\r\n", "don't o'er", "12 1998 3.14",
    "café naïve", "cafe\u0301", "нет हिन्दी 漢字", "😀 👩‍👩‍👧", "\0\u2028\ufeff\U0010ffff",
)  # fmt: skip


def check_round_trip(
    encode: Callable[[str], Any],
    decode: Callable[[Any], Any],
    texts: Sequence[str] = TEXTS,
) -> None:
    """Check that decode(encode(text)) is the text, to the character.

    encode: a text to its ids. decode: these ids to the text, or to pieces of it (a list, a
    generator), which are joined: so a decoder that writes while a model is still generating is
    checked as well. texts: by default case, white space, digits, accents, other alphabets, emoji.

    Raises BehaviourError with the first text that does not come back, the first character that
    differs, and a guess (cut characters, case, white space, unknown words, normal forms); also
    where encode or decode raises an error.
    """
    for text in texts:
        try:
            decoded = decode(encode(text))
            got = decoded if isinstance(decoded, str) else "".join(decoded)
        except (ValueError, LookupError) as error:
            raise BehaviourError(f"{text!r} cannot be encoded and decoded: {error}") from error
        if got != text:
            at = next(i for i, (a, b) in enumerate(zip_longest(text, got)) if a != b)
            raise BehaviourError(
                f"{text!r} comes back as {got!r}: it differs from character {at} on"
                f"{_why(text, got)}"
            )


def _why(text: str, got: str) -> str:
    """A guess at what was lost."""
    replaced = "\ufffd" in got
    solid, solid_text = ("".join(each.split()) for each in (got, text))
    unknown = any(name in got for name in ("<unk>", "[UNK]"))
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
