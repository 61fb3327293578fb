"""The trained model that a chapter's page runs, `book/assets/ladder_transformer.bin`.

It is packed from the weights that came with the record of the same name.
"""

from __future__ import annotations

from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled_book.experiments import ladder, trained
from unrolled_book.moving import page_model

from book.tools.notebooks import ROOT

NAME = "ladder_transformer"
TARGET = ROOT / "book" / "assets" / f"{NAME}.bin"


def page() -> bytes:
    """The file as the trained weights would have it."""
    tokenizer = CharTokenizer.train(corpora.load(ladder.CORPUS).train)
    return page_model.pack(trained.load(NAME), tokenizer.vocab)
