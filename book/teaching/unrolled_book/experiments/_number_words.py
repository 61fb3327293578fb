"""What chapters 13 and 19 share: how translators of number words are fed, trained and tested.

`tensors` is a chapter's own: source, source_mask, inputs and targets of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data.batches import IGNORE
from unrolled.generation.generate import generate

from unrolled_book.tasks import number_words

BATCH_SIZE, MAX_NORM = 64, 1.0
DIGITS = tuple(range(3, number_words.MAX_DIGITS + 1))  # tested; of shorter ones there are few
PER_LENGTH, N_SWAPS = 150, 100  # a length, a kind of digit
KINDS = "hundreds", "tens", "units"
TRAINED = range(2, number_words.MAX_DIGITS + 1)

Batch = tuple[Tensor, ...]


def batches(tensors: Callable, seed: int, digits: Sequence[int] = TRAINED) -> Iterator[Batch]:
    """Training numbers without end; all of a batch have the same number of digits."""
    rng = np.random.default_rng(seed)
    of_length = {d: np.array(number_words.numbers("train", digits=(d,))) for d in digits}
    while True:
        yield tensors(rng.choice(of_length[int(rng.choice(digits))], BATCH_SIZE).tolist())


def train(
    model: nn.Module,
    numbers: Iterable[Batch],
    n_steps: int,
    lr: float,
    nats: Callable[[Tensor, Tensor], Tensor],
    factor: Callable[[int], float] = lambda step: 1.0,
) -> list[float]:
    """Adam with clipping, under teacher forcing. Returns the loss of every batch, in nats.

    nats: the mean loss of logits and targets. factor: of the learning rate at a step.
    """
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for _, (source, mask, inputs, targets) in zip(range(n_steps), numbers, strict=False):
        loss = nats(model(source, inputs, mask), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def written(model: nn.Module, batch: Batch) -> Tensor:
    """What the model, running freely, writes for each source, within the length of the targets."""
    source, mask, inputs, targets = batch
    return generate(
        model, inputs[:, :1], targets.shape[1], source=source, source_mask=mask,
        stop=number_words.END, temperature=0,
    )[:, 1:]  # fmt: skip


def exact(model: nn.Module, batch: Batch) -> float:
    """The percentage of sources for which it writes the target without any mistake."""
    targets, said = batch[3], written(model, batch)
    said = F.pad(said, (0, targets.shape[1] - said.shape[1]), value=number_words.END)
    return 100 * (said.eq(targets) | targets.eq(IGNORE)).all(1).float().mean().item()


def unseen(digits: int, split: str = "test") -> tuple[int, ...]:
    """Up to PER_LENGTH unseen numbers of a length."""
    return number_words.numbers(split, digits=(digits,))[:PER_LENGTH]


def by_length(measure: Callable[[Sequence[int]], float], split: str = "test") -> list[float]:
    """A measure of unseen numbers for each of DIGITS."""
    return [round(measure(unseen(d, split)), 1) for d in DIGITS]


def swaps(*kinds: str, seed: int = 0, n: int = N_SWAPS) -> list[tuple[int, int]]:
    """Pairs of numbers of nine digits that differ in one digit, of one of these KINDS.

    All digits are 2 or more, so one German morpheme and one English word change, and nothing moves.
    """
    rng, places = np.random.default_rng(seed), [KINDS.index(kind) for kind in kinds]
    found = []
    for _ in range(n):
        digits = rng.integers(2, 10, size=9)
        other = digits.copy()
        place = 3 * rng.integers(3) + rng.choice(places)
        other[place] = rng.choice([d for d in range(2, 10) if d != digits[place]])
        found.append(tuple(int("".join(map(str, row))) for row in (digits, other)))
    return found


def both(tensors: Callable, pairs: Sequence[tuple[int, int]]) -> tuple[Batch, Batch, Batch]:
    """(the first numbers, the second, (row, token of the source, word of the target that changes))
    of `swaps`."""
    first, second = (tensors(numbers) for numbers in zip(*pairs, strict=True))
    changed, step = ((first[k] != second[k]).int().argmax(1) for k in (0, 3))
    return first, second, (torch.arange(len(pairs)), changed, step)
