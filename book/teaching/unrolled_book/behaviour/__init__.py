"""Checks of behaviour: what a language model must do, whatever is inside it.

A check returns None when all is well. Otherwise it raises BehaviourError, an AssertionError whose
message names the first position that is wrong and, if it can, the mistake behind it. For arguments
that it cannot judge (a wrong rank, too few positions) it raises ValueError or TypeError. Arrays may
be numpy's or torch's; check_gradient also takes the Tensor of `models.autograd`.
"""

from unrolled_book.behaviour.answers import check_answer_score
from unrolled_book.behaviour.arrays import BehaviourError
from unrolled_book.behaviour.averages import check_perplexity
from unrolled_book.behaviour.beginnings import check_initial_loss
from unrolled_book.behaviour.experts import check_experts
from unrolled_book.behaviour.exponents import check_exponent
from unrolled_book.behaviour.models import check_batch, check_causal
from unrolled_book.behaviour.nearest import check_neighbours
from unrolled_book.behaviour.nucleus import check_top_p
from unrolled_book.behaviour.order import check_order, check_permutation
from unrolled_book.behaviour.padding import check_padding
from unrolled_book.behaviour.reading import check_cache, check_source
from unrolled_book.behaviour.shards import check_shards
from unrolled_book.behaviour.texts import check_round_trip
from unrolled_book.behaviour.units import check_units
from unrolled_book.behaviour.values import check_distribution, check_gradient, check_shift

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
    "check_source",
    "check_top_p",
    "check_units",
]
