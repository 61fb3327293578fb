"""The engine against torch, finite differences and cases worked by hand."""

import inspect
import re

import numpy as np
import pytest
import torch
from comparing import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn import functional as F
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor
from unrolled.models.gradcheck import gradcheck

RNG = np.random.default_rng(7)


def randoms(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


def positives(*shapes):
    return [RNG.uniform(0.5, 2, size=shape) for shape in shapes]


IDS, COLUMNS = np.array([[4, 1, 4], [0, 4, 2]]), np.array([[2, 0, 2], [1, 2, 1]])

# name: (operation on tensors, the same in torch, operands)
OPERATIONS = {
    "add a number": (lambda a: 2 + a + 3.5, lambda a: a + 5.5, randoms((3,))),
    "add an array": (lambda a: np.arange(1, 4) + a, lambda a: a + torch.arange(1, 4),
                     randoms((3,))),
    "sub": (lambda a, b: a - b, torch.sub, randoms((3, 5), (3, 5))),
    "sub from a number": (lambda a: 1 - a, lambda a: 1 - a, randoms((3, 5))),
    "neg": (lambda a: -a, torch.neg, randoms((3, 5))),
    "mul": (lambda a, b: a * b, torch.mul, randoms((3, 5), (3, 5))),
    "mul by a number": (lambda a: np.float64(3) * a * 2, lambda a: 6 * a, randoms((3, 5))),
    "div": (lambda a, b: a / b, torch.div, [*randoms((3, 5)), *positives((3, 5))]),
    "div a number": (lambda a: 2 / a, lambda a: 2 / a, positives((3, 5))),
    "matrix @ matrix": (lambda a, b: a @ b, torch.matmul, randoms((3, 5), (5, 2))),
    "matrix @ vector": (lambda a, b: a @ b, torch.matmul, randoms((3, 5), (5,))),
    "vector @ matrix": (lambda a, b: a @ b, torch.matmul, randoms((5,), (5, 3))),
    "vector @ vector": (lambda a, b: a @ b, torch.matmul, randoms((5,), (5,))),
    "array @ tensor": (lambda a: np.eye(3, 5) @ a,
                       lambda a: torch.eye(3, 5, dtype=torch.float64) @ a, randoms((5, 2))),
    "stack @ matrix": (lambda a, b: a @ b, torch.matmul, randoms((2, 4, 3, 5), (5, 2))),
    "stack @ stack": (lambda a, b: a @ b, torch.matmul, randoms((2, 4, 3, 5), (2, 4, 5, 2))),
    "transpose of chosen axes": (lambda a: a.transpose(2, 0, 1), lambda a: a.permute(2, 0, 1),
                                 randoms((2, 3, 5))),
    "stack along axis 1": (lambda a, b: ag.stack([a, b, a], 1),
                           lambda a, b: torch.stack([a, b, a], 1), randoms((3, 5), (3, 5))),
    "softmax": (ag.softmax, lambda a: a.softmax(-1), randoms((2, 3, 5))),
    "cross-entropy": (lambda a: ag.cross_entropy(a, IDS),
                      lambda a: F.cross_entropy(a.flatten(0, 1), torch.tensor(IDS).flatten()),
                      randoms((2, 3, 5))),
    "standardize": (ag.standardize, lambda a: F.layer_norm(a, (5,)), randoms((2, 3, 5))),
    "gelu": (ag.gelu, lambda a: F.gelu(a, approximate="tanh"), randoms((3, 5))),
    "root": (lambda a: a**0.5, torch.sqrt, positives((3, 5))),
    "power of −1.5": (lambda a: a**-1.5, lambda a: a**-1.5, positives((3, 5))),
    "power of 0": (lambda a: a**0, lambda a: a**0, [np.arange(3.0)]),
    "methods": (
        lambda a: (a.relu().exp() + a.tanh().sigmoid().log()).reshape(5, 3).log_softmax().sum(0),
        lambda a: (a.relu().exp() + a.tanh().sigmoid().log()).reshape(5, 3).log_softmax(-1).sum(0),
        randoms((3, 5)),
    ),
    "sum of all": (ag.sum, torch.sum, randoms((2, 3, 5))),
    "sum over axis 1": (lambda a: ag.sum(a, axis=1), lambda a: a.sum(1), randoms((2, 3, 5))),
    "sum over the last": (lambda a: ag.sum(a, -1), lambda a: a.sum(-1), randoms((2, 3, 5))),
    "broadcast along new axes": (lambda a: ag.broadcast_to(a, (2, 5, 3)),
                                 lambda a: a.expand(2, 5, 3), randoms((3,))),
    "broadcast along axes of length 1": (lambda a: ag.broadcast_to(a, (7, 3, 5, 2)),
                                         lambda a: a.expand(7, 3, 5, 2), randoms((3, 1, 2))),
    "broadcast a scalar": (lambda a: ag.broadcast_to(a, (3, 5)), lambda a: a.expand(3, 5),
                           randoms(())),
    "reshape": (lambda a: ag.reshape(a, (5, -1)), lambda a: a.reshape(5, 6), randoms((2, 3, 5))),
    "transpose": (lambda a: a.T, lambda a: a.permute(2, 1, 0), randoms((2, 3, 5))),
    "gather rows": (lambda a: ag.gather(a, IDS), lambda a: a[IDS], randoms((5, 3))),
    "gather entries": (lambda a: ag.gather(a, IDS, COLUMNS), lambda a: a[IDS, COLUMNS],
                       randoms((5, 3))),
    "log_softmax of a vector": (ag.log_softmax, lambda a: a.log_softmax(-1), randoms((5,))),
    "log_softmax of rows": (ag.log_softmax, lambda a: a.log_softmax(-1), randoms((2, 3, 5))),
}  # fmt: skip
each_operation = pytest.mark.parametrize(
    ("ours", "theirs", "operands"), OPERATIONS.values(), ids=OPERATIONS
)


@each_operation
def test_every_operation_and_its_vjp_equal_torch_and_finite_differences(ours, theirs, operands):
    leaves = [Tensor(a) for a in operands]
    twins = [torch.tensor(a, requires_grad=True) for a in operands]
    value, twin = ours(*leaves), theirs(*twins)
    assert_allclose(value.value, twin.detach().numpy(), rtol=1e-13, atol=1e-14)
    g = RNG.normal(size=value.shape)
    g = g if g.shape else float(g)
    ag.sum(value * g).backward()
    twin.backward(torch.as_tensor(g, dtype=torch.float64))
    for i, (leaf, twin_leaf) in enumerate(zip(leaves, twins, strict=True)):
        assert_allclose(leaf.grad, twin_leaf.grad.numpy(), rtol=1e-12, atol=1e-13)

        def loss(a, i=i):
            given = map(Tensor, [*operands[:i], a, *operands[i + 1 :]])
            return ag.sum(ours(*given) * g).value

        report = gradcheck(loss, operands[i], leaf.grad)
        assert report, str(report)


# Random graphs: each instruction takes two values made before, again and again if it likes.
STEPS = {
    "add": lambda lib, a, b: lib.add(a, b), "sub": lambda lib, a, b: lib.sub(a.T, b),
    "mul": lambda lib, a, b: lib.mul(a, lib.tanh(b)),  # tame, or ten squares in a row overflow
    "div": lambda lib, a, b: lib.div(a, lib.exp(lib.tanh(b))),
    "matmul": lambda lib, a, b: a @ lib.tanh(b), "relu": lambda lib, a, b: lib.relu(a),
}  # fmt: skip


@given(
    st.integers(0, 99),
    st.lists(
        st.tuples(st.sampled_from([*STEPS]), *[st.integers(0, 99)] * 2), min_size=3, max_size=14
    ),
)
@settings(max_examples=40, deadline=None)
def test_random_graphs_that_reuse_values_equal_torch(seed, program):
    data = np.random.default_rng(seed).normal(size=(3, 3, 3))
    leaves, twins = [*map(Tensor, data)], [torch.tensor(a, requires_grad=True) for a in data]
    losses = []
    for lib, start in ((ag, leaves), (torch, twins)):
        values, loss = list(start), 0.0
        for step, i, j in program:
            values.append(STEPS[step](lib, values[i % len(values)], values[j % len(values)]))
        for weight, value in enumerate(values):
            loss = loss + lib.sum(lib.tanh(value)) * (1.0 + weight)
        losses.append(loss)
        loss.backward()
    assert_allclose(losses[0].value, losses[1].item(), rtol=1e-11, atol=1e-11)
    for leaf, twin in zip(leaves, twins, strict=True):
        scale = max(1.0, np.abs(leaf.grad).max())
        assert_allclose(leaf.grad / scale, twin.grad.numpy() / scale, rtol=0, atol=1e-10)


def test_a_diamond_is_walked_once_not_once_per_path():
    a = x = Tensor(1.0)
    for _ in range(100):  # 2¹⁰⁰ paths
        x = x + x
    x.backward()
    assert a.grad == 2.0**100


def test_a_graph_ten_thousand_deep_needs_no_recursion():
    leaf = x = Tensor([0.5, -0.25, 2.0])
    for _ in range(10_000):
        x = x * 0.9999
    ag.sum(x).backward()
    assert_allclose(leaf.grad, np.full(3, 0.9999**10_000), rtol=1e-11)


def test_backward_sets_gradients_afresh_so_two_calls_do_not_add_up():
    W = Tensor([2.0, 3.0])
    loss = ag.sum(W * W)
    loss.backward()
    first = W.grad
    loss.backward()
    assert_array_equal(W.grad, first)
    ag.sum(W * 5).backward()  # another loss of the same tensor: its gradient alone
    assert_array_equal(W.grad, [5, 5])


@pytest.mark.parametrize("operation", [ag.add, ag.sub, ag.mul, ag.div])
@pytest.mark.parametrize("shapes", [((3,), (3, 1)), ((3, 5), (5,)), ((), (3,)), ((2, 3), (3, 2))])
def test_nothing_is_broadcast_and_the_message_names_both_shapes(operation, shapes):
    a, b = (Tensor(np.ones(shape)) for shape in shapes)
    for x, y in ((a, b), (a, b.value), (a.value, b)):  # an array is no freer than a tensor
        with pytest.raises(ValueError, match="broadcast_to") as caught:
            operation(x, y)
        assert all(str(shape) in str(caught.value) for shape in shapes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, bool])
