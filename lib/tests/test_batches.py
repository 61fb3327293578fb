"""Windows of a text, and padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import (
    IGNORE,
    ContiguousBatches,
    pad,
    random_batch,
    shuffled_batches,
    targets_at_end,
)
from unrolled_book.behaviour import BehaviourError, check_shift

modest = settings(max_examples=60, deadline=None)


@st.composite
def streams(draw):
    """A text 0, 1, 2, … (a token names its place), a batch size and a window that fit."""
    batch_size, window = draw(st.integers(1, 7)), draw(st.integers(1, 11))
    n = batch_size * window + 1 + draw(st.integers(0, 60))
    return np.arange(n), batch_size, window


def read(stream) -> tuple[ContiguousBatches, list]:
    tokens, batch_size, window = stream
    data = ContiguousBatches(tokens, batch_size=batch_size, seq_len=window)
    return data, list(data)


@modest
@given(streams())
def test_every_pair_but_fewer_than_a_batch_at_the_end_comes_exactly_once(stream):
    data, batches = read(stream)
    pairs = [p for x, y in batches for p in np.stack([x, y], axis=-1).reshape(-1, 2).tolist()]
    n_pairs = data.batch_size * data.row_length
    assert sorted(pairs) == [[i, i + 1] for i in range(n_pairs)]
    assert 0 <= len(stream[0]) - 1 - n_pairs < data.batch_size


@modest
@given(streams())
def test_each_row_of_a_batch_goes_on_where_the_batch_before_it_ended(stream):
    data, batches = read(stream)
    assert len(batches) == len(data)
    for (_, before), (after, _) in pairwise(batches):
        assert np.array_equal(after[:, 0], before[:, -1])
    first = batches[0][0][:, 0]
    assert np.array_equal(first, np.arange(data.batch_size) * data.row_length)


@modest
@given(streams())
def test_batches_have_the_stated_shapes_and_only_the_last_may_be_narrow(stream):
    data, batches = read(stream)
    for x, y in batches[:-1]:
        assert x.shape == y.shape == (data.batch_size, data.seq_len)
    width = data.row_length % data.seq_len or data.seq_len
    assert batches[-1][0].shape == batches[-1][1].shape == (data.batch_size, width)
    assert all(a.dtype == np.int64 for batch in batches for a in batch)


@modest
@given(streams(), st.integers(0, 2**32 - 1))
def test_the_targets_are_the_next_tokens(stream, seed):
    tokens, batch_size, window = stream
    rng = np.random.default_rng(seed)
    batches = read(stream)[1]
    batches.append(random_batch(rng, tokens, batch_size=batch_size, seq_len=window))
    for inputs, targets in batches:
        assert np.array_equal(targets, inputs + 1)  # the tokens are their places
        if inputs.shape[1] > 1:
            check_shift(inputs, targets)


def test_the_check_of_the_shift_can_fail_on_these_batches():
    inputs, targets = next(iter(ContiguousBatches(np.arange(23), batch_size=2, seq_len=5)))
    with pytest.raises(BehaviourError, match="every answer stands in the question"):
        check_shift(inputs, inputs)
    with pytest.raises(BehaviourError, match="the target at"):
        check_shift(inputs, targets[::-1])


def test_contiguous_batches_by_hand():
    data = ContiguousBatches([10, 11, 12, 13, 14, 15, 16, 17], batch_size=2, seq_len=2)
    assert (len(data), data.row_length) == (2, 3)
    (x0, y0), (x1, y1) = data
    assert x0.tolist() == [[10, 11], [13, 14]]
    assert y0.tolist() == [[11, 12], [14, 15]]
    assert (x1.tolist(), y1.tolist()) == ([[12], [15]], [[13], [16]])


def test_reading_again_starts_again_and_what_comes_out_can_be_written_to():
    source = np.arange(30)
    data = ContiguousBatches(source, batch_size=3, seq_len=4)
    first = [x.tolist() for x, _ in data]
    for x, y in data:
        x += 100
        y += 100
    source += 1000
    assert [x.tolist() for x, _ in data] == first


def test_torch_takes_the_arrays_as_they_are():
    rng, text = np.random.default_rng(0), np.arange(40, dtype=np.uint8)
    arrays = [*random_batch(rng, text, batch_size=3, seq_len=5), pad([[1], [2, 3]], 0).tokens]
    arrays += next(iter(ContiguousBatches(text, batch_size=3, seq_len=5)))
    arrays += [targets_at_end(pad([[1], [2, 3]], 0).mask, [0, 1])]
    for array in arrays:
        assert torch.from_numpy(array).dtype == torch.int64
        assert array.flags.writeable


def test_a_torch_tensor_of_tokens_is_read_as_well():
    data = ContiguousBatches(torch.arange(9), batch_size=2, seq_len=2)
    assert next(iter(data))[0].tolist() == [[0, 1], [4, 5]]


def test_a_random_batch_is_decided_by_the_seed_and_takes_all_from_the_generator():
    def draw(seed, times):
        rng = np.random.default_rng(seed)
        return [random_batch(rng, np.arange(97), batch_size=5, seq_len=7) for _ in range(times)]

    assert np.array_equal(draw(3, 2), draw(3, 2))
    assert not np.array_equal(draw(3, 1), draw(4, 1))
    once, twice = draw(3, 2)
    assert not np.array_equal(once, twice)


def test_random_batches_start_anywhere_from_first_to_last_place_alike():
    text, window = np.arange(13), 5  # 13 − 5 = 8 places
    rng = np.random.default_rng(2)
    inputs, targets = random_batch(rng, text, batch_size=8000, seq_len=window)
    counts = np.bincount(inputs[:, 0], minlength=8)
    assert len(counts) == 8
    assert abs(counts - 1000).max() < 150  # five standard deviations
    assert targets.max() == 12


def test_a_window_may_fill_the_text_exactly():
    text = np.arange(6)
    data = ContiguousBatches(text, batch_size=1, seq_len=5)
    ((x, y),) = data
    (a, b) = random_batch(np.random.default_rng(0), text, batch_size=2, seq_len=5)
    assert x.tolist() == [[0, 1, 2, 3, 4]] == a[:1].tolist()
    assert y.tolist() == [[1, 2, 3, 4, 5]] == b[1:].tolist()


def both(tokens, **sizes):
    return [
        lambda: ContiguousBatches(tokens=tokens, **sizes),
        lambda: random_batch(np.random.default_rng(0), tokens, **sizes),
    ]


@pytest.mark.parametrize("size", ["batch_size", "seq_len"])
def test_sizes_below_one_or_broken_are_refused(size):
    for use in both(np.arange(50), **({"batch_size": 2, "seq_len": 3} | {size: 0})):
        with pytest.raises(ValueError, match=f"{size} must be at least 1, got 0"):
            use()
    for wrong in (2.0, True):
        for use in both(np.arange(50), **({"batch_size": 2, "seq_len": 3} | {size: wrong})):
            with pytest.raises(TypeError, match=f"{size} must be an integer, got {wrong}"):
                use()


def test_a_text_that_is_too_short_is_refused_with_the_numbers():
    with pytest.raises(ValueError, match=r"3 × 5 tokens and a last target need 16 tokens, got 15"):
        ContiguousBatches(np.arange(15), batch_size=3, seq_len=5)
    assert len(ContiguousBatches(np.arange(16), batch_size=3, seq_len=5)) == 1
    with pytest.raises(ValueError, match=r"1 × 5 tokens and a last target need 6 tokens, got 5"):
        random_batch(np.random.default_rng(0), np.arange(5), batch_size=3, seq_len=5)
    with pytest.raises(ValueError, match="got 0"):
        ContiguousBatches([], batch_size=1, seq_len=1)


@pytest.mark.parametrize(
    ("tokens", "given"),
    [
        (np.arange(50.0), r"float64 of shape \(50,\)"),
        (np.arange(50).reshape(5, 10), r"int64 of shape \(5, 10\)"),
        (np.ones(50, bool), r"bool of shape \(50,\)"),
    ],
)
def test_what_is_no_row_of_integers_is_refused(tokens, given):
    for use in both(tokens, batch_size=2, seq_len=3):
        with pytest.raises(TypeError, match=rf"expected integers \(n,\), got {given}"):
            use()


rows_of_tokens = st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1, max_size=6)


@modest
@given(rows_of_tokens, st.integers(-1, 10))
def test_padding_keeps_every_token_and_marks_exactly_the_filling(sequences, pad_id):
    padded = pad(sequences, pad_id)
    shape = (len(sequences), max(map(len, sequences)))
    assert padded.tokens.shape == padded.mask.shape == shape
    assert (padded.tokens.dtype, padded.mask.dtype) == (np.int64, np.bool_)
    assert (padded.tokens[~padded.mask] == pad_id).all()
    for row, mask, sequence in zip(*padded, sequences, strict=True):
        assert row[: mask.sum()].tolist() == row[mask].tolist() == sequence


def test_padding_by_hand():
    padded = pad([[7], [], [5, 6, 7]], 0)
    assert padded.tokens.tolist() == [[7, 0, 0], [0, 0, 0], [5, 6, 7]]
    assert padded.mask.tolist() == [[True, False, False], [False] * 3, [True] * 3]


def test_labels_stand_at_the_last_token_of_their_row_and_torch_leaves_the_rest_out():
    mask = pad([[1], [1, 1, 1], [1, 1]], 0).mask
    targets = targets_at_end(mask, [4, 0, 2])
    assert targets.tolist() == [[4, -100, -100], [-100, -100, 0], [-100, 2, -100]]
    logits = torch.randn(3, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.from_numpy(targets.ravel())
    )
    asked = logits[[0, 1, 2], [0, 2, 1]].log_softmax(dim=-1)[[0, 1, 2], [4, 0, 2]]
    torch.testing.assert_close(loss, -asked.mean(), rtol=0, atol=1e-14)
    assert torch.nn.CrossEntropyLoss().ignore_index == IGNORE


def test_padding_refuses_what_it_cannot_pad():
    with pytest.raises(ValueError, match="no sequence to pad"):
        pad([], 0)
    with pytest.raises(TypeError, match=r"got float64 of shape \(1,\)"):
        pad([[1], [2.5]], 0)
    with pytest.raises(TypeError, match=r"got int64 of shape \(1, 2\)"):
        pad([[1], [[2, 3]]], 0)
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        targets_at_end(pad([[7], []], 0).mask, [0, 1])
    for pad_id in (np.nan, 1.5, None):
        with pytest.raises(TypeError, match="pad_id must be an integer, got "):
            pad([[1], [2, 3]], pad_id)
    with pytest.raises(ValueError, match=r"got bool \(2, 1\) and \(3,\)"):
        targets_at_end(pad([[7], [8]], 0).mask, [0, 1, 1])
    with pytest.raises(ValueError, match="got int64"):
        targets_at_end(np.ones((2, 3), int), [0, 1])


@modest
@given(st.integers(1, 50), st.integers(1, 13), st.integers(0, 99))
def test_one_pass_holds_every_example_once(n, batch_size, seed):
    rows = list(shuffled_batches(np.random.default_rng(seed), n, batch_size))
    assert [len(row) for row in rows[:-1]] == [batch_size] * (len(rows) - 1)
    assert 1 <= len(rows[-1]) <= batch_size
    assert sorted(np.concatenate(rows).tolist()) == list(range(n))
    again = list(shuffled_batches(np.random.default_rng(seed), n, batch_size))
    assert np.array_equal(np.concatenate(rows), np.concatenate(again))


def test_a_pass_is_in_random_order_drawn_at_the_call():
    rng = np.random.default_rng(5)
    first, second = shuffled_batches(rng, 101, 101), shuffled_batches(rng, 101, 101)
    after = rng.integers(1000)
    (a,), (b,) = first, second
    assert a.tolist() != list(range(101))
    assert a.tolist() != b.tolist()
    twin = np.random.default_rng(5)
    assert (twin.permutation(101).tolist(), twin.permutation(101).tolist()) == (
        a.tolist(),
        b.tolist(),
    )
    assert twin.integers(1000) == after
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        shuffled_batches(rng, 3, 0)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        shuffled_batches(rng, 0, 3)
