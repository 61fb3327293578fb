"""From what the reader gives to tensors: kinds, weights, passes, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled.data.batches import IGNORE
from unrolled.training.batch_iterator import BatchIterator, to_device

CPU = torch.device("cpu")


def test_kinds_are_made_fit_and_arrays_are_copied():
    x, keep, y = np.ones((3, 2)), np.ones((3, 2), bool), np.arange(3, dtype=np.int16)
    batch = to_device(((x, keep), y), CPU, torch.float32)
    kinds = [t.dtype for t in (*batch.inputs, batch.targets)]
    assert kinds == [torch.float32, torch.bool, torch.int64]
    x[:] = 7
    assert (batch.inputs[0] == 1).all()
    assert (batch.weights, batch.weight) == (None, 3)


def test_ignored_targets_and_weights_of_zero_count_nothing_whatever_stands_there():
    y, weights = np.array([4, IGNORE, 6, 99]), np.array([0.5, 2.0, 1.0, 0.0])
    batch = to_device((y, y, weights), CPU, torch.float64)
    assert batch.targets.tolist() == [4, 0, 6, 0]
    assert batch.weights.tolist() == [0.5, 0.0, 1.0, 0.0]
    assert batch.weight == 1.5
    again = to_device(batch, CPU, torch.float64)  # a Batch is a batch, too
    assert again.weights.tolist() == batch.weights.tolist()
    masked = to_device((y, y, weights > 0), CPU, torch.float64)
    assert (masked.weights.dtype, masked.weight) == (torch.bool, 2)


def test_passes_prefetch_and_left_out_batches_come_in_order():
    def numbers(batches):
        return [(int(batch.targets), begins) for batch, begins in batches]

    data = [(np.array(i), np.array(i)) for i in range(3)]
    iterator = BatchIterator(data, CPU, torch.float32)
    plain = numbers(iterator.draw() for _ in range(7))
    assert plain == [(0, True), (1, False), (2, False)] * 2 + [(0, True)]
    other = BatchIterator(data, CPU, torch.float32)
    other.prefetch(2)
    other.skip(1)
    other.prefetch(1)
    assert numbers(other.draw() for _ in range(6)) == plain[1:]
    assert (other.drawn, other.first) == (7, iterator.first)
    third = BatchIterator(data[1:], CPU, torch.float32)
    third.skip(1)
    assert third.first != iterator.first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_is_a_copy_wherever_it_lay(dtype, device):
    x, y = torch.ones(3, dtype=torch.float32, device=device), torch.ones(3, device=device).long()
    weights = torch.ones(3, device=device)
    batch = to_device((x, y, weights), torch.device(device), dtype)
    for given in (x, y, weights):
        given.zero_()  # whoever made the batch fills its tensors again
    assert all((part == 1).all() for part in (*batch.inputs, batch.targets, batch.weights))


def test_what_the_source_raises_is_raised_by_the_draw_that_it_was_drawn_for():
    def source():
        yield from [(np.array(1), np.array(1))] * 2
        raise OSError("the disk is gone")

    iterator = BatchIterator(source(), CPU, torch.float32)
    iterator.prefetch(3)
    assert [int(iterator.draw()[0].targets) for _ in range(2)] == [1, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        iterator.draw()


def test_an_iterable_that_ends_for_good_is_an_error():
    iterator = BatchIterator(iter([(np.array(1), np.array(1))]), CPU, torch.float32)
    iterator.draw()
    with pytest.raises(ValueError, match="the batches ended after 1"):
        iterator.draw()


def test_a_tensor_that_is_filled_anew_changes_no_batch():
    x = torch.zeros(2, 3, dtype=torch.long)
    batch = to_device((x, x), CPU, torch.float32)
    x.fill_(7)
    assert (batch.inputs[0] == 0).all()
    assert (batch.targets == 0).all()


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_a_weight_that_is_no_weight_is_refused(bad):
    x = np.zeros(2, dtype=int)
    with pytest.raises(ValueError, match="weights must have"):
        to_device((x, x, np.array([1.0, bad])), CPU, torch.float32)
    with pytest.raises(ValueError, match=r"a batch is \(inputs, targets\)"):
        to_device((x, x, x, "more"), CPU, torch.float32)
