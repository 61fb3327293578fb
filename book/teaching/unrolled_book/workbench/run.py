"""A run of the workbench: a text, a model, steps, and what a reader looks at between them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from unrolled.data.batches import random_batch
from unrolled.data.tokens import CharTokenizer
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor
from unrolled.models.ngram import NGram

from unrolled_book.workbench.models import MODELS

HELD_OUT = 4096  # characters that are scored: the first ones of the last tenth of the text
SHORTEST = 60_000  # characters of a text that can be trained on
WIDTHS, WINDOWS, BATCHES = (16, 32, 64, 128, 256), (8, 16, 32, 64, 128), (4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is made of; its learning rate may change on the way.

    width: of the hidden layer, the state or the block. window: characters of a training example.
    Raises ValueError for what the page does not offer.
    """

    model: str = "two-layer-gpt"
    width: int = 64
    window: int = 32
    batch: int = 8
    optimizer: str = "adam"
    seed: int = 0

    def __post_init__(self) -> None:
        offered = {
            "model": tuple(MODELS), "optimizer": tuple(OPTIMIZERS), "width": WIDTHS,
            "window": WINDOWS, "batch": BATCHES,
        }  # fmt: skip
        for name, known in offered.items():
            if getattr(self, name) not in known:
                given, listed = getattr(self, name), ", ".join(map(str, known))
                raise ValueError(f"{name} must be one of {listed}, got {given!r}")


class Text:
    """A text in characters, its last tenth held out.

    The vocabulary is that of the whole text, so that every held-out character has a probability.
    Raises ValueError for a text of fewer than SHORTEST characters.
    """

    def __init__(self, text: str):
        text = text.replace("\r\n", "\n")
        if len(text) < SHORTEST:
            raise ValueError(f"the text has {len(text):,} characters; it needs {SHORTEST:,}")
        self.tokenizer = CharTokenizer.train(text)
        ids = self.tokenizer.encode(text)
        cut = len(ids) * 9 // 10
        self.train, self.held_out = ids[:cut], ids[cut : cut + HELD_OUT]
        self.before = self.train[-max(WINDOWS) :]  # what the first held-out characters follow
        self.n_bytes = len(text[cut : cut + HELD_OUT].encode())
        self.vocab_size = self.tokenizer.vocab_size
        self.length = len(text)
        self.start = self.tokenizer.encode("\n" if "\n" in text else text[0])
        self.bytes_per_character = len(text.encode()) / len(text)
        self._counted: dict[int, NGram] = {}

    def counted(self, order: int) -> NGram:
        """The Kneser–Ney model of this order."""
        if order not in self._counted:
            fitted = NGram.fit([self.train], order, self.vocab_size, "kneser-ney")
            self._counted[order] = fitted
        return self._counted[order]

    def n_gram(self, order: int) -> float:
        """Bits per byte, on the held-out characters, of the n-gram model of this order."""
        ids = np.concatenate([self.before, self.held_out])
        contexts = np.lib.stride_tricks.sliding_window_view(ids[:-1], max(order - 1, 1))
        log_p = self.counted(order).log_probs(contexts[-len(self.held_out) :], self.held_out)
        return -float(log_p.sum()) / math.log(2) / self.n_bytes


def sgd(p: np.ndarray, g: np.ndarray, state: dict, lr: float) -> np.ndarray:
    """p − lr · g."""
    return p - lr * g


def momentum(p: np.ndarray, g: np.ndarray, state: dict, lr: float) -> np.ndarray:
    """p − lr · v, v being g + 0.9 times the v before."""
    state["v"] = 0.9 * state.get("v", 0) + g
    return p - lr * state["v"]


def adam(p: np.ndarray, g: np.ndarray, state: dict, lr: float) -> np.ndarray:
    """Chapter 8's Adam, with the defaults of its authors."""
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
    return p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


OPTIMIZERS: dict[str, Callable[..., np.ndarray]] = {"sgd": sgd, "momentum": momentum, "adam": adam}
MOST = 1.0  # the norm beyond which a gradient is shortened (chapter 10)


