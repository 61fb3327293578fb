"""Chapter 12: pages that an LSTM writes, beside pages of the test plays.

The network is the ladder's LSTM, trained as there on the same 32 plays. Fifteen
minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import nn
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.generate import generate

from unrolled_book.experiments import record
from unrolled_book.experiments._climb import train
from unrolled_book.experiments._climb_recurrent import RecurrentRecipe
from unrolled_book.experiments.c21_writing import known, words
from unrolled_book.experiments.ladder import CORPUS, Course
from unrolled_book.experiments.ladder_lstm import RECIPE

NEEDS = ("ladder_lstm",)
SEED = 0
N_PAGES, PAGE = 32, 600  # characters of a page
COPY = 24  # so many characters in a row, word for word from the plays read, count as copied


def pages(model: nn.Module, start: int, seed: int, n: int) -> list[list[int]]:
    """n pages of PAGE tokens, drawn at temperature 1 after `start`."""
    rng = torch.Generator().manual_seed(seed)
    return generate(model, torch.full((n, 1), start), PAGE, rng=rng)[:, 1:].tolist()


def copied(texts: Sequence[str], read: str, n: int = COPY) -> float:
    """The share of n characters in a row that stand in the text that was read."""
    seen = {hash(read[i : i + n]) for i in range(len(read) - n + 1)}
    found = [hash(text[i : i + n]) in seen for text in texts for i in range(len(text) - n + 1)]
    return float(np.mean(found))


def described(texts: Sequence[str], corpus: corpora.Corpus) -> dict:
    """What can be counted of texts.

    "known": the share of words that the plays read hold; "copied": see there; "lines": the
    quartiles of the length of whole lines; "capital": the share of them that begin with one.
    """
    lines = [line for text in texts for line in text.split("\n")[1:-1] if line]
    return {
        "known": known(texts, set(words(corpus.train))),
        "copied": copied(texts, corpus.train),
        "lines": np.percentile([len(line) for line in lines], [25, 50, 75]).tolist(),
        "capital": float(np.mean([line.lstrip("'-([")[:1].isupper() for line in lines])),
    }


def run(recipe: RecurrentRecipe = RECIPE, *, seed: int = SEED, n_pages: int = N_PAGES) -> dict:
    """metrics: "test_bits_per_byte"; "pages", the texts; "written" and "shakespeare", the same
    measures of them and of as many pages of the test plays, see `described`."""
    recipe = replace(recipe, lr=record.load(NEEDS[0])["config"]["recipe"]["lr"])
    course, corpus = Course.load(CORPUS), corpora.load(CORPUS)
    model, _ = train(course, recipe, seed)
    row = course.row(recipe.name, model, parameters=0, seconds=0, seeds=[seed], **recipe.windows)
    decode = CharTokenizer.train(corpus.train).decode
    texts = [decode(ids) for ids in pages(model, course.newline, seed, n_pages)]
    starts = np.random.default_rng(seed).integers(len(corpus.test) - PAGE, size=n_pages)
    human = [corpus.test[i : i + PAGE] for i in starts]
    metrics = {
        "test_bits_per_byte": row["test_bits_per_byte"],
        "pages": texts,
        "written": described(texts, corpus),
        "shakespeare": described(human, corpus),
    }
    config = {
        "corpus": CORPUS, "recipe": asdict(recipe), "page": PAGE, "n_pages": n_pages, "copy": COPY,
        "temperature": 1,
    }  # fmt: skip
    return {"config": config, "seeds": [seed], "metrics": metrics}
