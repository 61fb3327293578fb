"""Windows of a text, and padding."""

import numpy as np
import torch
from comparing import close, refuses
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

modest = settings(max_examples=60, deadline=None)
DTYPE = torch.float64


@st.composite
def streams(draw):
    """A text 0, 1, 2, … (a token names its position), a batch size and a window that fit."""
    batch_size, window = draw(st.integers(1, 7)), draw(st.integers(1, 11))
    n = batch_size * window + 1 + draw(st.integers(0, 60))
    return np.arange(n), {"batch_size": batch_size, "seq_len": window}


@modest
@given(streams(), st.sampled_from([list, np.array, torch.tensor]))
def test_rows_read_side_by_side_hold_every_pair_once_and_go_on_where_they_ended(stream, kind):
    """Fewer than a batch of pairs are left out at the end; only the last batch may be narrow."""
    tokens, sizes = stream
    data = ContiguousBatches(kind(tokens), **sizes)
    batches = list(data)
    B, T, L = data.batch_size, data.seq_len, data.row_length
    widths = [T] * (len(data) - 1) + [L % T or T]
    assert [x.shape for x, _ in batches] == [(B, width) for width in widths]
    assert [y.shape for _, y in batches] == [(B, width) for width in widths]
    assert all(a.dtype == np.int64 for batch in batches for a in batch)
    x, y = (np.concatenate(parts, axis=1) for parts in zip(*batches, strict=True))
    assert np.array_equal(x.ravel(), np.arange(B * L))
    assert np.array_equal(y, x + 1)
    assert 0 <= len(tokens) - 1 - B * L < B


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


def test_random_batches_start_at_every_position_alike_as_the_seed_decides():
    def draw(rng, batch_size):
        return random_batch(rng, np.arange(13), batch_size=batch_size, seq_len=5)

    inputs, targets = draw(np.random.default_rng(2), 8000)
    counts = np.bincount(inputs[:, 0], minlength=8)  # 13 − 5 = 8 positions
    assert len(counts) == 8
    assert abs(counts - 1000).max() < 150  # five standard deviations
    assert targets.max() == 12
    assert np.array_equal(inputs, inputs[:, :1] + np.arange(5))
    assert np.array_equal(targets, inputs + 1)
    assert np.array_equal(inputs, draw(np.random.default_rng(2), 8000)[0])
    assert not np.array_equal(inputs, draw(np.random.default_rng(3), 8000)[0])
    rng = np.random.default_rng(2)
    assert not np.array_equal(draw(rng, 8000), draw(rng, 8000))


@modest
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1, max_size=6), st.integers(-1, 10)
)
def test_padding_keeps_every_token_and_marks_exactly_the_filling(sequences, pad_id):
    padded = pad(sequences, pad_id)
    shape = (len(sequences), max(map(len, sequences)))
    assert padded.tokens.shape == padded.mask.shape == shape
    assert (padded.tokens.dtype, padded.mask.dtype) == (np.int64, np.bool_)
    assert (padded.tokens[~padded.mask] == pad_id).all()
    for row, mask, sequence in zip(*padded, sequences, strict=True):
        assert row[: mask.sum()].tolist() == row[mask].tolist() == sequence


def test_labels_stand_at_the_last_token_of_their_row_and_torch_leaves_the_rest_out():
    mask = pad([[1], [1, 1, 1], [1, 1]], 0).mask
    targets = targets_at_end(mask, [4, 0, 2])
    assert targets.tolist() == [[4, -100, -100], [-100, -100, 0], [-100, 2, -100]]
    logits, flat = torch.randn(3, 3, 5), torch.from_numpy(targets.ravel())
    asked = logits[[0, 1, 2], [0, 2, 1]].log_softmax(dim=-1)[[0, 1, 2], [4, 0, 2]]
    close(torch.nn.functional.cross_entropy(logits.flatten(0, 1), flat), -asked.mean(), 1e-14)
    assert torch.nn.CrossEntropyLoss().ignore_index == IGNORE


@modest
@given(st.integers(1, 50), st.integers(1, 13), st.integers(0, 99))
def test_one_pass_holds_every_example_once_in_an_order_drawn_at_the_call(n, batch_size, seed):
    rng, twin = np.random.default_rng(seed), np.random.default_rng(seed)
    first, second = (shuffled_batches(rng, n, batch_size) for _ in range(2))
    after = rng.integers(1000)
    for rows in map(list, (first, second)):
        assert [len(row) for row in rows[:-1]] == [batch_size] * (len(rows) - 1)
        assert 1 <= len(rows[-1]) <= batch_size
        assert np.array_equal(np.concatenate(rows), twin.permutation(n))
    assert twin.integers(1000) == after


def contiguous(tokens, batch_size=3, seq_len=5):
    return ContiguousBatches(tokens, batch_size=batch_size, seq_len=seq_len)


test_what_cannot_be_cut_or_padded_is_refused = refuses(
    (lambda: contiguous(np.arange(15)), "3 × 5 tokens and a last target need 16 tokens, got 15"),
    (lambda: contiguous(np.ones(50, bool)), TypeError, r"integers \(n,\), got bool of .*50,"),
    (lambda: pad([], 0), "no sequence to pad"),
    (lambda: pad([[1], [[2, 3]]], 0), TypeError, r"got int64 of shape \(1, 2\)"),
    (lambda: targets_at_end(pad([[7], []], 0).mask, [0, 1]), "1 is empty"),
    (lambda: targets_at_end(pad([[7], [8]], 0).mask, [0, 1, 1]), r"got bool \(2, 1\) and \(3,\)"),
)  # fmt: skip
