"""Checks of behaviour: what a language model must do, whatever is inside it.

A check returns None when all is well. Otherwise it raises BehaviourError, an AssertionError whose
message names the first position that is wrong and, if it can, the mistake behind it. For arguments
that it cannot judge (a wrong rank, too few positions) it raises ValueError or TypeError. Arrays may
be numpy's or torch's; check_gradient also takes the Tensor of `models.autograd`.
"""

from unrolled_book.behaviour.averages import check_perplexity, check_shards
from unrolled_book.behaviour.causality import check_cache, check_causal
from unrolled_book.behaviour.exponents import check_exponent
from unrolled_book.behaviour.order import check_order, check_permutation, check_source
from unrolled_book.behaviour.padding import check_batch, check_padding
from unrolled_book.behaviour.probabilities import (
    check_answer_score,
    check_distribution,
    check_top_p,
)
from unrolled_book.behaviour.probe import BehaviourError
from unrolled_book.behaviour.splits import check_split
from unrolled_book.behaviour.steps import check_small_steps
from unrolled_book.behaviour.texts import check_neighbours, check_round_trip, check_shift
from unrolled_book.behaviour.training import (
    check_experts,
    check_gradient,
    check_initial_loss,
    check_units,
)

__all__ = [
    "BehaviourError",
    "check_answer_score",
    "check_batch",
    "check_cache",
    "check_causal",
    "check_distribution",
    "check_experts",
    "check_exponent",
    "check_gradient",
    "check_initial_loss",
    "check_neighbours",
    "check_order",
    "check_padding",
    "check_permutation",
    "check_perplexity",
    "check_round_trip",
    "check_shards",
    "check_shift",
    "check_small_steps",
    "check_source",
    "check_split",
    "check_top_p",
    "check_units",
]
