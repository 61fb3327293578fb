"""How a neural language model gets its row of the ladder: search, train over seeds, score."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from torch import nn
from unrolled.training.evaluate import bits, evaluate
from unrolled.training.fit import FitConfig, FitResult, fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded, windows
from unrolled_book.experiments.ladder import CORPUS, Course

SEEDS = (0, 1, 2)
SEARCH_STEPS = 1500
LOSS = "valid_bits_per_character"
PEEK = 30_000  # validation characters for the checks during training


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model and its training. lr None leaves the learning rate to the search."""

    name: str
    n_steps: int = 12_000
    batch_size: int = 32
    window: int = 64
    lr: float | None = None
    windows: dict = field(default_factory=dict)  # options of `evaluate`

    def model(self, vocab_size: int) -> nn.Module:
        """A fresh model from torch's generator; each kind of recipe defines it."""
        raise NotImplementedError(type(self).__name__)

    def build(self, vocab_size: int, seed: int) -> nn.Module:
        with seeded(seed):
            return self.model(vocab_size)

    def config(self, seed: int) -> FitConfig:
        return cosine(self.n_steps, self.lr, seed, eval_every=max(1, self.n_steps // 20))


def train(course: Course, recipe: Recipe, seed: int) -> tuple[nn.Module, FitResult]:
    """Train one model. It keeps the parameters that were best on the first validation characters.

    Raises DivergedError if the loss is no longer finite.
    """
    model = recipe.build(course.vocab_size, seed)
    size = {"batch_size": recipe.batch_size, "window": recipe.window}
    batches = windows(course.train, seed, **size)
    peek = course.held_out["valid"][0][:PEEK]

    def valid(model: nn.Module) -> float:
        scored = evaluate(model, peek, len(peek), start=course.newline, **recipe.windows)
        return scored.nats / len(peek)

    return model, fit(model, batches, recipe.config(seed), valid=valid, progress=False)


def search(course: Course, recipe: Recipe, lrs: Sequence[float]) -> list[dict]:
    """Validation bits per character of a short run for each learning rate; None if it diverged."""
    return _common.search(
        lrs, lambda lr: bits(train(course, replace(recipe, lr=lr), seed=100)[1].best_loss), LOSS
    )


def climb(
    recipe: Recipe,
    *,
    corpus: str = CORPUS,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = (),
    search_steps: int = SEARCH_STEPS,
    keep: Callable[[int, nn.Module], None] | None = None,
) -> dict:
    """A record's fields: one row, and a point of `curve` for each validation of each seed.

    The learning rate is the recipe's, or the best of `lrs` on validation after search_steps steps
    with another seed. The row's scores are means over the seeds. Its seconds are the processor time
    of one training on one thread, which does not depend on other programs. keep(seed, model) is
    called with every trained model.
    """
    course = Course.load(corpus)
    found = []
    if recipe.lr is None:
        found = search(course, replace(recipe, n_steps=search_steps), lrs)
        recipe = replace(recipe, lr=best_lr(found, LOSS))
    rows, curve = [], []
    for seed in seeds:
        begin = time.process_time()
        model, result = train(course, recipe, seed)
        seconds = time.process_time() - begin
        if keep is not None:
            keep(seed, model)
        history = result.history
        rows.append(course.row(recipe.name, model, parameters=n_parameters(model), seconds=seconds,
                               seeds=[seed], **recipe.windows))  # fmt: skip
        curve += [
            {"seed": seed, "step": step, "seconds": seconds * step / recipe.n_steps,
             LOSS: bits(loss)}
            for step, loss in zip(history.valid_step, history.valid_loss, strict=True)
        ]  # fmt: skip
    config = {
        "corpus": corpus, "recipe": asdict(recipe), "fit": recipe.config(0).to_dict(),
        "search": found, "search_steps": search_steps, "peek": PEEK,
    }  # fmt: skip
    return {"config": config, "seeds": list(seeds), "curve": curve,
            "metrics": {"rows": [over_seeds(rows)]}}  # fmt: skip


def over_seeds(rows: list[dict]) -> dict:
    """One row from one row per seed: means, and the single test scores."""
    mean = {
        key: float(np.mean([row[key] for row in rows]))
        for key in ("valid_bits_per_byte", "test_bits_per_byte", "test_perplexity", "seconds")
    }
    seeds = [seed for row in rows for seed in row["seeds"]]
    scores = [row["test_bits_per_byte"] for row in rows]
    return rows[0] | mean | {"seeds": seeds, "test_bits_per_byte_by_seed": scores}
