"""The models that the workbench trains, each a few lines on the engine of chapter 7.

A model takes its parameters, by name, and ids (B, T), and gives the logits (B, T, V) of the token
after each. Where a list `seen` is given, it also puts there what there is to look at: the gates of
an LSTM, the attention of a GPT. Matrices stand as in the chapters, x @ W: (inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor

Parameters = dict[str, Tensor]
Seen = list[dict[str, Any]] | None


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    """x @ W + b."""
    y = x @ p[f"{name}.weight"]
    return y + ag.broadcast_to(p[f"{name}.bias"], y.shape)


def bigram(p: Parameters, ids: np.ndarray, seen: Seen = None) -> Tensor:
    """Chapter 7b: a row of logits for each character, and nothing else."""
    return ag.gather(p["logits"], ids)


def feed_forward(p: Parameters, ids: np.ndarray, seen: Seen = None) -> Tensor:
    """Chapter 8: the last n characters side by side, the latest first, and a hidden layer.

    Before the beginning of a window stand zeros.
    """
    n = p["hidden.weight"].shape[0] // p["embedding"].shape[1]
    before = np.arange(ids.shape[1])[:, None] - np.arange(n)  # (T, n): a position's last n
    x = ag.gather(p["embedding"], ids[:, before.clip(0)])  # (B, T, n, D)
    x = x * np.broadcast_to((before >= 0)[:, :, None], x.shape)
    h = linear(p, "hidden", x.reshape(*ids.shape, -1)).tanh()
    return linear(p, "head", h)


def elman(p: Parameters, ids: np.ndarray, seen: Seen = None) -> Tensor:
    """Chapter 9: one state, renewed at each character."""
    h, states = Tensor(np.zeros((len(ids), p["head.weight"].shape[0]))), []
    for column in ids.T:
        x = ag.gather(p["embedding"], column)
        h = (linear(p, "x", x) + h @ p["h.weight"]).tanh()
        states.append(h)
    if seen is not None:
        seen.append({"name": "state", "values": np.stack([h.value for h in states], 1)})
    return linear(p, "head", ag.stack(states, axis=1))


def lstm(p: Parameters, ids: np.ndarray, seen: Seen = None) -> Tensor:
    """Chapter 11: a cell, and three gates that decide what is written, kept and shown."""
    h = c = Tensor(np.zeros((len(ids), p["head.weight"].shape[0])))
    states, opened = [], {"input": [], "forget": [], "output": []}
    for column in ids.T:
        x = ag.gather(p["embedding"], column)
        i, f, o, g = (linear(p, gate, x) + h @ p[f"{gate}.from_h"] for gate in GATES)
        i, f, o, g = i.sigmoid(), f.sigmoid(), o.sigmoid(), g.tanh()
        c = f * c + i * g
        h = o * c.tanh()
        states.append(h)
        for gates, gate in zip(opened.values(), (i, f, o), strict=True):
            gates.append(gate.value)
    if seen is not None:
        seen.extend({"name": f"{k} gate", "values": np.stack(v, 1)} for k, v in opened.items())
    return linear(p, "head", ag.stack(states, axis=1))


GATES = ("input", "forget", "output", "candidate")
N_HEADS = 4


def gpt(p: Parameters, ids: np.ndarray, seen: Seen = None) -> Tensor:
    """Chapter 20: GPT-2's blocks, positions learned, the head tied to the embedding."""
    B, T = ids.shape
    positions = np.broadcast_to(np.arange(T), (B, T))
    x = ag.gather(p["embedding"], ids) + ag.gather(p["position"], positions)
    for layer in range(sum(name.endswith("queries.weight") for name in p)):
        x = x + attention(p, f"{layer}.", norm(p, f"{layer}.norm_attention", x), seen)
        up = linear(p, f"{layer}.up", norm(p, f"{layer}.norm_feed_forward", x))
        x = x + linear(p, f"{layer}.down", up.gelu())
    return norm(p, "norm", x) @ p["embedding"].T


