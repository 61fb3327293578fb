"""Write the trained model that a chapter's page runs: `book/assets/ladder_transformer.bin`.

`python book/tools/page_model.py` packs the weights that came with the record of the same name.
"""

from __future__ import annotations

from pathlib import Path

from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.teaching import ladder, page_model, trained

NAME = "ladder_transformer"
TARGET = Path(__file__).resolve().parents[1] / "assets" / f"{NAME}.bin"


def page() -> bytes:
    """The file as the trained weights would have it."""
    tokenizer = CharTokenizer.train(corpora.load(ladder.CORPUS).train)
    return page_model.pack(trained.load(NAME), tokenizer.vocab)


if __name__ == "__main__":
    TARGET.write_bytes(page())
