"""The ladder's RNN row: an Elman network of characters, tuned like the LSTM.

About 40 minutes for three seeds on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrolled_book.experiments._climb import climb
from unrolled_book.experiments._climb_recurrent import RecurrentRecipe

# One step takes as many seconds as the LSTM's, so the two rows have equal time.
RECIPE = RecurrentRecipe(name="RNN (Elman, 512 units)", cell="elman", hidden_size=512)
LRS = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)


def run(recipe: RecurrentRecipe = RECIPE, *, lrs: Sequence[float] = LRS, **options) -> dict:
    """The row, its search over learning rates and its curves; see `climb`."""
    return climb(recipe, lrs=lrs, **options)
