"""A tokeniser of any kind in one file, and back."""

from __future__ import annotations

import json
from pathlib import Path

from unrolled.data.bpe import BPETokenizer
from unrolled.data.bpe_files import load_json, save_json
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled.validate import checked

FORMAT = "unrolled tokenizer 1"
KINDS = {kind.__name__: kind for kind in (CharTokenizer, WordTokenizer, WordPieceTokenizer)}
Tokenizer = CharTokenizer | WordTokenizer | WordPieceTokenizer | BPETokenizer


@checked
def save_tokenizer(tokenizer: Tokenizer, path: str | Path) -> None:
    """Write a tokeniser to a JSON file; `load_tokenizer` gives one that encodes alike.

    The file of a `BPETokenizer` is the `tokenizer.json` of the library `tokenizers`.
    """
    if isinstance(tokenizer, BPETokenizer):
        save_json(tokenizer, path)
        return
    options = {"lowercase": tokenizer.lowercase} if hasattr(tokenizer, "lowercase") else {}
    content = {"format": FORMAT, "kind": type(tokenizer).__name__, "options": options}
    Path(path).write_text(json.dumps(content | {"vocab": tokenizer.vocab}, indent=1), "utf8")


@checked
def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokeniser that `save_tokenizer` wrote, or the byte-level BPE of a `tokenizer.json`.

    Raises ValueError naming the file for any other content.
    """
    try:
        content = json.loads(Path(path).read_text("utf8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged or no JSON file: {error}") from error
    if isinstance(content, dict) and content.get("format") == FORMAT:
        return KINDS[content["kind"]](content["vocab"], **content["options"])
    if not isinstance(content, dict) or "model" not in content:
        raise ValueError(f"{path} is no tokeniser: it says neither {FORMAT!r} nor has a model")
    return load_json(path)
