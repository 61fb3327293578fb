"""The library's model in torch that computes what a model of the workbench computes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.workbench.models import GATES, N_HEADS

TORCHS_GATES = ("input", "forget", "candidate", "output")  # the order of the rows in torch's LSTM
assert sorted(TORCHS_GATES) == sorted(GATES)
RENAMED = {
    "queries": "attention.q_proj", "keys": "attention.k_proj", "values": "attention.v_proj",
    "output": "attention.o_proj", "up": "feed_forward.up", "down": "feed_forward.down",
    "norm_attention": "norm_attention", "norm_feed_forward": "norm_feed_forward",
}  # fmt: skip


def twin(model: str, arrays: Mapping[str, np.ndarray]) -> nn.Module:
    """The model called `model` in MODELS as a module of the library, in float64, with its weights.

    arrays: as `Model.parameters` gives them.
    """
    made, state = _TWINS[model](arrays)
    made.double().load_state_dict({k: torch.tensor(v) for k, v in state.items()}, strict=False)
    return made


def _bigram(p: Mapping[str, np.ndarray]) -> tuple[nn.Module, dict]:
    return nn.Embedding(*p["logits"].shape), {"weight": p["logits"]}


def _feed_forward(p: Mapping[str, np.ndarray]) -> tuple[nn.Module, dict]:
    (V, D), (n_inputs, width) = p["embedding"].shape, p["hidden.weight"].shape
    sizes = {"context_length": n_inputs // D, "embedding_dim": D, "hidden_size": width}
    state = {"embedding.weight": p["embedding"]}
    state |= _linear(p, "hidden", "hidden_layer") | _linear(p, "head", "head")
    return NeuralLM(NeuralLMConfig(vocab_size=V, **sizes)), state


def _recurrent(p: Mapping[str, np.ndarray], cell: str) -> tuple[nn.Module, dict]:
    (V, D), width = p["embedding"].shape, p["head.weight"].shape[0]
    state = {"embedding.weight": p["embedding"]} | _linear(p, "head", "head")
    gates = TORCHS_GATES if cell == "lstm" else ("x",)
    from_h = [p[f"{gate}.from_h" if cell == "lstm" else "h.weight"] for gate in gates]
    parts = {
        "weight_ih": np.concatenate([p[f"{gate}.weight"].T for gate in gates]),
        "weight_hh": np.concatenate([matrix.T for matrix in from_h]),
        "bias_ih": np.concatenate([p[f"{gate}.bias"] for gate in gates]),
    }
    parts["bias_hh"] = np.zeros_like(parts["bias_ih"])  # torch has two biases; ours is their sum
    state |= {f"recurrent.cells.0.{name}": value for name, value in parts.items()}
    return RecurrentLM(V, cell, embedding_dim=D, hidden_size=width), state


def _gpt(p: Mapping[str, np.ndarray]) -> tuple[nn.Module, dict]:
    (V, D), window = p["embedding"].shape, len(p["position"])
    n_layers = sum(name.endswith("queries.weight") for name in p)
    state = {"embedding.weight": p["embedding"], "head.weight": p["embedding"]}
    state |= {"stack.position.weight": p["position"]} | _norm(p, "norm", "stack.final_norm")
    for layer in range(n_layers):
        for ours, theirs in RENAMED.items():
            convert = _norm if ours.startswith("norm") else _linear
            state |= convert(p, f"{layer}.{ours}", f"stack.blocks.{layer}.{theirs}")
    config = TransformerConfig(
        vocab_size=V, d_model=D, n_layers=n_layers, n_heads=N_HEADS, context_length=window
    )
    return TransformerLM(config), state


def _linear(p: Mapping[str, np.ndarray], ours: str, theirs: str) -> dict[str, np.ndarray]:
    return {f"{theirs}.weight": p[f"{ours}.weight"].T, f"{theirs}.bias": p[f"{ours}.bias"]}


def _norm(p: Mapping[str, np.ndarray], ours: str, theirs: str) -> dict[str, np.ndarray]:
    return {f"{theirs}.weight": p[f"{ours}.gain"], f"{theirs}.bias": p[f"{ours}.bias"]}


_TWINS = {
    "bigram": _bigram,
    "feed-forward": _feed_forward,
    "elman": lambda p: _recurrent(p, "elman"),
    "lstm": lambda p: _recurrent(p, "lstm"),
    "one-layer-gpt": _gpt,
    "two-layer-gpt": _gpt,
}
