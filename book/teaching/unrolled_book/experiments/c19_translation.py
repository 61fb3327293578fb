"""Chapter 19: number words again, a recurrent translator with attention against the Transformer.

German morphemes to English words, 2 to 12 digits. Every model sees the same batches, as many steps
and one schedule, and each has its own learning rate, searched at full length with a separate seed
on the validation numbers. Then all train three times as long at the same rates. For the
Transformer, `rows` also asks which token names a row of its cross-attention: the one that is read
there, or the one that is predicted; and it trains once more with the source's mask forgotten in the
cross-attention. About 20 minutes on one core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data.batches import IGNORE
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.heads import attention_weights
from unrolled.models.seq2seq import Seq2Seq
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.experiments import _number_words as shared
from unrolled_book.experiments import c13_seq2seq
from unrolled_book.experiments._common import best_lr, n_parameters, search, seeded
from unrolled_book.tasks import number_words

N_STEPS = 700
N_LONGER = 3 * N_STEPS
SEARCH_SEED = 100
N_GERMAN = len(number_words.vocabulary("de"))
N_ENGLISH = len(number_words.vocabulary("en"))
VOCABULARY = (*number_words.vocabulary("de"), *number_words.vocabulary("en")[3:])


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One kind of translator. n_layers: of each stack of a Transformer; 0: the recurrent one."""

    name: str
    n_layers: int
    lrs: tuple[float, ...]


ARMS = (
    Arm(name="recurrent", n_layers=0, lrs=(5e-3, 1e-2, 2e-2, 4e-2)),
    Arm(name="1 + 1 layers", n_layers=1, lrs=(1e-3, 2e-3, 4e-3, 8e-3)),
    Arm(name="2 + 2 layers", n_layers=2, lrs=(1e-3, 2e-3, 4e-3, 8e-3)),
)


def config(n_layers: int) -> TransformerConfig:
    """The chapter's small Transformer: norms first, everything else as in 2017, no dropout."""
    return TransformerConfig(
        vocab_size=len(VOCABULARY), d_model=64, n_heads=4, n_layers=n_layers, context_length=64,
        activation="relu", position="sinusoidal", scale_embedding=True, init_std=0.1,
    )  # fmt: skip


def fresh(arm: Arm, seed: int) -> nn.Module:
    """An untrained translator; torch's generator is unchanged."""
    with seeded(seed):
        if arm.n_layers:
            return EncoderDecoder(config(arm.n_layers))
        sizes = {"embedding_dim": c13_seq2seq.EMBEDDING, "hidden_size": c13_seq2seq.HIDDEN}
        return Seq2Seq(len(VOCABULARY), len(VOCABULARY), attention="additive", **sizes)


def tensors(numbers: Sequence[int]) -> tuple[Tensor, ...]:
    """source, source_mask, inputs and targets of `number_words.pairs`, as ids of VOCABULARY.

    English words come after the German tokens; the three marks are shared.
    """
    source, mask, inputs, targets = map(torch.from_numpy, number_words.pairs(numbers))
    inputs, targets = (
        torch.where(ids > number_words.END, ids + N_GERMAN - 3, ids) for ids in (inputs, targets)
    )
    return source, mask, inputs, targets


def rate(step: int, n_steps: int) -> float:
    """The factor of the learning rate: up over a tenth of the steps, then a cosine down to 0."""
    warmup = n_steps // 10
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (n_steps - warmup))) / 2


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a target."""
    return F.cross_entropy(logits.mT, targets, ignore_index=IGNORE)


def train(model: nn.Module, seed: int, lr: float, n_steps: int = N_STEPS, **which) -> list[float]:
    """The loss of every batch, in nats."""
    numbers = shared.batches(tensors, seed, **which)
    return shared.train(model, numbers, n_steps, lr, nats, lambda step: rate(step, n_steps))


@torch.no_grad()
def loss_of(model: nn.Module, numbers: Sequence[int]) -> float:
    """The mean loss of a target, in nats, under teacher forcing."""
    source, mask, inputs, targets = tensors(numbers)
    return nats(model(source, inputs, mask), targets).item()


def exact(model: nn.Module, numbers: Sequence[int]) -> float:
    """The percentage of numbers that the model, running freely, writes without any mistake."""
    return shared.exact(model, tensors(numbers))


def by_length(model: nn.Module, split: str = "test") -> list[float]:
    """`exact` for each of DIGITS."""
    return shared.by_length(lambda numbers: exact(model, numbers), split)


@torch.no_grad()
def cross_weights(model: EncoderDecoder, source, mask, inputs) -> list[Tensor]:
    """The weights (B, H, T, S) of each decoder layer's cross-attention."""
    with attention_weights(model) as weights:
        model(source, inputs, mask)
    return weights[model.config.n_layers :][1::2]  # after the encoder's; self, cross, self, …


def swaps(seed: int = 0, n: int = shared.N_SWAPS) -> list[tuple[int, int]]:
    """Pairs of numbers that differ in one digit, a ten or a unit of a group."""
    return shared.swaps("tens", "units", seed=seed, n=n)


