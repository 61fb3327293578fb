"""Chapter 12: the ladder's LSTM with larger learning rates to choose from.

The best rate of its row is at the edge of the rates tried. This search continues from there and
trains in full at the rate it prefers. About 60 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrolled_book.experiments._climb import climb
from unrolled_book.experiments._climb_recurrent import RecurrentRecipe
from unrolled_book.experiments.ladder_lstm import RECIPE

LRS = (4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)


def run(recipe: RecurrentRecipe = RECIPE, *, lrs: Sequence[float] = LRS, **options) -> dict:
    """The row, its search over learning rates and its curves; see `climb`."""
    return climb(recipe, lrs=lrs, **options)
