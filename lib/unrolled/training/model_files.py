"""A language model in one file, its configuration and its weights, and back in one call."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from torch import nn

from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training import _runtime, checkpoint
from unrolled.validate import checked

TRANSFORMERS = {kind.__name__: kind for kind in (TransformerLM, Encoder, EncoderDecoder)}


@checked
def save_model(model: nn.Module, path: str | Path) -> None:
    """Write a Transformer or a `RecurrentLM`, compiled or not; `load_model` gives it back.

    The old file stays until the new one is whole. Raises TypeError for a model of another class
    and for a cell that is your own: `checkpoint.save` takes their state_dict.
    """
    model = _runtime.uncompiled(model)
    kind = type(model).__name__
    if type(model) is RecurrentLM and isinstance(model.arguments["cell"], str):
        config = model.arguments
    elif TRANSFORMERS.get(kind) is type(model):
        config = asdict(model.config)
    else:
        known = ", ".join(("RecurrentLM", *TRANSFORMERS))
        raise TypeError(f"model must be one of {known}, with a cell of the library; got {kind}")
    contents = {"kind": kind, "config": config, "weights": model.state_dict()}
    checkpoint.save(path, contents)


@checked
def load_model(path: str | Path) -> nn.Module:
    """The model that `save_model` wrote, on the CPU and in evaluation mode. No code in it is run.

    Raises FileNotFoundError, and ValueError naming the file if it holds no such model.
    """
    found = checkpoint.load(path)
    if found.keys() != {"kind", "config", "weights"}:
        raise ValueError(f"{path} holds {', '.join(found)}, and not a model of `save_model`")
    if found["kind"] == "RecurrentLM":
        model = RecurrentLM(**found["config"])
    else:
        model = TRANSFORMERS[found["kind"]](TransformerConfig(**found["config"]))
    model.load_state_dict(found["weights"])
    return model.eval()
