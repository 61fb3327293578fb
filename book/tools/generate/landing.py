"""Write `book/landing.html`, the moving figure of the landing page, from a model of this book.

A word n-gram model (chapters 2 and 2b) is trained on the training plays, and the figure steps
through a line of a play it never saw. Every number in the figure comes from here.
"""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np
from unrolled.data import corpora, tokens
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled_book import moving
from unrolled_book.moving.embed import embed

from book.tools.notebooks import ROOT

LINE = "I do love nothing in the world so well as you"  # Much Ado About Nothing, in the test split
ORDERS = {1: "no word", 2: "1 word", 3: "2 words", 5: "4 words"}
START = (6, 3)  # the seventh word, four words back: the still of print and of a page without script
TOP = 7
TARGET = ROOT / "book" / "landing.html"
CAPTION = (
    "Counts from Shakespeare’s plays, smoothed: the interpolated Kneser–Ney model that chapter"
    " 2b builds. The line is Benedick’s, from <cite>Much Ado About Nothing</cite>, which the"
    " model has not read. The further it may look back, the surer it is where the training plays"
    " hold something alike."
)


def shown(word: str) -> str:
    """A token as a reader would write it."""
    return {"i": "I", tokens.UNKNOWN: "a rare word", tokens.END: "(line end)"}.get(word, word)


def states() -> dict[str, list]:
    """For each order and word of the line: the likeliest words, and what the word itself gets."""
    corpus = corpora.load("shakespeare")
    if LINE not in corpus.test:
        raise ValueError(f"the line {LINE!r} is not in the test split")
    tokenizer = tokens.WordTokenizer.train(corpus.train)
    line = tokenizer.encode(LINE)
    counts = NGramCounts(
        tokenizer.encode_lines(corpus.train),
        max(ORDERS),
        tokenizer.vocab_size,
        bos=tokenizer.bos_id,
        eos=tokenizer.eos_id,
    )
    padded = np.concatenate([np.full(max(ORDERS) - 2, -1), [tokenizer.bos_id], line])
    contexts = np.lib.stride_tricks.sliding_window_view(padded[:-1], max(ORDERS) - 1)
    guesses, own = [], []
    for order in ORDERS:
        model = NGram(counts, "kneser-ney", order=order, modified=True)
        probs = np.exp(model.log_probs(contexts))  # (I, V)
        best = np.argsort(-probs, axis=1, kind="stable")[:, :TOP]
        guesses.append(
            [
                [[shown(tokenizer.vocab[w]), round(float(p[w]), 5)] for w in row]
                for p, row in zip(probs, best, strict=True)
            ]
        )
        own.append([float(f"{p[w]:.4g}") for p, w in zip(probs, line, strict=True)])
    return {"words": LINE.split(), "reach": [n - 1 for n in ORDERS], "guesses": guesses, "own": own}


def still(data: dict[str, list]) -> str:
    """The start state as `landing.js` would draw it, for print and for pages without script."""
    (at, k), words = START, data["words"]
    bits = -np.log2(data["own"][k])
    kinds = ["u-past"] * (at - data["reach"][k]) + ["u-seen"] * data["reach"][k] + ["u-now"]
    kinds += ["u-later"] * (len(words) - len(kinds))
    notes = [f"{b:.1f}" for b in bits[:at]] + ["?"] + [""] * (len(words) - at - 1)
    chips = "".join(
        f'<li class="{kind}"><b>{word}</b><i>{note}</i></li>'
        for kind, word, note in zip(kinds, words, notes, strict=True)
    )
    rows = "".join(
        f'<li class="{"u-right" if word == words[at] else ""}"><b>{html.escape(word)}</b>'
        f'<span><i style="--p:{p}"></i><em>{100 * p:.2g} %</em></span></li>'
        for word, p in data["guesses"][k][at]
    )
    rows += "<li hidden><b></b><span><i></i><em></em></span></li>"
    total = bits[: at + 1].sum()
    best, p = data["guesses"][k][at][0]
    alt = (
        f"After “{' '.join(words[:at])}” the likeliest next word is “{best}” with {100 * p:.2g} %;"
        f" the line goes on with “{words[at]}”. So far {total:.1f} bits."
    )
    return f"""<div class="u-frame"><div class="u-stage" role="img" aria-label="{html.escape(alt)}">
<ol class="u-line">{chips}</ol>
<ol class="u-bars">{rows}</ol>
<p class="u-sum">Up to “{words[at]}” the line costs {total:.1f} bits: \
the sum of −log₂ of each word’s probability.</p>
</div></div>"""


def page() -> str:
    """The figure's markup, style, data and script."""
    data = states()
    words, (at, k) = data["words"], START
    reaches = "".join(
        f'<label><input type="radio" name="u-reach" value="{i}"'
        f"{' checked' if i == k else ''}>{text}</label>"
        for i, text in enumerate(ORDERS.values())
    )
    body = f"""{still(data)}
<form onsubmit="return false" autocomplete="off">
<div class="u-axis" data-axis="0"><div class="u-name"><label for="u-word">next word</label>\
<output for="u-word" aria-live="off">{at + 1} of {len(words)}</output></div><div class="u-track">\
<button type="button" value="-1" aria-label="previous word">‹</button>\
<input type="range" id="u-word" min="0" max="{len(words) - 1}" value="{at}">\
<button type="button" value="1" aria-label="next word">›</button></div></div>
<fieldset class="u-axis" data-axis="1"><legend>the model looks back</legend>\
<div class="u-choices">{reaches}</div></fieldset>
</form>
<p class="u-status" role="status"></p>"""
    figure = embed(
        "u-explore u-next", body, data=data,
        style=Path(moving.__file__).with_name("explore.css"),
        script=Path(__file__).with_name("landing.js"),
        caption=f"<figcaption>{CAPTION}</figcaption>\n",
    )  # fmt: skip
    return figure + "\n"
