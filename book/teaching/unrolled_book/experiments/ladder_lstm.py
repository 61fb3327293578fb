"""The ladder's LSTM row: a long short-term memory over characters.

About 60 minutes for three seeds on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrolled_book.experiments._climb import climb
from unrolled_book.experiments._climb_recurrent import RecurrentRecipe

RECIPE = RecurrentRecipe(name="LSTM (384 units)", cell="lstm", hidden_size=384)
LRS = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)


def run(recipe: RecurrentRecipe = RECIPE, *, lrs: Sequence[float] = LRS, **options) -> dict:
    """The row, its search over learning rates and its curves; see `climb`."""
    return climb(recipe, lrs=lrs, **options)
