"""Chapter 23's recorded experiments: what is measured, on cases counted by hand."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from unrolled.data.batches import IGNORE
from unrolled.training.fit import cross_entropy, next_token_loss
from unrolled_book.experiments import c23_precision as precision
from unrolled_book.experiments import c23_shards as shards
from unrolled_book.experiments import c23_step as steps
from unrolled_book.experiments import record


def literal(model, inputs, targets, n_processes):
    """The mean of the means, process by process."""
    found = []
    for rank in range(n_processes):
        rows = slice(*(len(targets) * r // n_processes for r in (rank, rank + 1)))
        model.zero_grad()
        loss = cross_entropy(model(inputs[rows]), targets[rows]).sum()
        (loss / (targets[rows] != IGNORE).sum()).backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return sum(found) / n_processes


@pytest.mark.parametrize("n_processes", [1, 2, 3, 8])
def test_the_weights_give_the_mean_of_the_processes_means(n_processes):
    batch = next(shards.batches(0, "sorted"))
    model = shards.fresh(0)
    expected = literal(model, *batch, n_processes)
    assert_close(shards.gradient(model, batch, n_processes), expected, rtol=1e-3, atol=1e-6)
    weights = shards.shares(batch[1], n_processes)
    assert weights.sum().item() == pytest.approx(1)
    assert not weights[batch[1] == IGNORE].any()
    difference, length = shards.off(model, batch, n_processes)
    assert length == pytest.approx(literal(model, *batch, 1).norm().item(), rel=1e-3)
    assert difference == 0 if n_processes == 1 else difference > 0.05 * length


def test_a_batch_is_of_the_same_numbers_sorted_or_not():
    (x, y), (x_sorted, y_sorted) = (next(shards.batches(3, o)) for o in ("drawn", "sorted"))
    lengths = (y_sorted != IGNORE).sum(1)
    assert (lengths.diff() >= 0).all()
    assert sorted(x.tolist()) == sorted(x_sorted.tolist())
    assert (y != IGNORE).sum() == lengths.sum()
    assert (x[:, 0] == 1).all()
    assert_close(torch.where(y[:, :-1] == IGNORE, 0, y[:, :-1])[:, :2], x[:, 1:3])


def halves(targets):
    counts = (targets != IGNORE).sum(1)
    return counts[:32], counts[32:]


def test_a_batch_cut_from_a_pool_has_equal_halves_and_batches_of_its_own_have_not():
    cut = [halves(y) for _, y in islice(shards.batches(5, "cut"), shards.POOL)]
    own = [halves(y) for _, y in islice(shards.batches(5, "own"), shards.POOL)]
    widest = [max(b.max() for b in step) - min(a.min() for a in step) for step in cut]
    assert sorted(widest)[len(cut) // 2] <= 2  # neighbours in the pool, on most steps
    assert all((b.diff() >= 0).all() for step in cut + own for b in step)
    apart = [float(abs(a.sum() - b.sum()) / (a.sum() + b.sum())) for a, b in own]
    assert np.mean(apart) > 0.1  # twice 32 neighbours, from two places
    pooled = torch.cat([torch.cat(step) for step in cut]).sort().values
    assert torch.equal(pooled, torch.cat([torch.cat(step) for step in own]).sort().values)
    assert len({int(step[0][0]) for step in cut[:4]}) > 1  # shuffled


def test_batches_of_an_unknown_order_are_refused():
    with pytest.raises(KeyError, match="bucket"):
        next(shards.batches(0, "bucket"))


def test_a_record_has_a_row_for_each_arm_and_seed(monkeypatch):
    monkeypatch.setattr(shards, "N_LOOKS", 4)
    result = shards.run(seeds=(4,), lrs=(1e-3,), n_steps=2, n_valid=30)
    rows = json.loads(json.dumps(result))["metrics"]["rows"]
    assert [row["arm"] for row in rows] == [name for name, *_ in shards.ARMS]
    assert {*rows[0]["loss"]} == {"all", "short", "long"}
    for errors in rows[0]["off"]:
        ratio = {name: found["ratio"] for name, found in errors.items()}
        assert ratio["all tokens"] == 0
        assert ratio["2 processes, as drawn"] < ratio["2 processes, sorted"]
        tokens = {name: found["tokens"] for name, found in errors.items()}
        assert tokens["2 processes, cut from a pool"] < 1.2 < tokens["2 processes, a batch each"]
        assert tokens["2 processes, sorted"] == tokens["8 processes, sorted"] > 1.5


def test_one_process_has_the_loss_of_its_batch():
    first = shards.fit_shared(2)
    inputs, targets = next(shards.batches(0, "sorted"))
    loss = cross_entropy(shards.fresh(0)(inputs), targets).sum() / (targets != IGNORE).sum()
    assert first[0] == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize("kind", precision.KINDS)
def test_weights_are_rounded_where_the_kind_says_so(kind):
    model = precision.trained(kind, 0, 1e-3, 3)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert weights.dtype == torch.float32
    rounded = weights.bfloat16().float()
    assert torch.equal(weights, rounded) == (kind == "bf16 weights")


def test_the_forward_pass_in_sixteen_bits_is_that_of_a_rounded_model():
    model, batch = shards.fresh(0), next(shards.batches(0))
    found = precision.loss_and_gradients(model, batch, torch.bfloat16)
    low = shards.fresh(0).bfloat16()
    loss = cross_entropy(low(batch[0]).float(), batch[1]).sum() / (batch[1] != IGNORE).sum()
    loss.backward()
    assert found.item() == loss.item()
    for p, other in zip(model.parameters(), low.parameters(), strict=True):
        assert p.grad.dtype == torch.float32
        assert torch.equal(p.grad, other.grad.float())


def test_a_record_of_precision_has_a_row_for_each_kind_and_seed():
    result = precision.run(seeds=(1, 2), lrs=(1e-3,), n_steps=2, n_valid=30)
    rows = json.loads(json.dumps(result))["metrics"]["rows"]
    assert [(r["kind"], r["seed"]) for r in rows] == [
        (kind, seed) for kind in precision.KINDS for seed in (1, 2)
    ]
    stuck = {r["kind"]: r["stuck"] for r in rows}
    assert stuck["float32"] < 0.05 < stuck["bf16 weights"]


@pytest.mark.cuda
def test_a_step_of_gpt2_keeps_its_memory_and_its_operations():
    """Counted on fake tensors of a GPU; nanoGPT's step holds 30.3 GiB, and 648 operations."""
    found = steps.counted(partial(steps.step_of_fit, next_token_loss))
    assert found["peak_bytes"] <= 14 * 2**30
    assert found["operations"] <= 1_150
    recorded = record.load("c23_step")["metrics"]["rows"][0]
    assert found["flops"] == recorded["flops"]
    assert found["parameters"] == recorded["parameters"] == 124_475_904


@pytest.mark.cuda
def test_bytes_flops_and_operations_of_two_products_are_counted_by_hand():
    """(7, 11) @ (11, 13) and its backward pass, in float32; storage comes in multiples of 512."""

    def make():
        layer = torch.nn.Linear(11, 13, bias=False, device="cuda")  # 572 bytes

        def step():
            layer.weight.grad = None
            x = torch.ones(7, 11, device="cuda")  # 308 bytes
            layer(x).backward(torch.ones(7, 13, device="cuda"))  # 364 bytes each, gradient 572

        return layer, step

    assert steps.counted(make) == {
        "parameters": 143,
        "peak_bytes": 1024 + 512 + 512 + 512 + 1024,
        "held_bytes": 1024 + 1024,
        "operations": 4,  # x and the gradient that comes in, and two products
        "flops": 2 * (2 * 7 * 11 * 13),
    }


def test_without_a_gpu_the_count_names_what_is_missing(monkeypatch):
    monkeypatch.setattr(steps.sys, "executable", "false")
    with pytest.raises(RuntimeError, match="make test-cuda"):
        steps.in_a_process_with_the_emulated_gpu()
