"""Chapter 20: the ladder's LSTM on as many tokens as its Transformer, with a shorter schedule.

About 17 minutes for three seeds on one core.
"""

from __future__ import annotations

from dataclasses import replace

from unrolled_book.experiments._climb import climb
from unrolled_book.experiments._climb_recurrent import RecurrentRecipe
from unrolled_book.experiments.ladder_lstm import RECIPE

# 5,000 steps of 2,048 tokens, at the learning rate of the LSTM's row.
SHORT = replace(RECIPE, n_steps=5000, lr=1.6e-2)


def run(recipe: RecurrentRecipe = SHORT, **options) -> dict:
    """The row and its curves; see `climb`."""
    return climb(recipe, **options)