def attention(p: Parameters, prefix: str, x: Tensor, seen: Seen = None) -> Tensor:
    """Chapter 16: heads that look back only."""
    B, T, D = x.shape
    K = D // N_HEADS
    q, k, v = (
        linear(p, prefix + name, x).reshape(B, T, N_HEADS, K).transpose(0, 2, 1, 3)
        for name in ("queries", "keys", "values")
    )  # (B, H, T, K)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(K)  # (B, H, T, T)
    later = np.triu(np.full((T, T), -1e30), 1)
    weights = (scores + np.broadcast_to(later, scores.shape)).softmax()
    if seen is not None:
        seen.append({"name": f"layer {prefix[:-1]}", "values": weights.value})
    read = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    return linear(p, prefix + "output", read)


def norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Chapter 18: a layer norm."""
    gain, bias = (ag.broadcast_to(p[f"{name}.{part}"], x.shape) for part in ("gain", "bias"))
    return ag.standardize(x) * gain + bias


@dataclass(frozen=True, eq=False)
class Model:
    """A model of the workbench.

    forward: one of the functions above. shapes: from V, the width and the window, the shape of each
    parameter. lr: Adam's best of two to four, a factor of three apart, over 1,000 steps.
    """

    title: str
    forward: Callable[..., Tensor]
    shapes: Callable[[int, int, int], dict[str, tuple[int, ...]]]
    lr: float

    def parameters(self, rng: np.random.Generator, V: int, width: int, window: int) -> dict:
        """Fresh arrays: N(0, 1/inputs) in matrices, N(0, 0.02²) in embeddings and tables, gains of
        1, a forget gate's bias of 1, zeros.
        """
        found = {}
        for name, shape in self.shapes(V, width, window).items():
            std = 0.02 if "." not in name else shape[0] ** -0.5
            drawn = rng.normal(scale=std, size=shape)
            constant = float(name.endswith(".gain") or name == "forget.bias")
            found[name] = drawn if len(shape) > 1 else np.full(shape, constant)
        return found


def _linear(name: str, n_in: int, n_out: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (n_in, n_out), f"{name}.bias": (n_out,)}


def _feed_forward(V: int, width: int, window: int) -> dict:
    D, n = 16, min(window, 8)
    return {"embedding": (V, D), **_linear("hidden", n * D, width), **_linear("head", width, V)}


def _elman(V: int, width: int, window: int) -> dict:
    hidden = _linear("x", 16, width) | {"h.weight": (width, width)}
    return {"embedding": (V, 16), **hidden, **_linear("head", width, V)}


def _lstm(V: int, width: int, window: int) -> dict:
    found = {"embedding": (V, 16)}
    for gate in GATES:
        found |= _linear(gate, 16, width) | {f"{gate}.from_h": (width, width)}
    return found | _linear("head", width, V)


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.gain": (width,), f"{name}.bias": (width,)}


def _gpt(n_layers: int) -> Callable[[int, int, int], dict]:
    def shapes(V: int, width: int, window: int) -> dict:
        found = {"embedding": (V, width), "position": (window, width)}
        for layer in map(str, range(n_layers)):
            found |= _norm(f"{layer}.norm_attention", width)
            for name in ("queries", "keys", "values", "output"):
                found |= _linear(f"{layer}.{name}", width, width)
            found |= _norm(f"{layer}.norm_feed_forward", width)
            found |= _linear(f"{layer}.up", width, 4 * width)
            found |= _linear(f"{layer}.down", 4 * width, width)
        return found | _norm("norm", width)

    return shapes


MODELS = {
    "bigram": Model("bigram", bigram, lambda V, width, window: {"logits": (V, V)}, 0.03),
    "feed-forward": Model("feed-forward", feed_forward, _feed_forward, 0.01),
    "elman": Model("Elman", elman, _elman, 0.01),
    "lstm": Model("LSTM", lstm, _lstm, 0.03),
    "one-layer-gpt": Model("one-layer GPT", gpt, _gpt(1), 0.003),
    "two-layer-gpt": Model("two-layer GPT", gpt, _gpt(2), 0.003),
}
