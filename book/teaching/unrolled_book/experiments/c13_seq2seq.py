"""Chapter 13: recurrent translators of number words, with and without attention.

German morphemes to English words, 2 to 12 digits; a batch holds numbers of one length. The arms
with attention take fewer steps, since theirs take longer: `seconds` says what each run cost. One
learning rate for each kind, searched at full length on the validation numbers. Without attention
the encoder's one vector enters the decoder at its first step or at every step; a wider pair has as
many parameters as the latter, and there are longer trainings. The last arms answer questions of
their own: an encoder with one direction, the state before the step as the query, weights that
never look at the source, and equal weights. About half an hour on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data.batches import IGNORE
from unrolled.models.recurrent import Recurrent
from unrolled.models.recurrent_cells import hidden
from unrolled.models.seq2seq import MemoryAttention, Seq2Seq, Seq2SeqCache

from unrolled_book.experiments import _number_words as shared
from unrolled_book.experiments._common import best_lr, n_parameters, search, seeded
from unrolled_book.experiments._number_words import DIGITS, KINDS, N_SWAPS, swaps, unseen
from unrolled_book.tasks import number_words

EMBEDDING, HIDDEN = 32, 64
WIDER = 78  # a state with which the pair has as many parameters as "every step"
LRS = 2.5e-3, 5e-3, 1e-2, 2e-2
N_STEPS, LONGER, WITH_ATTENTION = 1_500, 4_500, 700
SHOWN = 3  # numbers of nine digits whose answers are kept
LONGEST = 23  # tokens of a source


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One kind of translator, and how many steps it gets."""

    name: str
    attention: str | None
    n_steps: int = WITH_ATTENTION
    bidirectional: bool = True
    query: str = "current"
    hidden: int = HIDDEN
    rate_of: str = "dot"  # whose learning rate it takes, of SEARCHED


ARMS = (
    Arm(name="none", attention=None, n_steps=N_STEPS, rate_of="none"),
    Arm(name="none, longer", attention=None, n_steps=LONGER, rate_of="none"),
    Arm(name="wider", attention=None, n_steps=N_STEPS, hidden=WIDER, rate_of="wider"),
    Arm(name="every step", attention="every step", n_steps=N_STEPS, rate_of="every step"),
    Arm(name="every step, longer", attention="every step", n_steps=LONGER, rate_of="every step"),
    Arm(name="dot", attention="dot"),
    Arm(name="bilinear", attention="bilinear"),
    Arm(name="additive", attention="additive"),
    Arm(name="dot, one direction", attention="dot", bidirectional=False),
    Arm(name="additive, one direction", attention="additive", bidirectional=False),
    Arm(name="additive, asked before", attention="additive", query="previous"),
    Arm(name="never looks", attention="never looks"),
    Arm(name="equal weights", attention="equal weights", n_steps=N_STEPS, rate_of="equal weights"),
)
SEARCHED = tuple(arm for arm in ARMS if arm.rate_of == arm.name)


class EveryStep(Seq2Seq):
    """The encoder's one vector is an input of every step of the decoder, besides its first state.

    Cho et al. (2014), whose prediction reads the vector as well.
    """

    def __init__(self, *sizes: int, embedding_dim: int, hidden_size: int):
        super().__init__(*sizes, embedding_dim=embedding_dim, hidden_size=hidden_size)
        self.decoder = Recurrent(embedding_dim + hidden_size, hidden_size, "gru")

    def _begin(self, source: Tensor, mask: Tensor | None) -> Seq2SeqCache:
        _, state = self.encode(source, mask)
        return Seq2SeqCache(state, hidden(state)[-1][:, None])  # a memory of one row, (B, 1, H)

    def _run(self, x: Tensor, read: Seq2SeqCache) -> tuple[Tensor, None, Tensor]:
        vector = read.memory.expand(-1, x.shape[1], -1)  # (B, T, H)
        outputs, state = self.decoder(torch.cat([x, vector], -1), read.state)
        return outputs, None, state


class PlaceAttention(nn.Module):
    """An attention with a fault: the weights are made from the query alone, for LONGEST positions.

    It has the arguments and results of `MemoryAttention`.
    """

    def __init__(self, query_size: int):
        super().__init__()
        self.place, self.key = nn.Linear(query_size, LONGEST), nn.Identity()

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None, *, keys=None):
        """(contexts (B, T, M), weights (B, T, S))."""
        scores = self.place(query)[..., : memory.shape[1]]
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        weights = scores.softmax(-1)
        return weights @ memory, weights


class EqualWeights(MemoryAttention):
    """Every row of the memory at every step, without a choice: a control."""

    def __init__(self, size: int):
        super().__init__(size, size)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.zeros_like(super().scores(query, keys))


def fresh(arm: Arm, seed: int) -> Seq2Seq:
    """An untrained translator; torch's generator is unchanged."""
    vocabularies = [len(number_words.vocabulary(language)) for language in ("de", "en")]
    sizes = {"embedding_dim": EMBEDDING, "hidden_size": arm.hidden}
    fake = {"never looks": PlaceAttention, "equal weights": EqualWeights}.get(arm.attention)
    with seeded(seed):
        if arm.attention == "every step":
            return EveryStep(*vocabularies, **sizes)
        model = Seq2Seq(
            *vocabularies, **sizes, attention="dot" if fake else arm.attention,
            bidirectional=arm.bidirectional, query=arm.query,
        )  # fmt: skip
        if fake:
            model.attention = fake(HIDDEN)
    return model


