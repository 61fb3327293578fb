"""Checks of behaviour: what a language model must do, whatever is inside it.

A check returns None when all is well. Otherwise it raises BehaviourError, an AssertionError whose
message names the first position that is wrong and, if it can, the mistake behind it. For arguments
that it cannot judge (a wrong rank, too few positions) it raises ValueError or TypeError. Arrays may
be numpy's or torch's; check_gradient also takes the Tensor of `models.autograd`.
"""

from unrolled.teaching.behaviour.answers import check_answer_score
from unrolled.teaching.behaviour.arrays import BehaviourError
from unrolled.teaching.behaviour.averages import check_perplexity
from unrolled.teaching.behaviour.beginnings import check_initial_loss
from unrolled.teaching.behaviour.experts import check_experts
from unrolled.teaching.behaviour.exponents import check_exponent
from unrolled.teaching.behaviour.models import check_batch, check_causal
from unrolled.teaching.behaviour.nearest import check_neighbours
from unrolled.teaching.behaviour.nucleus import check_top_p
from unrolled.teaching.behaviour.order import check_order, check_permutation
from unrolled.teaching.behaviour.padding import check_padding
from unrolled.teaching.behaviour.reading import check_cache, check_source
from unrolled.teaching.behaviour.shards import check_shards
from unrolled.teaching.behaviour.texts import check_round_trip
from unrolled.teaching.behaviour.units import check_units
from unrolled.teaching.behaviour.values import check_distribution, check_gradient, check_shift

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
