"""Chapter 20: the ladder's LSTM on as many characters as the ladder's Transformer has read.

The LSTM's own row reads more than twice as many in the same time, and half way its learning rate
has not come down: so a run of its own, with a schedule that ends there. About 17 minutes for three
seeds on one core; it needs the records of both rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from unrolled.teaching import record
from unrolled.teaching.experiments._climb import SEEDS, over_seeds, train
from unrolled.teaching.experiments._climb_recurrent import RecurrentRecipe
from unrolled.teaching.experiments.ladder_lstm import RECIPE
from unrolled.teaching.ladder import CORPUS, Course
from unrolled.training.metrics import bits


def shorter() -> RecurrentRecipe:
    """The LSTM's recipe at the learning rate of its record, for the Transformer's characters."""
    read = record.load("ladder_transformer")["config"]["recipe"]
    n_characters = read["n_steps"] * read["batch_size"] * read["window"]
    lr = record.load("ladder_lstm")["config"]["recipe"]["lr"]
    n_steps = n_characters // (RECIPE.batch_size * RECIPE.window)
    return replace(RECIPE, name="LSTM, fewer characters", n_steps=n_steps, lr=lr)


def run(
    recipe: RecurrentRecipe | None = None, *, corpus: str = CORPUS, seeds: Sequence[int] = SEEDS
) -> dict:
    """What the record holds: a row as the ladder has them, and the curves; see `climb`."""
    recipe, course = recipe or shorter(), Course.load(corpus)
    rows, curve = [], []
    for seed in seeds:
        begin = time.process_time()
        model, result = train(course, recipe, seed)
        seconds = time.process_time() - begin
        parameters = sum(p.numel() for p in model.parameters())
        rows.append(
            course.row(recipe.name, model, parameters=parameters, seconds=seconds, seeds=[seed])
        )
        history = result.history
        curve += [
            {"seed": seed, "step": step, "seconds": seconds * step / recipe.n_steps,
             "valid_bits_per_character": bits(loss)}
            for step, loss in zip(history.valid_step, history.valid_loss, strict=True)
        ]  # fmt: skip
    return {"config": {"corpus": corpus, "recipe": asdict(recipe)}, "seeds": [*seeds],
            "curve": curve, "metrics": {"rows": [over_seeds(rows)]}}  # fmt: skip
