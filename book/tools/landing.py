"""Write `book/landing.html`, the moving figure of the landing page, from a model of this book.

A word n-gram model (chapter 2) is trained on the training plays, and the figure steps through a line
of a play it never saw. `python book/tools/landing.py` writes the file; with `--check` it says whether
the file is what the library would write today. Every number in the figure comes from here.
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import numpy as np
import unrolled.teaching.explore as explore
from unrolled.data import corpora, tokens
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled.teaching import figures

LINE = "I do love nothing in the world so well as you"  # Much Ado About Nothing, in the test split
ORDERS = {1: "no word", 2: "1 word", 3: "2 words", 5: "4 words"}
START = (6, 3)  # the seventh word, four words back: the still of print and of a page without script
TOP = 7
HERE = Path(__file__).resolve().parents[1]
TARGET = HERE / "landing.html"
CAPTION = (
    "Counts from Shakespeare’s other plays, smoothed: the interpolated Kneser–Ney model that chapter 2"
    " builds. The line is Benedick’s, from <cite>Much Ado About Nothing</cite>, which the model has not"
    " read. The further it may look back, the surer it is where the training plays hold something alike."
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
        bos=tokenizer.start,
        eos=tokenizer.end,
    )
    padded = np.concatenate([np.full(max(ORDERS) - 2, -1), [tokenizer.start], line])
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


def page() -> str:
    data = states()
    words, (at, k) = data["words"], START
    chips = "".join(f"<li><b>{html.escape(w)}</b><i></i></li>" for w in words)
    rows = "<li><b></b><span><i></i><em></em></span></li>" * (TOP + 1)
    reaches = "".join(
        f'<label><input type="radio" name="u-reach" value="{i}"'
        f"{' checked' if i == k else ''}>{text}</label>"
        for i, text in enumerate(ORDERS.values())
    )
    folder = Path(explore.__file__).parent
    script = (HERE / "tools" / "landing.js").read_text("utf8")
    return f"""<figure class="u-explore u-next">
<style>
{figures.css()}{(folder / "explore.css").read_text("utf8")}</style>
<script type="application/json">{json.dumps(data, ensure_ascii=False, separators=(",", ":"))}</script>
<div class="u-frame"><div class="u-stage" role="img" aria-label="">
<ol class="u-line">{chips}</ol>
<ol class="u-bars">{rows}</ol>
<p class="u-sum"></p>
</div></div>
<form onsubmit="return false" autocomplete="off">
<div class="u-axis" data-axis="0"><div class="u-name"><label for="u-word">next word</label>\
<output for="u-word" aria-live="off"></output></div><div class="u-track">\
<button type="button" value="-1" aria-label="previous word">‹</button>\
<input type="range" id="u-word" min="0" max="{len(words) - 1}" value="{at}">\
<button type="button" value="1" aria-label="next word">›</button></div></div>
<fieldset class="u-axis" data-axis="1"><legend>the model looks back</legend>\
<div class="u-choices">{reaches}</div></fieldset>
</form>
<p class="u-status" role="status"></p>
<script>
{script}</script>
<figcaption>{CAPTION}</figcaption>
</figure>
"""


def main() -> int:
    written = page()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(written, "utf8")
        return 0
    if TARGET.exists() and TARGET.read_text("utf8") == written:
        return 0
    print("book/landing.html is stale; renew it with: python book/tools/landing.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
