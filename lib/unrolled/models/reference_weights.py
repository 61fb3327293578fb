"""Published weights for our models: GPT, GPT-2, OPT, BLOOM, LLaMA and T5.

With a checkpoint's config.json and its weights, which the reader fetches, three lines give the
model. The dictionaries come from json.load, and from safetensors.torch.load_file or
torch.load(…, weights_only=True):

    model = TransformerLM(config_from(config, "gpt2")).eval()
    load_reference_weights(model, tensors, "gpt2")
    logits = model(tokens)

Names are those of the library `transformers`, which is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.reference_config import FAMILIES, config_from, family_form
from unrolled.models.reference_layouts import HEAD, LAYOUTS
from unrolled.models.transformer import TransformerLM

__all__ = ["FAMILIES", "config_from", "load_reference_weights"]


@torch.no_grad()
def load_reference_weights(
    model: TransformerLM | EncoderDecoder, state_dict: Mapping[str, Tensor], family: str
) -> None:
    """Copy a state dict that has the names of `transformers` into a model of ours.

    model: built as `config_from` says: weights do not show the number of heads, the activation,
    a norm's ε. state_dict: with or without the leading prefix ("transformer.", "model."), of any
    dtype and on any device. family: one of FAMILIES.

    Raises TypeError for a `TransformerLM` where the family is an encoder–decoder, or the reverse;
    ValueError for a configuration that is none of the family's, for names that are missing or have
    no place in the model, and for shapes that do not fit. Then nothing has been copied.
    """
    _check_model(model, family)
    layout, own = LAYOUTS[family](model.config), model.state_dict()
    given, tied = layout.weights(state_dict), model.config.tied
    rules = list(layout.rules(model.config.n_layers))
    if not tied:
        rules.append(("head", (HEAD,), lambda x: x))
    sources = {
        f"{ours}.{kind}": ([f"{name}.{kind}" for name in theirs], make)
        for ours, theirs, make in rules
        for kind in ("weight", "bias")
        if f"{ours}.{kind}" in own
    }
    copies = {*layout.copies, *([f"{HEAD}.weight"] if tied else [])}
    _check_names({name for theirs, _ in sources.values() for name in theirs}, given, copies)
    _check_copies(given, copies, layout.embedding)
    made = {ours: _make(ours, own, theirs, make, given) for ours, (theirs, make) in sources.items()}
    assert own.keys() - made.keys() <= {"head.weight"}, own.keys() - made.keys()
    for name, tensor in made.items():
        own[name].copy_(tensor)


def _check_model(model, family: str) -> None:
    form, expected = family_form(family), EncoderDecoder if family == "t5" else TransformerLM
    if not isinstance(model, expected):
        raise TypeError(f"{family} goes into {expected.__name__}, got {type(model).__name__}")
    if wrong := {k: v for k, v in form.items() if getattr(model.config, k) != v}:
        listed = ", ".join(f"{k}={v!r}, not {getattr(model.config, k)!r}" for k, v in wrong.items())
        raise ValueError(f"{family} has {listed}")


def _check_names(needed: set[str], given: Iterable[str], copies: set[str]) -> None:
    missing, unused = sorted(needed - set(given)), sorted(set(given) - needed - copies)
    if not missing and not unused:
        return
    said = [f"{_listed(missing)} missing"] if missing else []
    said += [f"the model has no place for {_listed(unused)}"] if unused else []
    if f"{HEAD}.weight" in missing:
        said.append("a reference without a head is tied: build the model with tied=True")
    raise ValueError(f"these are not the weights of this model: {'; '.join(said)}")


def _check_copies(given: Mapping[str, Tensor], copies: set[str], embedding: str) -> None:
    for name in copies & given.keys():
        if not torch.equal(given[name], given[embedding]):
            hint = ": build the model with tied=False" if name.startswith(HEAD) else ""
            raise ValueError(f"{name} is another matrix than {embedding}{hint}")


def _make(ours, own, theirs, make, given) -> Tensor:
    """Our weight from theirs, or ValueError with the shapes."""
    try:
        made = make(*(given[name] for name in theirs))
    except (RuntimeError, IndexError):  # they cannot be cut or put together
        made = None
    if made is None or made.shape != own[ours].shape:
        shapes = " and ".join(f"{name} {tuple(given[name].shape)}" for name in theirs)
        raise ValueError(f"{shapes} cannot fill {ours} {tuple(own[ours].shape)}")
    return made


def _listed(names: list[str], at_most: int = 8) -> str:
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
