"""The ladder's Transformer row: as many parameters as the LSTM's, and as much processor time.

About 60 minutes for three seeds on one core. The first seed's model ships with the record, in half
precision: `trained.load("ladder_transformer")`.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrolled_book.experiments._climb import climb
from unrolled_book.experiments._climb_transformer import TransformerRecipe

# A step takes more than twice as long as the LSTM's with as many tokens, so there are fewer.
RECIPE = TransformerRecipe(
    name="Transformer (4 layers of 128)", d_model=128, n_layers=4, n_heads=4, d_ff=296,
    n_steps=5000, batch_size=16, window=128, windows={"context_length": 128, "overlap": 64},
)  # fmt: skip
LRS = (2e-3, 4e-3, 8e-3)


def run(
    recipe: TransformerRecipe = RECIPE,
    *,
    lrs: Sequence[float] = LRS,
    search_steps: int = 1000,
    **options,
) -> dict:
    """The row, its search over learning rates and its curves; see `climb`. `model`: the first
    seed's, which the recorded run ships."""
    models = {}
    found = climb(recipe, lrs=lrs, search_steps=search_steps, keep=models.setdefault, **options)
    return found | {"model": models[found["seeds"][0]]}
