"""A published model from the folder in which its files lie."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained.config import config_from
from unrolled.models.pretrained.load import load
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.validate import checked


@checked
def load_pretrained(folder: str | Path) -> nn.Module:
    """The model of a folder with `config.json` and its weights, in evaluation mode.

    folder: as it was downloaded: the weights in *.safetensors (which need the package safetensors)
    or pytorch_model*.bin, in one file or several. The model is a `TransformerLM`, for BERT an
    `Encoder`, for T5 an `EncoderDecoder`. Raises FileNotFoundError for a missing file, ValueError
    for a family that ours are not (see FAMILIES), and as `config_from` and `load` do.
    """
    folder = Path(folder)
    reference = json.loads((folder / "config.json").read_text("utf8"))
    family = reference.get("model_type", "of no model_type")
    config = config_from(reference, family)
    model = {"t5": EncoderDecoder, "bert": Encoder}.get(family, TransformerLM)(config)
    load(model, _weights(folder), family)
    return model.eval()


def _weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder's files by their names."""
    if files := sorted(folder.glob("*.safetensors")):
        from safetensors.torch import load_file as read
    elif files := sorted(folder.glob("pytorch_model*.bin")):

        def read(path: Path) -> dict[str, Tensor]:
            return torch.load(path, map_location="cpu", weights_only=True)
    else:
        raise FileNotFoundError(f"{folder} has neither *.safetensors nor pytorch_model*.bin")
    return {name: x for path in files for name, x in read(path).items()}
