"""The ladder's RNN row: an Elman network of characters, tuned as the LSTM's row is.

About 40 minutes for three seeds on one core.
"""

from __future__ import annotations

from unrolled.teaching.experiments._ladder_recurrent import Recipe, climb

# As many seconds for an update as the LSTM's row takes: that is what is held equal.
RECIPE = Recipe(name="RNN (Elman, 512 units)", cell="elman", hidden_size=512)


def run(recipe: Recipe = RECIPE, **options) -> dict:
    """The row, its search over learning rates and its curves; see `climb`."""
    return climb(recipe, **options)