class Run:
    """One model on one text: `step` by `step`, with `bits`, `sample` and `look` in between."""

    def __init__(self, text: Text, settings: Settings):
        self.text, self.settings = text, settings
        self.model = MODELS[settings.model]
        self.rng = np.random.default_rng(settings.seed)
        sizes = (text.vocab_size, settings.width, settings.window)
        self.arrays = self.model.parameters(self.rng, *sizes)
        self.states: dict[str, dict] = {name: {} for name in self.arrays}
        self.n_steps = 0

    @property
    def n_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(array.size for array in self.arrays.values())

    def step(self, lr: float) -> tuple[float, float]:
        """One step on a random batch; the loss before it, in nats a character, and the gradient's
        norm.
        """
        batch = {"batch_size": self.settings.batch, "seq_len": self.settings.window}
        inputs, targets = random_batch(self.rng, self.text.train, **batch)
        p = self.tensors()
        loss = ag.cross_entropy(self.model.forward(p, inputs), targets)
        loss.backward()
        norm = math.sqrt(sum(float((t.grad**2).sum()) for t in p.values()))
        shorter = min(1.0, MOST / norm) if norm > 0 else 1.0
        update = OPTIMIZERS[self.settings.optimizer]
        for name, tensor in p.items():
            grad = shorter * tensor.grad
            self.arrays[name] = update(tensor.value, grad, self.states[name], lr)
        self.n_steps += 1
        return float(loss.value), norm

    def tensors(self) -> dict[str, Tensor]:
        """The parameters, ready for a forward pass."""
        return {name: Tensor(array) for name, array in self.arrays.items()}

    def logits(self, ids: np.ndarray, seen: list | None = None) -> np.ndarray:
        """(B, T, V) for ids (B, T)."""
        return self.model.forward(self.tensors(), ids, seen).value

    def scores(self) -> Iterator[float]:
        """Bits of the held-out characters, batch by batch.

        Windows overlap by half, so that each character has half a window before it, or more.
        """
        T, half = self.settings.window, self.settings.window // 2
        ids = np.concatenate([self.text.before[-half:], self.text.held_out])
        starts = np.arange(0, len(self.text.held_out), half)
        for some in np.array_split(starts, -(-len(starts) // self.settings.batch)):
            rows = ids[some[:, None] + np.arange(T)]  # the second half is scored
            log_p = ag.log_softmax(Tensor(self.logits(rows[:, :-1])[:, half - 1 :])).value
            picked = np.take_along_axis(log_p, rows[:, half:, None], -1)
            yield -float(picked.sum()) / math.log(2)

    def bits(self) -> float:
        """Bits per byte of the held-out characters."""
        return sum(self.scores()) / self.text.n_bytes

    def sample(self, n: int, *, temperature: float = 1.0) -> Iterator[str]:
        """Characters that the model writes after the beginning of a line, one after the other."""
        rng = np.random.default_rng((self.settings.seed, self.n_steps))
        ids = list(self.text.start)
        for _ in range(n):
            z = self.logits(np.array([ids[-self.settings.window :]]))[0, -1] / temperature
            ids.append(int((z + rng.gumbel(size=z.size)).argmax()))
            yield self.text.tokenizer.decode(ids[-1:])

    def look(self, ids: np.ndarray) -> tuple[list[dict[str, Any]], np.ndarray]:
        """What the model computes on a line's ids (T,): attention (H, T, T), or gates and states
        (T, width); and the probabilities (V,) of the next character.
        """
        seen: list[dict[str, Any]] = []
        z = self.logits(ids[None], seen)[0, -1]
        return [{**s, "values": s["values"][0]} for s in seen], ag.softmax(Tensor(z)).value

    def flops(self) -> int:
        """Multiplications and additions in the products of one step, as the engine makes them."""
        with counting() as made:
            copy.deepcopy(self).step(0.0)
        return made[0]

    def snapshot(self) -> dict[str, Any]:
        """All that a later `restore` needs."""
        kept = ("arrays", "states", "n_steps", "rng")
        return copy.deepcopy({name: getattr(self, name) for name in kept})

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        vars(self).update(copy.deepcopy(snapshot))


@contextmanager
def counting() -> Iterator[list[int]]:
    """While it lasts, the first entry counts what the engine's products cost, 2 m k n each."""
    made, product = [0], ag.product

    def counted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        y = product(a, b)
        made[0] += 2 * a.shape[-1] * y.size
        return y

    ag.product = counted
    try:
        yield made
    finally:
        ag.product = product
