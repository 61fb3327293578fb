"""The tokens of what the reader types, after as many merges as a slider says.

`show` puts a text field and the learnt merges into the page; `typed_tokens.js` cuts the text as
`BPETokenizer.encode` does, with no kernel. Without script, and in print, the first state remains.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from unrolled.data.bpe import BYTES, PATTERNS, BPETokenizer
from unrolled.validate import whole

from unrolled_book import figures
from unrolled_book.moving.embed import embed

LONGEST = 300  # characters that the field takes
VISIBLE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})


def show(
    tokenizer: BPETokenizer,
    text: str,
    *,
    merges: Sequence[int] = (0, 250, 1_000, 4_000),
    start: int = 1_000,
    caption: str = "",
) -> None:
    """Display the field with `text` in it, cut after `start` merges.

    merges: the stops of the slider, rising; start is one of them. caption: the finding; `$…$` is
    mathematics. Raises ValueError for a tokeniser that the page cannot follow (other ids than in
    the order of the merges, special tokens, another pattern), for stops that do not rise or lie
    beyond its merges, and for a text that the field would not hold.
    """
    from IPython.display import display

    merges = [whole("a number of merges", k, 0, len(tokenizer.merges)) for k in merges]
    if merges != sorted(set(merges)) or start not in merges:
        raise ValueError(f"merges must rise and hold {start}, the start, got {merges}")
    if tokenizer.vocab[:256] != BYTES or tokenizer.special_ids or tokenizer.pattern != "gpt2":
        raise ValueError("the page knows bytes and merges in their order, and GPT-2's pattern only")
    if tokenizer.vocab[256:] != tuple(a + b for a, b in tokenizer.merges):
        raise ValueError("the ids of the tokens must be in the order of the merges")
    if not 0 < len(text) <= LONGEST or "\r" in text:
        raise ValueError(f"text must have 1 … {LONGEST} characters, no carriage return")
    ids = {token: i for i, token in enumerate(tokenizer.vocab)}
    pairs = [(ids[a], ids[b]) for a, b in tokenizer.merges[: merges[-1]]]
    data = {
        "text": text, "longest": LONGEST, "stops": merges, "start": merges.index(start),
        "merges": [i for pair in pairs for i in pair],
    }  # fmt: skip
    here = Path(__file__)
    body, says = _still(BPETokenizer(tokenizer.merges[:start]), text)
    markup = embed(
        "u-figure u-typed", body, data=data, style=here.with_name("typed_tokens.css"),
        script=here.with_name("typed_tokens.js"), caption=figures.figcaption(caption),
    )  # fmt: skip
    plain = f"[A text to type; {start:,} merges cut {text!r} so: {says}]\n{caption}".strip()
    display({"text/html": markup, "text/plain": plain}, raw=True)


def written(token: bytes) -> tuple[str, bool]:
    """A token as the figure writes it, and whether it is text: bytes of a cut character are hex."""
    try:
        return token.decode().translate(VISIBLE), True
    except UnicodeDecodeError:
        return token.hex(" ").upper(), False


def _still(tokenizer: BPETokenizer, text: str) -> tuple[str, str]:
    """What is seen before the script runs, and the tokens in one line."""
    pieces, line = [], []
    for piece in PATTERNS["gpt2"].findall(text):
        boxes = ""
        for i in tokenizer.encode(piece).tolist():
            shown, is_text = written(tokenizer.vocab[i])
            line.append(shown)
            kind = "" if is_text else ' class="u-typed-bytes"'
            box = f"<span{kind}>{html.escape(shown)}</span><small>{i}</small>"
            boxes += f'<span class="u-typed-token">{box}</span>'
        pieces.append(f"<li>{boxes}</li>")
    n, n_bytes = len(line), len(text.encode())
    k = len(tokenizer.merges)
    says = f"{k:,} merge{'s' * (k != 1)}: {n} tokens for {n_bytes} bytes"
    return f'<p class="u-typed-says">{says}</p><ol>{"".join(pieces)}</ol>', " | ".join(line)
