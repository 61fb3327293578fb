"""The check of top-p accepts every right cut and names the wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled.generation.samplers import top_k_filter, top_p_filter
from unrolled_book.behaviour import BehaviourError, check_top_p


def cut(logits, p, *, keep=lambda mass, probs, p: mass - probs < p, back=True):
    order = np.argsort(-logits, axis=-1)
    probs = np.exp(np.take_along_axis(logits, order, -1))
    probs /= probs.sum(-1, keepdims=True)
    kept = keep(probs.cumsum(-1), probs, p)
    if back:
        kept = np.take_along_axis(kept, np.argsort(order, axis=-1), -1)
    return np.where(kept, logits, -np.inf)


def test_a_right_cut_passes_in_numpy_and_in_torch_float32():
    check_top_p(cut)
    check_top_p(top_p_filter, torch.zeros(1))
    check_top_p(top_p_filter, torch.zeros(1, dtype=torch.float64))


def test_a_cut_may_move_all_logits_and_change_its_argument():
    def normalised(logits, p):
        logits[:] = top_p_filter(logits, p)
        return logits.log_softmax(-1)

    check_top_p(normalised, torch.zeros(1))


def keep_one(mass, probs, p):
    kept = mass <= p
    kept[:, 0] = True
    return kept


@pytest.mark.parametrize(
    ("keep", "why"),
    [
        (lambda mass, probs, p: mass <= p, "Nothing is left: is the token that crosses p lost"),
        (keep_one, "Is the token that crosses p lost"),
        (lambda mass, probs, p: mass - 2 * probs < p, "Is one too many kept"),
    ],
)
def test_a_wrong_edge_is_named(keep, why):
    with pytest.raises(BehaviourError, match=why):
        check_top_p(lambda logits, p: cut(logits, p, keep=keep))


def test_a_mask_left_in_sorted_order_is_named():
    with pytest.raises(BehaviourError, match="not put back"):
        check_top_p(lambda logits, p: cut(logits, p, back=False))


def same_number(logits, p):
    """As many in every row as in the first."""
    n = int(top_p_filter(logits, p)[0].isfinite().sum())
    return top_k_filter(logits, n)


def without_softmax(logits, p):
    """exp(z) taken for the probability."""
    order = logits.argsort(-1, descending=True)
    P = logits.exp().gather(-1, order)
    cut = (P.cumsum(-1) - P >= p).scatter(-1, order, P.cumsum(-1) - P >= p)
    return logits.masked_fill(cut, -torch.inf)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda logits, p: logits, "the tokens"),
        (lambda logits, p: top_p_filter(logits, p - 0.04), "the tokens"),
        (lambda logits, p: top_p_filter(logits, p + 0.02), "the tokens"),
        (lambda logits, p: top_p_filter(logits / 0.9, p) * 0.9, "the tokens"),
        (lambda logits, p: top_k_filter(top_p_filter(logits, p), 5), "the tokens"),
        (lambda logits, p: same_number(logits, p), "the tokens"),
        (lambda logits, p: without_softmax(logits, p), "the tokens"),
        (lambda logits, p: top_k_filter(logits, 2), "the tokens"),
        (lambda logits, p: top_p_filter(logits, p) * 2, "changed their distances"),
        (lambda logits, p: top_p_filter(logits, p)[:1], "came back as"),
        (lambda logits, p: top_p_filter(logits, p) * 0, "gives NaN"),
    ],
)
def test_other_mistakes_are_found(wrong, why):
    with pytest.raises(BehaviourError, match=why):
        check_top_p(wrong, torch.zeros(1))