def test_real_numbers_of_every_dtype_become_float64(dtype):
    a = Tensor(np.array([1, 0, 1], dtype=dtype))
    assert a.value.dtype == np.float64
    assert (a * np.float32(0.5)).value.dtype == np.float64
    ag.sum(a * np.ones(3, dtype=np.float32)).backward()
    assert a.grad.dtype == np.float64


def test_values_are_copies_and_cannot_be_changed_under_a_graphs_feet():
    data = np.ones(3)
    a = Tensor(data)
    data[0] = 7
    assert_array_equal(a.value, np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        a.value -= 1
    for view in (ag.reshape(a, (3, 1)), a.T, ag.broadcast_to(a, (2, 3))):
        with pytest.raises(ValueError, match="read-only"):
            view.value[0] = 1


def test_a_vjp_of_the_wrong_shape_is_caught():
    a = Tensor(np.ones((3, 1)))
    y = Tensor(a.value.sum(), (a,), lambda g: (np.ones(3),))
    with pytest.raises(ValueError, match=r"\(3,\).*\(3, 1\)"):
        y.backward()
    y = Tensor(a.value.sum(), (a,), lambda g: ())
    with pytest.raises(ValueError, match="zip"):
        y.backward()


@pytest.mark.parametrize(("before", "after"), [((0, 3), (0, 3)), ((1, 3), (0, 3)), ((), (0,))])
def test_broadcast_to_and_its_gradient_keep_their_shapes_where_nothing_is(before, after):
    a = Tensor(np.ones(before))
    copies = ag.broadcast_to(a, after)
    ag.sum(copies).backward()
    assert copies.shape == after
    assert_array_equal(a.grad, np.zeros(before))


def test_what_overflows_an_exponential_stays_finite_and_relu_is_flat_at_zero():
    z = Tensor([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4]])
    log_probs = ag.log_softmax(z)
    assert_allclose(log_probs.value, [[0, -1e4, -2e4], [-np.log(3)] * 3])
    ag.sum(ag.gather(log_probs, [0, 1], [1, 2])).backward()
    assert_allclose(z.grad, [[-1, 1, 0], [-1 / 3, -1 / 3, 2 / 3]], atol=1e-15)
    assert_allclose(ag.sigmoid(Tensor([-1e4, 0.0, 1e4])).value, [0, 0.5, 1])
    a = Tensor([-1.0, 0.0, 1.0])
    ag.sum(ag.relu(a)).backward()
    assert_array_equal(a.grad, [0, 0, 1])


