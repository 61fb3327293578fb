"""Tokenisers in files: of any kind in one file of ours, byte-level BPE in the two public forms too.

GPT-2's form is a folder with `vocab.json` (token → id) and `merges.txt` (one merge a line). The
form of the library tokenizers is one `tokenizer.json`, with the pattern and the special tokens.

Both write a byte as a character: 188 bytes as the character of the same number, the other 68, such
as the space and the line end, as the characters from U+0100 on. So a space is Ġ, a line end Ċ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from unrolled.data.bpe import BYTES, BPETokenizer, Pair
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled.validate import checked

FORMAT = "unrolled tokenizer 1"
KINDS = {kind.__name__: kind for kind in (CharTokenizer, WordTokenizer, WordPieceTokenizer)}
Tokenizer = CharTokenizer | WordTokenizer | WordPieceTokenizer | BPETokenizer
_KEPT = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
_SHIFTED = [byte for byte in range(256) if byte not in _KEPT]
_CHARS = {byte: chr(byte) for byte in _KEPT} | {b: chr(256 + n) for n, b in enumerate(_SHIFTED)}
_BYTE_OF = {char: byte for byte, char in _CHARS.items()}


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
    try:
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return KINDS[content["kind"]](content["vocab"], **content["options"])
        if isinstance(content, dict) and "model" in content:
            return load_json(path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no tokeniser: something is missing, {error!r}") from error
    raise ValueError(f"{path} is no tokeniser: it says neither {FORMAT!r} nor has a model")


@checked
def spell(token: bytes) -> str:
    """The token as these files write it: b" the" is "Ġthe"."""
    return "".join(_CHARS[byte] for byte in token)


@checked
def unspell(spelling: str) -> bytes:
    """The token that is written so; ValueError for a character that stands for no byte."""
    if strange := [char for char in spelling if char not in _BYTE_OF]:
        raise ValueError(f"{strange[0]!r} in the token {spelling!r} stands for no byte")
    return bytes(_BYTE_OF[char] for char in spelling)


@checked
def save_gpt2(tokenizer: BPETokenizer, folder: str | Path) -> None:
    """Write `vocab.json` and `merges.txt` into `folder`, which is made where there is none.

    This form holds no pattern. ValueError if a special token is spelt as an ordinary one.
    """
    folder = Path(folder)
    vocab = _vocab(tokenizer)
    lines = ["#version: 0.2", *(f"{spell(a)} {spell(b)}" for a, b in tokenizer.merges)]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "vocab.json", json.dumps(vocab, ensure_ascii=False))
    _write(folder / "merges.txt", "\n".join(lines) + "\n")


@checked
def load_gpt2(folder: str | Path, pattern: str = "gpt2") -> BPETokenizer:
    """The tokeniser of the two files; what is neither a byte nor merged is a special token."""
    folder = Path(folder)
    vocab = json.loads((folder / "vocab.json").read_text("utf8"))
    lines = (folder / "merges.txt").read_text("utf8").split("\n")
    lines = [
        line
        for n, line in enumerate(lines)
        if line and not (n == 0 and line.startswith("#version"))
    ]
    merges = [_pair(line) for line in lines]
    ordinary = {spell(token) for token in (*BYTES, *(a + b for a, b in merges))}
    return _tokenizer(vocab, merges, vocab.keys() - ordinary, pattern)


@checked
def save_json(tokenizer: BPETokenizer, path: str | Path) -> None:
    """Write a `tokenizer.json`; ValueError if a special token is spelt as an ordinary one."""
    options = {"add_prefix_space": False, "trim_offsets": True}
    byte_level = {"type": "ByteLevel", **options, "use_regex": tokenizer.pattern == "gpt2"}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, **flags, "special": True}
            for token, i in sorted(tokenizer.special_ids.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": _vocab(tokenizer),
            "merges": [[spell(a), spell(b)] for a, b in tokenizer.merges],
        },
    }
    _write(Path(path), json.dumps(content, ensure_ascii=False, indent=1))


@checked
def load_json(path: str | Path) -> BPETokenizer:
    """The tokeniser of a `tokenizer.json`, if it is byte-level BPE with GPT-2's pattern or none.

    ValueError names the setting that would give other ids than `BPETokenizer` does.
    """
    content = json.loads(Path(path).read_text("utf8"))
    model, cutter = content["model"], content["pre_tokenizer"]
    after = content.get("post_processor")
    unread = {f"model {name}": model.get(name) for name in _UNREAD_OF_MODEL}
    unread |= {name: content.get(name) for name in ("normalizer", "truncation", "padding")}
    for added in content["added_tokens"]:
        unread |= {f"{name} of {added['content']}": added[name] for name in _UNREAD_OF_ADDED}
    kind = model.get("type", "BPE" if "merges" in model else "of no type")  # GPT-2's own has none
    if kind != "BPE":
        unread["model"] = kind
    if not cutter or cutter["type"] != "ByteLevel" or cutter["add_prefix_space"]:
        unread["pre_tokenizer"] = cutter or "null"
    if after and after["type"] != "ByteLevel" and not _adds_nothing(after):
        unread["post_processor"] = after["type"]
    for name, value in unread.items():
        if value:
            raise ValueError(f"{path} is no plain byte-level BPE: its {name} is {value!r}")
    special = {added["content"]: added["id"] for added in content["added_tokens"]}
    merges = [_pair(m if isinstance(m, str) else " ".join(m)) for m in model["merges"]]
    pattern = "gpt2" if cutter.get("use_regex", True) else "none"
    return _tokenizer(model["vocab"] | special, merges, special, pattern)


def _adds_nothing(after: dict) -> bool:
    """Whether a template puts no special token around a text, as transformers writes for GPT-2."""
    return after["type"] == "TemplateProcessing" and all(
        "Sequence" in part for part in (*after["single"], *after["pair"])
    )


_UNREAD_OF_ADDED = ("single_word", "lstrip", "rstrip")
_UNREAD_OF_MODEL = ("dropout", "continuing_subword_prefix", "end_of_word_suffix",
                    "byte_fallback", "ignore_merges")  # fmt: skip


def _pair(line: str) -> Pair:
    parts = line.split(" ")
    if len(parts) != 2:
        raise ValueError(f"a merge is two tokens with a space between, got {line!r}")
    return unspell(parts[0]), unspell(parts[1])


def _vocab(tokenizer: BPETokenizer) -> dict[str, int]:
    spelt = [t if isinstance(t, str) else spell(t) for t in tokenizer.vocab]
    vocab = {token: i for i, token in enumerate(spelt)}
    for token, i in tokenizer.special_ids.items():
        if spelt.count(token) > 1:
            raise ValueError(f"the special token {token!r} (id {i}) is spelt as an ordinary one")
    return vocab


def _tokenizer(
    ids: Mapping[str, int], merges: list[Pair], special_tokens: Iterable[str], pattern: str
) -> BPETokenizer:
    names = sorted(ids, key=ids.__getitem__)
    if [ids[name] for name in names] != list(range(len(names))):
        raise ValueError(f"the ids of {len(names)} tokens must be 0 … {len(names) - 1}, each once")
    special = [name for name in names if name in special_tokens]
    vocab = [name if name in special else unspell(name) for name in names]
    return BPETokenizer(merges, special, pattern=pattern, vocab=vocab)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf8", newline="\n")
