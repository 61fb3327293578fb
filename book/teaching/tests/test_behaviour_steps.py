"""check_small_steps: what few bits lose is found, whatever the optimiser."""

from itertools import count

import numpy as np
import pytest
import torch
from unrolled_book.behaviour import BehaviourError, check_small_steps

from lib.tests.comparing import refuses

START, SLOPES = np.linspace(-2, 3, 7), np.array([-1.0, -0.6, 0.2, 0.7, 1.0, 1.5, 2.0])


def walk(dtype=torch.float32, optimiser=torch.optim.SGD, start=START, **options):
    """The walk of an optimiser of torch's on weights that are kept in dtype."""

    def walk(rate, n):
        weights = torch.tensor(start).to(dtype).requires_grad_()
        weights.grad = torch.tensor(SLOPES).to(dtype)
        optimizer = optimiser([weights], lr=rate, **options)
        for _ in range(n):
            optimizer.step()
        return weights

    return walk


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_weights_in_single_and_double_precision_pass_and_in_fp16_where_bf16_does_not(optimiser):
    for dtype in (torch.float32, torch.float64):
        check_small_steps(walk(dtype, optimiser))
    check_small_steps(lambda rate, n: (START - rate * n * SLOPES).reshape(7, 1))  # numpy, a column
    check_small_steps(walk(torch.float16), n_steps=30)
    with pytest.raises(BehaviourError):
        check_small_steps(walk(torch.bfloat16), n_steps=30)


test_a_walk_that_loses_its_way_is_told_where = refuses(
    (walk(torch.bfloat16, start=START / 4),
     r"100 steps at rate 0\.00125 .* of 7 weights stay .* in float32"),
    (walk(torch.float16, start=np.full(7, 30.0)), "Are steps rounded away"),
    (lambda rate, n: START - rate * min(n, 1) * SLOPES,
     r"^10 steps at rate 0\.0125 go 10 % of the way .* and 0 of 7 weights.*were$"),
    (lambda rate, n: START - 0.125 * n * SLOPES,
     r"^10 steps at rate 0\.0125 go 1e\+03 % of the way"),
    (lambda rate, n: (START - rate * n * SLOPES) * 0.999**n,  # weight decay is no gradient
     r"^100 steps at rate 0\.00125 go 2e\+02 %"),
    of=check_small_steps,
    error=BehaviourError,
)  # fmt: skip


calls = count()
test_a_walk_that_cannot_be_judged_is_refused = refuses(
    (lambda *_: START, {}, "one step at rate 0.125 moves no weight"),
    (lambda rate, n: START[: 7 - n], {}, r"shape \(7,\) first and \(6,\) after"),
    (lambda *_: START * np.nan, {}, "not all are finite"),
    (lambda *_: START[:0], {}, "0 weights"),
    (lambda *_: START.astype(int), {}, TypeError, "floats, got int64"),
    (lambda *_: START + next(calls), {}, "start from the same ones"),
    (walk(), {"n_steps": 9}, "n_steps"),
    (walk(), {"rate": 0}, "rate"),
    (walk(), {"tolerance": 0}, "tolerance"),
    of=lambda walk, options: check_small_steps(walk, **options),
)