def ones(*shape):
    return Tensor(np.ones(shape))


test_what_the_engine_does_not_do_is_refused = refuses(
    *[(lambda a=a, b=b: ones(*a) @ ones(*b), f"matmul.*{re.escape(f'{a}, {b}')}")
      for a, b in [((3, 5), (3, 5)), ((3,), (5,)), ((3, 5), (3,)), ((), (3,)),
                   ((2, 3, 5), (5,)), ((2, 3, 5), (3, 5, 7)), ((3, 5), (2, 5, 7)),
                   ((2, 3, 5), (2, 4, 7))]],
    (lambda: ag.cross_entropy(ones(2, 3), [[0, 1]]), r"\(2,\), got \(1, 2\)"),
    *[(lambda data=data: Tensor(data), TypeError, "real numbers")
      for data in ["abc", [1j, 2], [None], [Tensor(1)], Tensor(1.0)]],
    (lambda: ones(3, 1).backward(), r"scalar, got shape \(3, 1\)"),
    (lambda: ones(1).backward(), r"\(1,\)"),
    (lambda: ag.gather(ones(5, 3), [0, -1]), "ids ≥ 0"),
    (lambda: ag.gather(ones(5, 3), np.arange(5), np.zeros((5, 1), dtype=int)), "one shape"),
    (lambda: ag.gather(ones(5, 3), [5]), IndexError, "out of bounds"),
    (lambda: ag.gather(ones(5, 3), [0.0, 1.0]), IndexError, "integer"),
    *[(lambda exponent=exponent: ones(2) ** exponent, TypeError, "Tensor|scalars|complex")
      for exponent in (ones(2), np.ones(2), 1j)],
    (lambda: type("Parameter", (Tensor,), {}), TypeError, "operations return a plain Tensor"),
)  # fmt: skip


def test_a_tensor_shows_its_values_and_an_operation_what_it_computes():
    assert repr(Tensor([[1, 2], [3, 4]])) == "Tensor([[1., 2.],\n        [3., 4.]])"
    assert ag.exp.__doc__ == "eᵃ, entry by entry."


def test_the_engine_is_no_longer_than_promised():
    assert len(inspect.getsource(ag).splitlines()) <= 210  # a student reads it in one sitting
