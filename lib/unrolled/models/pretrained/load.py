"""Copy published weights into our models, or refuse with what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained.config import FAMILIES
from unrolled.models.pretrained.layouts import HEAD, LAYOUTS
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.validate import one_of

_MODELS = {"t5": EncoderDecoder, "bert": Encoder}  # the others: TransformerLM


@torch.no_grad()
def load(
    model: TransformerLM | Encoder | EncoderDecoder | Block,
    state_dict: Mapping[str, Tensor],
    family: str,
) -> None:
    """Copy a state dict that has the names of `transformers` into a model of ours, or into a block.

    model: built as `config_from` says: weights do not show the number of heads, the activation,
    a norm's ε. A `Block` takes the weights of one block, of the first's names without "h.0.".
    A model with position "rotary-interleaved" takes LLaMA's weights, too, and gives their logits.
    state_dict: with or without the leading prefix ("transformer.", "model."), of any dtype and on
    any device. family: one of FAMILIES.

    Raises TypeError for a `TransformerLM` where the family is an encoder–decoder, or the reverse;
    ValueError for a configuration that is not the family's, for names that are missing or have no
    place in the model, and for shapes that do not fit. Then nothing has been copied.
    """
    _check_model(model, family)
    layout, own = LAYOUTS[family](model.config), model.state_dict()
    given, copies = layout.weights(state_dict), set(layout.copies)
    if isinstance(model, Block):
        rules = list(layout.block_rules(model.cross is not None))
    else:
        rules = list(layout.rules(model.config.n_layers))
    if "head.weight" in own and model.config.tie_embeddings:
        copies.add(f"{HEAD}.weight")
    elif "head.weight" in own:
        rules.append(("head", (HEAD,), lambda x: x))
    sources = {
        f"{ours}.{kind}": ([f"{name}.{kind}" for name in theirs], make)
        for ours, theirs, make in rules
        for kind in ("weight", "bias")
        if f"{ours}.{kind}" in own
    }
    _check_names({name for theirs, _ in sources.values() for name in theirs}, given, copies)
    for name in copies & given.keys():
        embedding = sources["embedding.weight"][0][0]
        if not torch.equal(given[name], given[embedding]):
            hint = ": build the model with tie_embeddings=False" if name.startswith(HEAD) else ""
            raise ValueError(f"{name} is another matrix than {embedding}{hint}")
    made = {ours: _make(ours, own, theirs, make, given) for ours, (theirs, make) in sources.items()}
    assert own.keys() - made.keys() <= {"head.weight"}, own.keys() - made.keys()
    for name, tensor in made.items():
        own[name].copy_(tensor)


def _check_model(model, family: str) -> None:
    expected = _MODELS.get(one_of("family", family, LAYOUTS), TransformerLM)
    if not isinstance(model, (expected, Block)):
        raise TypeError(f"{family} goes into {expected.__name__}, got {type(model).__name__}")
    form, config = dict(FAMILIES.get(family, {})), model.config
    if config.has_rotary and family == "llama" and config.rotary_dim == config.head_dim:
        del form["position"]  # in either layout
    if wrong := {k: v for k, v in form.items() if getattr(config, k) != v}:
        listed = ", ".join(f"{k}={v!r}, not {getattr(config, k)!r}" for k, v in wrong.items())
        raise ValueError(f"{family} has {listed}")


def _check_names(needed: set[str], given: Iterable[str], copies: set[str]) -> None:
    missing, unused = sorted(needed - set(given)), sorted(set(given) - needed - copies)
    if not missing and not unused:
        return
    said = [f"{_listed(missing)} missing"] if missing else []
    said += [f"the model has no place for {_listed(unused)}"] if unused else []
    if f"{HEAD}.weight" in missing:
        said.append("a reference without a head is tied: build the model with tie_embeddings=True")
    raise ValueError(f"these are not the weights of this model: {'; '.join(said)}")


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