@torch.no_grad()
def rows(model: EncoderDecoder, pairs: Sequence[tuple[int, int]]) -> dict:
    """Which row of the cross-attention points to the source token of a word?

    One token of the source is changed, and one word of the output follows (`swaps`).
    "follows": the percentage of pairs where the likeliest word does, before and after. Of these,
    the percentage where the largest weight lies on the changed token, layer by layer: "predicted",
    in the row where the word is predicted, and "input", in the next row, where it is read, both of
    the mean over the heads; "heads": as "predicted", for each head, and "heads by digit" of tens
    and units apart.
    """
    first, second, (i, changed, step) = shared.both(tensors, pairs)
    (source, mask, inputs, targets), (source_2, mask_2, inputs_2, targets_2) = first, second
    right = model(source, inputs, mask)[i, step].argmax(-1) == targets[i, step]
    right &= model(source_2, inputs_2, mask_2)[i, step].argmax(-1) == targets_2[i, step]

    digits = [next(k for k in range(9) if str(a)[k] != str(b)[k]) % 3 for a, b in pairs]
    of_kind = {"tens": torch.tensor(digits) == 1, "units": torch.tensor(digits) == 2}

    def share(weights: Tensor, step: Tensor, among: Tensor = right) -> float:
        hit = weights[i, step].argmax(-1) == changed
        return round(100 * (hit & among).sum().item() / max(1, among.sum().item()), 1)

    found = {"follows": round(100 * right.float().mean().item(), 1)}
    layers = cross_weights(model, source, mask, inputs)
    found["predicted"] = [share(w.mean(1), step) for w in layers]
    found["input"] = [share(w.mean(1), step + 1) for w in layers]
    found["heads"] = [[share(w[:, h], step) for h in range(w.shape[1])] for w in layers]
    found["heads by digit"] = {
        kind: [[share(w[:, h], step, right & among) for h in range(w.shape[1])] for w in layers]
        for kind, among in of_kind.items()
    }
    return found


class Forgetful(EncoderDecoder):
    """A Transformer with a fault: the mask of the source's padding reaches its encoder only."""

    def hidden(self, source, target, source_mask=None, target_mask=None, *, cache=None):
        """As in `EncoderDecoder`, but the cross-attention reads the padding too."""
        memory = self.encode(source, source_mask)
        if cache is not None and not cache.length:
            cache.begin(memory, None)
        return self.decoder(self.embed(target), target_mask, cache=cache, source=memory)


def forgetful(model: EncoderDecoder) -> Forgetful:
    """The same weights with the fault."""
    with seeded(0):  # a new model draws weights
        other = Forgetful(model.config)
    other.load_state_dict(model.state_dict())
    return other.eval()


def mixed() -> tuple[int, ...]:
    """Test numbers of all lengths, for one batch with much padding."""
    return tuple(n for d in shared.DIGITS for n in number_words.numbers("test", digits=(d,))[:20])


def trained(arm: Arm, seed: int, lr: float, n_steps: int, *, forgets: bool = False) -> dict:
    """Train one arm with one seed, measure it, and return its row.

    forgets: with the fault of `Forgetful`, in training as in use.
    """
    model, begin = fresh(arm, seed), time.process_time()
    model = forgetful(model).train() if forgets else model
    losses = train(model, seed, lr, n_steps)
    seconds = time.process_time() - begin
    model.eval()
    row = {"arm": arm.name, "seed": seed, "lr": lr, "seconds": round(seconds, 1)}
    row |= {"loss": round(float(np.mean(losses[-50:])), 4), "exact": by_length(model)}
    row["mixed"] = round(exact(model, mixed()), 1)
    if forgets or not arm.n_layers:
        return row
    other = forgetful(model)
    forgot = {"mixed": round(exact(other, mixed()), 1), "exact": by_length(other)}
    return row | rows(model, swaps()) | {"forgetful": forgot}


def searched(arm: Arm, n_steps: int) -> list[dict]:
    """The validation loss of an arm at each of its learning rates."""
    valid = number_words.numbers("valid", digits=range(2, 13))[::4]

    def measure(lr: float) -> float:
        model = fresh(arm, SEARCH_SEED)
        train(model, SEARCH_SEED, lr, n_steps)
        return round(loss_of(model.eval(), valid), 4)

    return search(arm.lrs, measure, "valid")


def run(
    arms: Sequence[Arm] = ARMS,
    seeds: Sequence[int] = (0, 1, 2),
    n_steps: int = N_STEPS,
    n_longer: int = N_LONGER,
) -> dict:
    """metrics: "runs", a row for each arm and seed, "longer", the same after n_longer
    steps, and "forgot", Transformers trained and used with the fault.

    In a row "exact" has a percentage for each of DIGITS.
    """
    found = {arm.name: searched(arm, n_steps) for arm in arms}
    best = {name: best_lr(tried, "valid") for name, tried in found.items()}
    runs = [trained(arm, seed, best[arm.name], n_steps) for arm in arms for seed in seeds]
    longer = [
        trained(arm, seed, best[arm.name], n_longer) for arm in arms if n_longer for seed in seeds
    ]
    forgot = [
        trained(arm, seed, best[arm.name], n_steps, forgets=True)
        for arm in arms
        if arm.n_layers
        for seed in seeds
    ]
    settings = {
        "batch_size": shared.BATCH_SIZE, "max_norm": shared.MAX_NORM, "n_steps": n_steps,
        "n_longer": n_longer, "optimizer": "adam", "search": found, "lr": best,
        "digits": [*shared.DIGITS], "per_length": shared.PER_LENGTH, "n_swaps": shared.N_SWAPS,
        "parameters": {arm.name: n_parameters(fresh(arm, 0)) for arm in arms},
    }  # fmt: skip
    return {
        "config": settings,
        "seeds": [*seeds],
        "metrics": {"runs": runs, "longer": longer, "forgot": forgot},
    }
