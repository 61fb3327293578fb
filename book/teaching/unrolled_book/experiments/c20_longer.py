"""Chapter 20: the ladder's Transformer and LSTM trained for twice as many steps.

Each keeps the learning rate of its row. About 80 minutes for three seeds of both, on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

from unrolled_book.experiments import ladder_lstm, ladder_transformer
from unrolled_book.experiments._climb import Recipe, climb

# Twice the steps of the rows, so about twice their time; again equal for the two.
RECIPES = (
    replace(ladder_transformer.RECIPE, n_steps=10_000, lr=4e-3),
    replace(ladder_lstm.RECIPE, n_steps=24_000, lr=1.6e-2),
)


def run(recipes: Sequence[Recipe] = RECIPES, **options) -> dict:
    """A row for each recipe, and the curves with the model's name; see `climb`. One process each.

    Two trainings side by side slow each other down. Compare their seconds with each other only, not
    with other records.
    """
    with ProcessPoolExecutor(len(recipes), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(partial(climb, **options), recipes))
    return {
        "config": {
            recipe.name: each["config"] for recipe, each in zip(recipes, found, strict=True)
        },
        "seeds": found[0]["seeds"],
        "curve": [
            {"model": recipe.name} | point
            for recipe, each in zip(recipes, found, strict=True)
            for point in each["curve"]
        ],
        "metrics": {"rows": [row for each in found for row in each["metrics"]["rows"]]},
    }
