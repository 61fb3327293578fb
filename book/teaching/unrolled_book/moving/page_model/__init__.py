"""A trained Transformer that runs in the reader's browser: type a text, see the next tokens.

`pack` writes the model into one small file with eight bits for each weight; `show` puts its frame
into a page. `page_model.js`, written into the page, is the forward pass in JavaScript, one token at
a time with a cache of keys and values. `sampling.js` adds the knobs of `generation.samplers`.
"""

from __future__ import annotations

import html
import json
import struct
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book import figures
from unrolled_book.moving.embed import embed, with_script

# The configuration that the forward pass in the page can compute.
SUPPORTED = {
    "activation": "swiglu", "norm": "rms", "norm_first": True, "parallel": False,
    "position": "rotary", "bias": False, "tie_embeddings": True, "embedding_norm": False,
    "window": None, "scale_embedding": False, "scale_scores": True, "scale_logits": False,
}  # fmt: skip
PLACE = "In the web book the model itself runs here: type a text, and see what it expects next{}."


def pack(model: TransformerLM, vocab: tuple[str, ...]) -> bytes:
    """The model as a file for the page.

    The file holds the length of a JSON header (four bytes), the header, padded to a multiple of
    four, and the tensors. A matrix has one float32 for each row, its largest magnitude over 127,
    and then int8 entries in units of it; a vector is float32. All little-endian, each tensor at a
    multiple of four. Raises ValueError for a configuration that the page cannot compute, or a
    vocabulary of another size.
    """
    config = asdict(model.config)
    for name, value in SUPPORTED.items():
        if config[name] != value:
            raise ValueError(f"the page knows {name}={value!r} only, got {config[name]!r}")
    c = model.config
    if (c.rotary_dim, c.n_kv_heads) != (c.head_dim, c.n_heads):
        raise ValueError("the page knows whole heads that turn, and as many for keys as queries")
    if len(vocab) != config["vocab_size"]:
        raise ValueError(f"expected {config['vocab_size']} tokens, got {len(vocab)}")
    tensors, body = [], b""
    for name, value in model.state_dict().items():
        if name == "head.weight":
            continue
        array = value.detach().cpu().numpy().astype("<f4")
        tensors.append({"name": name, "shape": array.shape, "at": len(body)})
        if array.ndim == 2:
            scale = np.abs(array).max(axis=1, keepdims=True) / 127
            scale[scale == 0] = 1
            body += scale.astype("<f4").tobytes()
            body += np.rint(array / scale).astype(np.int8).tobytes()
        else:
            body += array.tobytes()
        body += b"\0" * (-len(body) % 4)
    header = json.dumps({"config": config, "vocab": vocab, "tensors": tensors}).encode()
    header += b" " * (-len(header) % 4)
    return struct.pack("<I", len(header)) + header + body


def unpack(data: bytes) -> tuple[TransformerLM, tuple[str, ...]]:
    """The model with the rounded weights of the page, and its vocabulary."""
    (length,) = struct.unpack("<I", data[:4])
    header, body = json.loads(data[4 : 4 + length]), data[4 + length :]
    weights = {}
    for tensor in header["tensors"]:
        rows, at = tensor["shape"][0], tensor["at"]
        array = np.frombuffer(body, "<f4", rows, at)
        if len(tensor["shape"]) == 2:
            entries = np.frombuffer(body, np.int8, int(np.prod(tensor["shape"])), at + 4 * rows)
            array = array[:, None] * entries.reshape(tensor["shape"])
        weights[tensor["name"]] = torch.from_numpy(np.array(array, dtype=np.float32))
    model = TransformerLM(TransformerConfig(**header["config"]))
    model.load_state_dict(weights | {"head.weight": weights["embedding.weight"]})
    return model.eval(), tuple(header["vocab"])


def show(
    name: str,
    prompt: str,
    *,
    caption: str = "",
    longest: int = 120,
    head: tuple[int, int] = (1, 1),
    knobs: bool = False,
) -> None:
    """Display the frame in which the model of the file `name`.bin runs in the web book.

    A notebook, which does not have the file, shows a sentence instead. longest: the number of
    characters that the page reads, at most the length the model was trained on. head: the layer and
    the head, counted from 1, whose attention is shown first. knobs: show what the settings of
    `Sampling` leave of the distribution, in place of the attention.

    Raises ValueError for a layer or head below 1.
    """
    from IPython.display import display

    if min(head) < 1:
        raise ValueError(f"layers and heads are counted from 1, got layer and head {head}")
    here = Path(__file__)
    more = ", and what the knobs make of it" if knobs else " and what it attends to"
    markup = embed(
        "u-model u-model-sampling" if knobs else "u-model",
        f'<p class="u-model-place">{PLACE.format(more)}</p>',
        data={"file": f"{name}.bin", "prompt": prompt, "longest": longest, "head": head},
        style=here.with_name("page_model.css"),
        script=here.with_name("page_model.js"),
        caption=figures.figcaption(caption),
    )
    if knobs:
        wide = ".u-model-sampling label:has(textarea){display:block}"
        markup = with_script(markup, wide, here.with_name("sampling.js"))
    plain = f"[The model {html.escape(name)} runs here in the web book.]\n{caption}".strip()
    display({"text/html": markup, "text/plain": plain}, raw=True)
