"""Chapter 21: the likeliest next line of all, and what beam search finds instead.

The book's model reads CONTEXT characters of the test plays up to a line end; sought is the next
line. About two minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.search import beam_search, exact_mode
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import cross_entropy

from unrolled_book.experiments import trained
from unrolled_book.experiments.ladder import CORPUS

NEEDS = ("ladder_transformer",)
CONTEXT, N_NEW, N_LINES = 64, 64, 60  # characters; the model was trained on 128
BEAMS = (1, 2, 4, 16)  # one beam is greedy
MAX_READS = 3_000
SEED = 0


def line_ends(tokens: np.ndarray, newline: int, n: int = N_LINES) -> np.ndarray:
    """n line ends (ascending), each with CONTEXT characters up to it and a short enough line."""
    ends = np.flatnonzero(tokens == newline)
    short = np.append(np.diff(ends) <= N_NEW, False) & (ends >= CONTEXT - 1)
    return np.sort(np.random.default_rng(SEED).choice(ends[short], n, replace=False))


@torch.no_grad()
def log_prob(model: TransformerLM, text: Tensor) -> float:
    """ln P of the characters of text (1, T) after the first CONTEXT."""
    return -cross_entropy(model(text[:, :-1]), text[:, 1:])[0, CONTEXT - 1 :].sum().item()


def searched(model: TransformerLM, prompt: Tensor, newline: int, beams: Sequence[int],
             max_reads: int) -> dict[str, dict]:  # fmt: skip
    """What each search finds: {"tokens", "log_prob"}; "mode" has "reads", or None if it gave up."""
    found = {}
    for k in beams:
        best = beam_search(model, prompt, N_NEW, n_beams=k, stop=newline, early_stopping="never")
        n = int(best.lengths[0, 0])
        new = best.tokens[0, 0, CONTEXT : CONTEXT + n]
        found[str(k)] = {"tokens": new, "log_prob": best.scores[0, 0].item()}
    try:
        mode = exact_mode(model, prompt, N_NEW, stop=newline, max_reads=max_reads)
        found["mode"] = {"tokens": mode.tokens[0, CONTEXT:], "log_prob": mode.log_prob,
                         "reads": mode.n_reads}  # fmt: skip
    except RuntimeError:
        found["mode"] = None
    return found


def run(model: TransformerLM | None = None, *, n_lines: int = N_LINES, beams: Sequence[int] = BEAMS,
        max_reads: int = MAX_READS) -> dict:  # fmt: skip
    """A record's fields: a row of `metrics["rows"]` for each context.

    "context"; "human", each of the beams and "mode": {"text", "log_prob"} of the line, "mode" with
    "reads", or None. `metrics["blank"]`: the share of blank lines among all lines of the test text.
    """
    model = trained.load(NEEDS[0]) if model is None else model
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    tokens, (newline,) = tokenizer.encode(corpus.test), tokenizer.encode("\n")
    rows = []
    for end in line_ends(tokens, newline, n_lines):
        start, after = end + 1 - CONTEXT, end + 1
        stop = after + np.flatnonzero(tokens[after:] == newline)[0] + 1
        text = torch.from_numpy(tokens[start:stop])[None].long()
        found = {"human": {"tokens": text[0, CONTEXT:], "log_prob": log_prob(model, text)}}
        found |= searched(model, text[:, :CONTEXT], int(newline), beams, max_reads)
        for each in filter(None, found.values()):
            each["text"] = tokenizer.decode(each.pop("tokens").numpy())
        rows.append({"context": tokenizer.decode(text[0, :CONTEXT].numpy())} | found)
    lines = corpus.test.split("\n")
    config = {"model": NEEDS[0], "corpus": CORPUS, "context": CONTEXT, "n_new": N_NEW,
              "beams": [*beams], "max_reads": max_reads}  # fmt: skip
    metrics = {"rows": rows, "blank": sum(not line for line in lines) / len(lines)}
    return {"config": config, "seeds": [SEED], "metrics": metrics, "curve": []}
