"""Chapter 8: does a long window gain more from more steps?

The networks of `c08_context` with one word and with six, trained for as many steps as the network
of `c08_unseen`, which reads three, the rates searched at that length. Eight minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrolled_book.experiments import c08_context, c08_unseen

LENGTHS = (1, 6)
N_STEPS = c08_unseen.NETS["net"].n_steps


def run(
    seeds: Sequence[int] = c08_context.SEEDS,
    lengths: Sequence[int] = LENGTHS,
    lrs: Sequence[float] = c08_context.LRS,
    n_steps: int = N_STEPS,
) -> dict:
    """What `c08_context` gives for these lengths, the rates searched with all steps."""
    return c08_context.run(seeds, lengths, lrs, n_steps=n_steps, search_steps=n_steps)
