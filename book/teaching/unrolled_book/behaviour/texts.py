"""Checks of what is made of a text: its tokens, its targets, its words' neighbours."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from unrolled.validate import real, whole

from unrolled_book.behaviour.probe import BehaviourError, array, first, guess

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
    return guess(guesses, bool)


def check_shift(inputs: Any, targets: Any, *, pad: int | None = None) -> None:
    """Check that targets are the inputs' next tokens: targets[…, i] = inputs[…, i + 1].

    inputs, targets: integer tokens of one shape (T,) or (B, T), T ≥ 2: the text without its last
                     token and without its first. The last target is in no input: not checked.
    pad: the padding's id; a target whose next input is pad is not checked either.

    Raises BehaviourError with the first position that differs; it says when the targets are the
    inputs themselves (the model would see the answer) or the previous tokens.
    """
    inputs, targets = array(inputs), array(targets)
    if inputs.shape != targets.shape:
        raise BehaviourError(f"inputs have shape {inputs.shape}, targets {targets.shape}")
    if inputs.ndim not in (1, 2) or inputs.shape[-1] < 2:
        raise ValueError(f"tokens need shape (T,) or (B, T) with T ≥ 2, got {inputs.shape}")
    wrong = targets[..., :-1] != inputs[..., 1:]
    if pad is not None:
        wrong &= inputs[..., 1:] != pad
    if not wrong.any():
        return
    if (targets == inputs).all():
        raise BehaviourError("the targets are the inputs: every answer stands in the question")
    if (targets[..., 1:] == inputs[..., :-1]).all():
        raise BehaviourError("the targets are the previous tokens, one position behind the inputs")
    at = first(wrong)
    after = (*at[:-1], at[-1] + 1)
    raise BehaviourError(
        f"the target at {at} is {targets[at]}, but the next input, at {after}, is {inputs[after]}"
    )


def check_neighbours(
    build: Callable[[np.ndarray], Any],
    tokens: Any,
    words: Any,
    *,
    n_shuffles: int = 3,
    seed: int = 0,
    share: float = 0.5,
    names: Sequence[str] | None = None,
) -> None:
    """Check that most words' nearest neighbours are nearer than chance would put them.

    Chance is the same text with its tokens shuffled: every word is as frequent as before, and no
    word keeps company with another. For each word the cosine to its nearest neighbour must be
    larger than in all shuffled texts, for more than `share` of the words. A word whose vector is
    empty, in the text or in a shuffled one, has nothing to compare and does not pass.

    Vectors that ignore the text pass for a word with probability 1 / (n_shuffles + 1); fewer than
    three shuffles would let half of the words pass by luck.

    build: one text of tokens (n,) to the words' vectors (V, D); the check calls it n_shuffles + 1
           times. n_shuffles: at least 3.
    tokens: (n,) integers. words: (m,) ids of the words to check, rows of the vectors.
    names: the words themselves, for the message.

    Raises BehaviourError with the number of words that pass and the one that fails by most;
    ValueError or TypeError for arguments that the check cannot use.
    """
    text, asked = array(tokens), array(words)
    for name, ids, least in (("tokens", text, 2), ("words", asked, 1)):
        if ids.dtype.kind not in "iu":
            raise TypeError(f"{name} needs integers, got {ids.dtype}")
        if ids.ndim != 1 or len(ids) < least:
            raise ValueError(f"{name} needs at least {least} ids in one axis, got {ids.shape}")
    n_shuffles, share = whole("n_shuffles", n_shuffles, 3), real("share", share, 0, below=1)
    rng = np.random.default_rng(seed)
    found, who, filled = _nearest(build(text), asked)
    shuffled = [_nearest(build(rng.permutation(text)), asked) for _ in range(n_shuffles)]
    chance = np.max([cosines for cosines, _, _ in shuffled], axis=0)
    comparable = filled & np.all([full for _, _, full in shuffled], axis=0)
    nearer = (found > chance) & comparable
    if nearer.mean() > share:
        return
    summary = f"only {nearer.sum()} of {len(asked)} words got a nearer neighbour than when shuffled"
    if not comparable.all():
        summary += f"; {(~comparable).sum()} have an empty vector in one of the two"
    if comparable.any():
        worst = int(np.where(comparable, found - chance, np.inf).argmin())
        word, other = (
            f"word {i}" if names is None else f"“{names[i]}”" for i in (asked[worst], who[worst])
        )
        summary += (
            f". In the text, {word} is nearest to {other}, with a cosine of {found[worst]:.2f}; "
            f"in a text shuffled at random its nearest word has {chance[worst]:.2f}"
        )
    raise BehaviourError(f"{summary}. Cosines of this size come without the words' order, too")


def _nearest(vectors: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For some rows: the cosine to the nearest other row, which row that is, and who is not empty.

    Empty is a row shorter than 1e-9 of the longest: it holds zeros, or what rounding left of them.
    """
    values = array(vectors).astype(np.float64)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"build must give vectors (V, D) with V ≥ 2, got {values.shape}")
    if words.min() < 0 or words.max() >= len(values):
        raise ValueError(
            f"words must lie in 0 … {len(values) - 1}, got {words.min()}, {words.max()}"
        )
    if not np.isfinite(values).all():
        raise BehaviourError("the vectors hold NaN or infinity")
    length = np.linalg.norm(values, axis=1, keepdims=True)
    filled = length > 1e-9 * length.max()
    values = np.where(filled, values, 0) / np.where(filled, length, 1)
    cosines = values[words] @ values.T
    cosines[np.arange(len(words)), words] = -np.inf
    return cosines.max(axis=1), cosines.argmax(axis=1), filled[words, 0]