def tensors(numbers: Sequence[int]) -> tuple[Tensor, ...]:
    """source, source_mask, inputs and targets of `number_words.pairs`."""
    return tuple(torch.from_numpy(array) for array in number_words.pairs(numbers))


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a target."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


def train(model: Seq2Seq, seed: int, n_steps: int, lr: float) -> list[float]:
    """The loss of every batch, in nats."""
    return shared.train(model, shared.batches(tensors, seed), n_steps, lr, nats)


def exact(model: Seq2Seq, numbers: Sequence[int]) -> float:
    """The percentage of numbers that the model, running freely, writes without any mistake."""
    return shared.exact(model, tensors(numbers))


def by_length(model: Seq2Seq, measure: Callable = exact, split: str = "test") -> list[float]:
    """A measure for each of DIGITS."""
    return shared.by_length(lambda numbers: measure(model, numbers), split)


@torch.no_grad()
def words(model: Seq2Seq, numbers: Sequence[int]) -> float:
    """The percentage of words, end mark included, that are likeliest after the right ones."""
    source, mask, inputs, targets = tensors(numbers)
    right = model(source, inputs, mask).argmax(-1).eq(targets)
    return 100 * right[targets != IGNORE].float().mean().item()


def shuffled(model: Seq2Seq, numbers: Sequence[int], seed: int = 0) -> float:
    """`exact` with each memory's rows, padding left where it is, in an order drawn by chance."""
    encode, generator = model.encode, torch.Generator().manual_seed(seed)

    def shuffle(source: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        memory, state = encode(source, mask)
        order = (torch.rand(mask.shape, generator=generator) + 2 * ~mask).argsort(1)
        return memory.take_along_dim(order[..., None], 1), state

    model.encode = shuffle
    try:
        return exact(model, numbers)
    finally:
        del model.encode


@torch.no_grad()
def arrows(model: Seq2Seq, pairs: Sequence[tuple[int, int]]) -> dict:
    """Do the weights point to the source token whose change changes the output?

    "answers": the percentage of pairs where the likeliest word follows the change, both before and
    after it. "points": the percentage where it does and the largest weight, in the step that writes
    the word, lies on the token that was changed. "late": where it lies on the token after it.
    """
    (source, mask, inputs, targets), second, (rows, changed, step) = shared.both(tensors, pairs)
    logits, weights = model(source, inputs, mask, return_weights=True)
    source_2, mask_2, inputs_2, targets_2 = second
    after = model(source_2, inputs_2, mask_2)
    right = (logits[rows, step].argmax(-1) == targets[rows, step]) & (
        after[rows, step].argmax(-1) == targets_2[rows, step]
    )
    where = weights[rows, step].argmax(-1)[right] - changed[right]
    shares = {"answers": right, "points": where == 0, "late": where == 1}
    return {
        name: round(100 * share.sum().item() / max(1, len(share)), 1)
        for name, share in shares.items()
    }


def trained(arm: Arm, seed: int, lr: float) -> dict:
    """Train one arm with one seed, measure it, and return its row."""
    model, begin = fresh(arm, seed), time.process_time()
    losses = train(model, seed, arm.n_steps, lr)
    seconds = time.process_time() - begin
    row = {"arm": arm.name, "seed": seed, "n_steps": arm.n_steps, "seconds": round(seconds, 1)}
    row |= {"loss": round(float(np.mean(losses[-50:])), 4), "exact": by_length(model)}
    row["words"], shown = by_length(model, words), unseen(9)[:SHOWN]
    row["said"] = [
        {"number": n, "said": " ".join(number_words.decode(ids, "en"))}
        for n, ids in zip(shown, shared.written(model, tensors(shown)).tolist(), strict=True)
    ]
    if model.attention is None:
        return row
    row["shuffled"] = round(shuffled(model, unseen(9)), 1)
    return row | {"arrows": {kind: arrows(model, swaps(kind)) for kind in KINDS}}


def rates(arms: Sequence[Arm] = SEARCHED) -> list[dict]:
    """For each arm the wrong answers in percent, mean over the lengths, on the validation numbers.

    Each of LRS is tried with the arm's own number of steps and the seed 0.
    """
    found = []
    for arm in arms:

        def wrong(lr: float, arm: Arm = arm) -> float:
            model = fresh(arm, 0)
            train(model, 0, arm.n_steps, lr)
            return round(100 - float(np.mean(by_length(model, split="valid"))), 1)

        found.append({"arm": arm.name, "rates": search(LRS, wrong, "wrong")})
    return found


def run(arms: Sequence[Arm] = ARMS, seeds: Sequence[int] = (0, 1, 2)) -> dict:
    """metrics: "runs", a row for each arm and seed; "exact" has a percentage for each of DIGITS."""
    found = rates()
    best = {row["arm"]: best_lr(row["rates"], "wrong") for row in found}
    lrs = {arm.name: best[arm.rate_of] for arm in arms}
    rows = [trained(arm, seed, lrs[arm.name]) for arm in arms for seed in seeds]
    config = {
        "embedding": EMBEDDING, "hidden": HIDDEN, "batch_size": shared.BATCH_SIZE,
        "max_norm": shared.MAX_NORM, "optimizer": "adam", "lrs": lrs, "digits": [*DIGITS],
        "per_length": shared.PER_LENGTH, "n_swaps": N_SWAPS, "arms": [asdict(arm) for arm in arms],
        "parameters": {arm.name: n_parameters(fresh(arm, 0)) for arm in arms},
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rates": found, "runs": rows}}
