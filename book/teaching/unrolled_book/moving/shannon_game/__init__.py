"""Shannon's game: the reader bets on the next character of a text, beside models that did so.

`play` shows a text up to some character. The reader types the next one and says how sure they are.
That makes a language model of them, p(c) = s · [c is the guess] + (1 − s) · u(c), with s the
sureness and u how common each character is; it sums to one, and costs −log₂ p(c) bits. The script
`shannon_game.js`, written into the page, keeps the accounts, so no kernel is needed; without script
the text and the models' accounts of all of it remain.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unrolled_book import figures
from unrolled_book.moving.embed import embed

DIGITS = 4  # of a number of bits; so many are equal on every processor
SHOWN = str.maketrans(" ", "␣")


def play(
    text: str,
    start: int,
    *,
    models: Mapping[str, np.ndarray],
    common: Mapping[str, float],
    caption: str = "",
) -> None:
    """Display the game: `text[:start]` is shown, the rest is to be guessed.

    Args:
        text: the text; the reader types its characters, which are read as lower-case ones.
        start: how many of them are given, 0 < start < len(text).
        models: by name, the bits that a model pays for each character to be guessed,
            (len(text) − start,).
        common: u above, by character; positive to six decimals, as the page keeps them, for every
            character of the text, and of sum one.
        caption: the finding; `$…$` is mathematics.

    Raises ValueError for other lengths, for characters that nobody can type (capitals, those above
    U+FFFF), or for a u that is no distribution over the text's characters.
    """
    from IPython.display import display

    if not 0 < start < len(text):
        raise ValueError(f"start must lie in 1 … {len(text) - 1}, got {start}")
    n = len(text) - start
    if text[start:] != text[start:].lower() or max(text) > "\uffff":
        raise ValueError(
            "the reader types one lower-case character at a time; the text has others to guess: "
            f"{text[start:]!r}"
        )
    bits = {}
    for name, paid in models.items():
        paid = np.asarray(paid, dtype=float)
        if paid.shape != (n,) or not np.isfinite(paid).all() or (paid < 0).any():
            raise ValueError(f"{name!r} must pay finite bits for {n} characters, got {paid.shape}")
        bits[name] = paid.round(DIGITS)
    if missing := sorted(set(text) - set(common)):
        raise ValueError(f"common lacks the characters {missing}")
    kept = {c: round(float(p), DIGITS + 2) for c, p in common.items()}
    total = float(sum(common.values()))
    if not min(kept.values()) > 0 or not abs(total - 1) <= 1e-6:
        rarest = min(common, key=lambda c: common[c])
        raise ValueError(
            f"common must be positive to {DIGITS + 2} decimals and sum to 1, got {total:.6g} with "
            f"{common[rarest]:.3g} for {rarest!r}"
        )
    data = {
        "text": text, "start": start,
        "models": {name: paid.tolist() for name, paid in bits.items()},
        "common": kept,
    }  # fmt: skip
    here = Path(__file__)
    markup = embed(
        "u-figure u-game", _still(text, start, bits), data=data,
        style=here.with_name("shannon_game.css"), script=here.with_name("shannon_game.js"),
        caption=figures.figcaption(caption),
    )  # fmt: skip
    accounts = "; ".join(
        f"{name} {paid.sum():.1f} bits, {paid.mean():.2f} each" for name, paid in bits.items()
    )
    plain = f"[A text to guess: {text[:start]}… The rest costs: {accounts}.]\n{caption}".strip()
    display({"text/html": markup, "text/plain": plain}, raw=True)


def _still(text: str, start: int, bits: Mapping[str, np.ndarray]) -> str:
    """The whole text, the part to guess marked, and each model's mean bits for that part."""
    given, rest = (html.escape(part.translate(SHOWN)) for part in (text[:start], text[start:]))
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td></td><td></td>'
        f"<td>{paid.mean():.2f}</td></tr>"
        for name, paid in bits.items()
    )
    heads = ("who", "bits so far", "mean so far", "mean, whole text")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        f'<p class="u-game-text">{given}<b>{rest}</b></p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
