"""Masks: who may attend to whom, by loops, and by what they must have in common."""

import torch
from comparing import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.masks import causal_mask, combine, padding_mask, prefix_mask, window_mask

sizes = st.integers(1, 7).flatmap(lambda T: st.tuples(st.just(T), st.integers(T, 11)))


@settings(max_examples=20, deadline=None)
@given(sizes, st.integers(1, 13), st.integers(0, 7))
def test_masks_agree_with_their_rules_and_pieces_have_the_rows_of_the_whole(size, window, prefix):
    T, S = size
    behind = torch.tensor([[i + S - T - j for j in range(S)] for i in range(T)])
    assert torch.equal(causal_mask(T, S), behind >= 0)
    assert torch.equal(window_mask(T, S, window=window), (behind >= 0) & (behind < window))
    assert torch.equal(window_mask(T, S, window=window), window_mask(S, window=window)[-T:])
    if prefix <= T:
        expected = [[j <= i or j < prefix for j in range(T)] for i in range(T)]
        assert torch.equal(prefix_mask(T, prefix), torch.tensor(expected))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([(5, 7), (7,), (3, 1, 1, 7), (3, 2, 5, 7), None]), max_size=4))
def test_a_combination_allows_what_all_of_its_masks_allow_and_leaves_them_as_they_are(shapes):
    masks = [None if shape is None else torch.rand(shape) < 0.7 for shape in shapes]
    given = [mask.expand(3, 2, 5, 7).clone() for mask in masks if mask is not None]
    result = combine(*masks)
    if not given:
        assert result is None
        return
    assert torch.equal(result.expand(3, 2, 5, 7), torch.stack(given).all(0))
    after = [mask.expand(3, 2, 5, 7) for mask in masks if mask is not None]
    assert all(map(torch.equal, after, given))


def test_masks_lie_on_the_device_asked_for(device):
    masks = [
        causal_mask(3, 5, device=device),
        window_mask(3, 5, window=2, device=device),
        prefix_mask(5, 2, device=device)[:3],
        padding_mask(torch.ones(2, 5, dtype=torch.bool, device=device)),
    ]
    assert combine(*masks).device.type == device
    assert all(mask.dtype == torch.bool for mask in masks)


test_what_is_no_mask_is_refused = refuses(
    (lambda: causal_mask(5, 3), "T = 5 queries and S = 3 keys"),
    (lambda: prefix_mask(3, 4), "prefix must be at least 0 and at most 3, got 4"),
    (lambda: combine(torch.ones(3)), TypeError, "True = may attend; got torch.float32"),
    (lambda: combine(causal_mask(3), causal_mask(5)), r"\(3, 3\), \(5, 5\) do not"),
)
