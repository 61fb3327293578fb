"""The ladder's LSTM row: a long short-term memory over characters.

About 60 minutes for three seeds on one core.
"""

from __future__ import annotations

from unrolled.teaching.experiments._ladder_recurrent import Recipe, climb

RECIPE = Recipe(name="LSTM (384 units)", cell="lstm", hidden_size=384)


def run(recipe: Recipe = RECIPE, **options) -> dict:
    """The row, its search over learning rates and its curves; see `climb`."""
    return climb(recipe, **options)
