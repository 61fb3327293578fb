"""The ladder's feed-forward row: Bengio's network of characters, with as many steps as the RNN.

About 30 minutes for the search and three seeds on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from unrolled_book.experiments._climb import LOSS, climb, search
from unrolled_book.experiments._climb_feedforward import FeedforwardRecipe, Shape
from unrolled_book.experiments.ladder import CORPUS, Course

# As many hidden units, batches and steps as the RNN's row.
RECIPE = FeedforwardRecipe(name="feed-forward", hidden_size=512)
SHAPES = (
    Shape(context_length=6, width=32),
    Shape(context_length=8, width=32),
    Shape(context_length=10, width=32),
    Shape(context_length=12, width=32),
    Shape(context_length=12, width=16),
    Shape(context_length=8, width=64),
    Shape(context_length=8, width=32, direct_connections=True),
)
SHAPE_LR, SHAPE_STEPS = 8e-3, 1000  # the same for all shapes
LRS = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)


def shaped(recipe: FeedforwardRecipe, shape: Shape) -> FeedforwardRecipe:
    """The recipe with this shape, and with its size in the name."""
    size = f"{shape.context_length} characters, {recipe.hidden_size} units"
    return replace(recipe, name=f"{recipe.name} ({size})", shape=shape)


def run(
    recipe: FeedforwardRecipe = RECIPE,
    *,
    shapes: Sequence[Shape] = SHAPES,
    shape_steps: int = SHAPE_STEPS,
    lrs: Sequence[float] = LRS,
    **options,
) -> dict:
    """The row, its searches and its curves; see `climb`.

    The shape is the best of `shapes` on validation after shape_steps steps at one learning rate,
    with another seed; then `climb` searches the rate. config: "shapes" has what was found.
    """
    course, found = Course.load(options.get("corpus", CORPUS)), []
    for shape in shapes:
        short = replace(recipe, shape=shape, n_steps=shape_steps)
        (score,) = search(course, short, [SHAPE_LR])
        found.append(asdict(shape) | score)
    best = min(range(len(shapes)), key=lambda i: found[i][LOSS])
    result = climb(shaped(recipe, shapes[best]), lrs=lrs, **options)
    result["config"] |= {"shapes": found, "shape_steps": shape_steps}
    return result
