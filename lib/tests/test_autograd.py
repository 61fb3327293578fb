"""The engine against torch, finite differences and cases worked by hand."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.autograd.functional import jacobian as torch_jacobian
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor
from unrolled.models.gradcheck import gradcheck, numerical_jacobian

RNG = np.random.default_rng(7)


def randoms(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


def positives(*shapes):
    return [RNG.uniform(0.5, 2, size=shape) for shape in shapes]


IDS, COLUMNS = np.array([[4, 1, 4], [0, 4, 2]]), np.array([[2, 0, 2], [1, 2, 1]])

# name: (operation on tensors, the same in torch, operands)
OPERATIONS = {
    "add": (lambda a, b: a + b, torch.add, randoms((3, 5), (3, 5))),
    "add to itself": (lambda a: a + a, lambda a: a + a, randoms((3, 5))),
    "add a number": (lambda a: 2 + a + 3.5, lambda a: a + 5.5, randoms((3,))),
    "add an array": (
        lambda a: np.arange(1, 4) + a,
        lambda a: a + torch.arange(1, 4),
        randoms((3,)),
    ),
    "sub": (lambda a, b: a - b, torch.sub, randoms((3, 5), (3, 5))),
    "sub from a number": (lambda a: 1 - a, lambda a: 1 - a, randoms((3, 5))),
    "neg": (lambda a: -a, torch.neg, randoms((3, 5))),
    "mul": (lambda a, b: a * b, torch.mul, randoms((3, 5), (3, 5))),
    "square": (lambda a: a * a, torch.square, randoms((3, 5))),
    "mul by a number": (lambda a: np.float64(3) * a * 2, lambda a: 6 * a, randoms((3, 5))),
    "div": (lambda a, b: a / b, torch.div, [*randoms((3, 5)), *positives((3, 5))]),
    "div a number": (lambda a: 2 / a, lambda a: 2 / a, positives((3, 5))),
    "matrix @ matrix": (lambda a, b: a @ b, torch.matmul, randoms((3, 5), (5, 2))),
    "matrix @ vector": (lambda a, b: a @ b, torch.matmul, randoms((3, 5), (5,))),
    "vector @ matrix": (lambda a, b: a @ b, torch.matmul, randoms((5,), (5, 3))),
    "vector @ vector": (lambda a, b: a @ b, torch.matmul, randoms((5,), (5,))),
    "array @ tensor": (
        lambda a: np.eye(3, 5) @ a,
        lambda a: torch.eye(3, 5, dtype=torch.float64) @ a,
        randoms((5, 2)),
    ),
    "square by a power": (lambda a: a**2, torch.square, randoms((3, 5))),
    "root": (lambda a: a**0.5, torch.sqrt, positives((3, 5))),
    "power of −1.5": (lambda a: a**-1.5, lambda a: a**-1.5, positives((3, 5))),
    "power of 0": (lambda a: a**0, lambda a: a**0, [np.arange(3.0)]),
    "methods": (
        lambda a: (a.relu().exp() + a.tanh().sigmoid().log()).reshape(5, 3).log_softmax().sum(0),
        lambda a: (a.relu().exp() + a.tanh().sigmoid().log()).reshape(5, 3).log_softmax(-1).sum(0),
        randoms((3, 5)),
    ),
    "exp": (ag.exp, torch.exp, randoms((3, 5))),
    "log": (ag.log, torch.log, positives((3, 5))),
    "tanh": (ag.tanh, torch.tanh, randoms((3, 5))),
    "relu": (ag.relu, torch.relu, randoms((3, 5))),
    "sigmoid": (ag.sigmoid, torch.sigmoid, randoms((3, 5))),
    "sum of all": (ag.sum, torch.sum, randoms((2, 3, 5))),
    "sum over axis 0": (lambda a: ag.sum(a, 0), lambda a: a.sum(0), randoms((2, 3, 5))),
    "sum over axis 1": (lambda a: ag.sum(a, axis=1), lambda a: a.sum(1), randoms((2, 3, 5))),
    "sum over the last": (lambda a: ag.sum(a, -1), lambda a: a.sum(-1), randoms((2, 3, 5))),
    "broadcast along new axes": (
        lambda a: ag.broadcast_to(a, (2, 5, 3)),
        lambda a: a.expand(2, 5, 3),
        randoms((3,)),
    ),
    "broadcast along axes of length 1": (
        lambda a: ag.broadcast_to(a, (7, 3, 5, 2)),
        lambda a: a.expand(7, 3, 5, 2),
        randoms((3, 1, 2)),
    ),
    "broadcast a scalar": (
        lambda a: ag.broadcast_to(a, (3, 5)),
        lambda a: a.expand(3, 5),
        randoms(()),
    ),
    "reshape": (lambda a: ag.reshape(a, (5, -1)), lambda a: a.reshape(5, 6), randoms((2, 3, 5))),
    "transpose": (lambda a: a.T, lambda a: a.permute(2, 1, 0), randoms((2, 3, 5))),
    "gather rows": (lambda a: ag.gather(a, IDS), lambda a: a[IDS], randoms((5, 3))),
    "gather entries": (
        lambda a: ag.gather(a, IDS, COLUMNS),
        lambda a: a[IDS, COLUMNS],
        randoms((5, 3)),
    ),
    "log_softmax of a vector": (ag.log_softmax, lambda a: a.log_softmax(-1), randoms((5,))),
    "log_softmax of rows": (ag.log_softmax, lambda a: a.log_softmax(-1), randoms((2, 3, 5))),
}
each_operation = pytest.mark.parametrize(
    ("ours", "theirs", "operands"), OPERATIONS.values(), ids=OPERATIONS
)


@each_operation
def test_every_operation_and_its_vjp_equal_torch(ours, theirs, operands):
    leaves = [Tensor(a) for a in operands]
    twins = [torch.tensor(a, requires_grad=True) for a in operands]
    value, twin = ours(*leaves), theirs(*twins)
    assert_allclose(value.value, twin.detach().numpy(), rtol=1e-13, atol=1e-14)
    g = RNG.normal(size=value.shape)
    ag.sum(value * g if g.shape else value * float(g)).backward()
    twin.backward(torch.as_tensor(g))
    for leaf, twin_leaf in zip(leaves, twins, strict=True):
        assert_allclose(leaf.grad, twin_leaf.grad.numpy(), rtol=1e-12, atol=1e-13)


@each_operation
def test_every_vjp_agrees_with_finite_differences(ours, theirs, operands):
    for i in range(len(operands)):

        def loss(a, i=i):
            value = ours(*(a if j == i else b for j, b in enumerate(map(as_tensor, operands))))
            return ag.sum(value * value)

        leaf = Tensor(operands[i])
        loss(leaf).backward()
        report = gradcheck(lambda a, loss=loss: loss(Tensor(a)).value, operands[i], leaf.grad)
        assert report, str(report)


def as_tensor(a):
    return a if isinstance(a, Tensor) else Tensor(a)


# Random graphs: each instruction takes values made before, again and again if it likes.
STEPS = (
    *("add", "sub", "mul", "div", "matmul", "tanh", "sigmoid", "relu", "exp", "log"),
    *("log_softmax", "sum", "flat", "transpose", "spread", "rows"),
)


def apply(step, a, b, lib):
    """One step on a and, if it takes two, b, by the engine (lib is ag) or torch; None if unfit."""
    torchy = lib is torch
    match step:
        case "add" | "sub" if a.shape == b.shape:
            return getattr(lib, step)(a, b)
        case "mul" if a.shape == b.shape:
            return lib.mul(a, lib.tanh(b))  # tame, or ten squares in a row overflow
        case "div" if a.shape == b.shape:
            return lib.div(a, lib.exp(lib.tanh(b)))
        case "matmul" if 1 <= len(a.shape) <= 2 >= len(b.shape) >= 1 and a.shape[-1] == b.shape[0]:
            return a @ lib.tanh(b)
        case "tanh" | "sigmoid" | "relu":
            return getattr(lib, step)(a)
        case "exp":
            return lib.exp(lib.tanh(a))
        case "log":
            return lib.log(lib.sigmoid(a) + 0.5)
        case "log_softmax" if len(a.shape):
            return a.log_softmax(-1) if torchy else ag.log_softmax(a)
        case "sum" if len(a.shape):
            return lib.sum(a, 0)
        case "flat":
            return lib.reshape(a, (-1,))
        case "transpose" if len(a.shape) == 2:
            return a.T
        case "spread":
            return a.expand(2, *a.shape) if torchy else ag.broadcast_to(a, (2, *a.shape))
        case "rows" if len(a.shape) and a.shape[0] > 1:
            return a[torch.tensor([1, 0, 1])] if torchy else ag.gather(a, [1, 0, 1])
    return None


@given(
    st.integers(0, 2**32 - 1),
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)),
        min_size=3,
        max_size=14,
    ),
)
@settings(max_examples=150, deadline=None)
def test_random_graphs_that_reuse_values_equal_torch(seed, program):
    rng = np.random.default_rng(seed)
    data = [rng.normal(size=shape) for shape in [(2, 3), (2, 3), (3, 5), (3,), (5,), ()]]
    leaves = [Tensor(a) for a in data]
    twins = [torch.tensor(a, requires_grad=True) for a in data]
    ours, theirs = list(leaves), list(twins)
    for step, i, j in program:
        i %= len(ours)
        fitting = [k for k in range(len(ours)) if apply(step, ours[i], ours[k], ag) is not None]
        if fitting and np.prod(ours[i].shape) < 500:
            j = fitting[j % len(fitting)]
            ours.append(apply(step, ours[i], ours[j], ag))
            theirs.append(apply(step, theirs[i], theirs[j], torch))
    loss, twin_loss = Tensor(0.0), torch.zeros((), dtype=torch.float64)
    for value, twin in zip(ours, theirs, strict=True):
        weight = rng.normal(size=value.shape)
        loss = loss + ag.sum(ag.tanh(value) * (weight if weight.shape else float(weight)))
        twin_loss = twin_loss + (torch.tanh(twin) * torch.as_tensor(weight)).sum()
    assert_allclose(loss.value, twin_loss.item(), rtol=1e-11, atol=1e-11)
    loss.backward()
    twin_loss.backward()
    for leaf, twin in zip(leaves, twins, strict=True):
        scale = max(1.0, np.abs(leaf.grad).max())
        assert_allclose(leaf.grad / scale, twin.grad.numpy() / scale, rtol=0, atol=1e-10)


# The Jacobians of chapter 7: z = Wx, ŷ = softmax(z), L = −y · ln ŷ.
V, D = 3, 2


def engine_jacobian(f, x):
    """One backward pass for each entry of f(x)."""
    rows = []
    for i in range(f(Tensor(x)).value.size):
        leaf = Tensor(x)
        ag.sum(ag.gather(ag.reshape(f(leaf), -1), [i])).backward()
        rows.append(leaf.grad)
    return np.stack(rows)


def chapter_seven(seed, v=V, d=D):
    rng = np.random.default_rng(seed)
    W, x, y = rng.normal(size=(v, d)), rng.normal(size=d), np.eye(v)[rng.integers(v)]
    z = W @ x
    return W, x, y, z, np.exp(z) / np.exp(z).sum()


def softmax(z):
    return ag.exp(z) / ag.broadcast_to(ag.sum(ag.exp(z)), z.shape)


@given(st.integers(0, 2**32 - 1), st.sampled_from([(3, 2), (5, 7), (11, 3)]))
@settings(max_examples=25, deadline=None)
def test_the_chapters_jacobians_are_torchs(seed, sizes):
    v, d = sizes
    W, x, y, z, y_hat = chapter_seven(seed, v, d)
    W_, x_, y_, z_, y_hat_ = map(torch.as_tensor, (W, x, y, z, y_hat))
    close = dict(rtol=1e-10, atol=1e-10)

    from_loss = -y / y_hat  # (V,)
    assert_allclose(from_loss, torch_jacobian(lambda p: -(y_ * p.log()).sum(), y_hat_), **close)
    ours = engine_jacobian(lambda p: -ag.sum(y * ag.log(p)), y_hat)
    assert_allclose(ours, from_loss[None], **close)

    from_softmax = np.diag(y_hat) - np.outer(y_hat, y_hat)  # (V, V)
    assert_allclose(from_softmax, torch_jacobian(lambda a: a.softmax(0), z_), **close)
    assert_allclose(engine_jacobian(softmax, z), from_softmax, **close)
    assert_allclose(engine_jacobian(lambda a: ag.exp(ag.log_softmax(a)), z), from_softmax, **close)

    blocks = np.kron(np.eye(v), x)  # (V, V·D): row i holds x in its block i
    theirs = torch_jacobian(lambda w: w @ x_, W_).reshape(v, v * d)
    assert_allclose(blocks, theirs, **close)
    assert_allclose(engine_jacobian(lambda w: w @ x, W).reshape(v, v * d), blocks, **close)

    product = (from_loss @ from_softmax @ blocks).reshape(v, d)
    assert_allclose(product, np.outer(y_hat - y, x), **close)  # (ŷ − y)xᵀ
    theirs = torch_jacobian(lambda w: -(y_ * (w @ x_).log_softmax(0)).sum(), W_)
    assert_allclose(product, theirs, **close)
    for loss in (
        lambda w: -ag.sum(y * ag.log(softmax(w @ x))),
        lambda w: -ag.sum(y * ag.log_softmax(w @ x)),
    ):
        leaf = Tensor(W)
        loss(leaf).backward()
        assert_allclose(leaf.grad, product, **close)


def test_the_jacobian_of_wx_is_three_by_six_in_blocks_of_x():
    W, x = np.arange(6.0).reshape(3, 2), np.array([5.0, 7.0])
    by_hand = [[5, 7, 0, 0, 0, 0], [0, 0, 5, 7, 0, 0], [0, 0, 0, 0, 5, 7]]
    assert_array_equal(engine_jacobian(lambda w: w @ x, W).reshape(3, 6), by_hand)
    assert_allclose(numerical_jacobian(lambda w: w @ x, W).reshape(3, 6), by_hand, atol=1e-8)


def test_a_case_worked_by_hand():
    # z = (ln 1, ln 2, ln 5), so ŷ = (1, 2, 5)/8; the target is word 1
    W, x = Tensor(np.log([[1.0, 1], [2, 1], [5, 1]])), Tensor([1.0, 0.0])
    loss = -ag.sum(ag.gather(ag.log_softmax(W @ x), [1]))
    loss.backward()
    assert_allclose(loss.value, np.log(4))
    assert_allclose(W.grad, [[1 / 8, 0], [-6 / 8, 0], [5 / 8, 0]], rtol=1e-14)


def test_a_value_used_twice_collects_from_both_uses():
    a = Tensor(3.0)
    b = a * a  # 9
    (b * a + b).backward()  # a³ + a²
    assert a.grad == 3 * 9 + 2 * 3
    assert b.grad == 3 + 1


def test_a_diamond_is_walked_once_not_once_per_path():
    a = x = Tensor(1.0)
    for _ in range(100):  # 2¹⁰⁰ paths
        x = x + x
    x.backward()
    assert a.grad == 2.0**100


def test_topological_order_has_every_tensor_once_and_parents_first():
    a, b = Tensor([1.0, 2]), Tensor([3.0, 4])
    c = a * b
    root = ag.sum(c * a + c)
    order = ag.topological_order(root)
    assert len(order) == len(set(order)) == 6
    assert order[-1] is root
    place = {tensor: i for i, tensor in enumerate(order)}
    assert all(place[p] < place[t] for t in order for p in t.parents)


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


def test_gradients_are_none_before_backward_and_arrays_of_the_same_shape_after():
    W = Tensor(np.ones((3, 2)))
    assert W.grad is None
    ag.sum(W @ np.ones(2)).backward()
    assert type(W.grad) is np.ndarray
    assert W.grad.shape == (3, 2)


def test_backward_starts_from_a_scalar_only_and_names_the_shape():
    with pytest.raises(ValueError, match=r"scalar, got shape \(3, 1\)"):
        Tensor(np.ones((3, 1))).backward()
    with pytest.raises(ValueError, match=r"\(1,\)"):
        Tensor([1.0]).backward()
    leaf = Tensor(2)
    leaf.backward()
    assert leaf.grad == 1


@pytest.mark.parametrize("operation", [ag.add, ag.sub, ag.mul, ag.div])
@pytest.mark.parametrize("shapes", [((3,), (3, 1)), ((3, 5), (5,)), ((), (3,)), ((2, 3), (3, 2))])
def test_nothing_is_broadcast_and_the_message_names_both_shapes(operation, shapes):
    a, b = (Tensor(np.ones(shape)) for shape in shapes)
    with pytest.raises(ValueError, match="broadcast_to") as caught:
        operation(a, b)
    assert str(shapes[0]) in str(caught.value)
    assert str(shapes[1]) in str(caught.value)
    with pytest.raises(ValueError, match="broadcast_to"):
        operation(a, b.value)  # an array is no freer than a tensor
    with pytest.raises(ValueError, match="broadcast_to"):
        operation(a.value, b)


def test_operators_with_arrays_on_the_left_stay_tensors():
    array, tensor = np.arange(3.0), Tensor([1.0, 2, 4])
    for value, expected in [
        (array + tensor, [1, 3, 6]),
        (array - tensor, [-1, -1, -2]),
        (array * tensor, [0, 2, 8]),
        (array / tensor, [0, 0.5, 0.5]),
        (array @ tensor, 10),
        (np.float64(2) * tensor, [2, 4, 8]),
        (2 - tensor, [1, 0, -2]),
    ]:
        assert isinstance(value, Tensor)
        assert_array_equal(value.value, expected)


@pytest.mark.parametrize(
    "shapes", [((3, 5), (3, 5)), ((3,), (5,)), ((3, 5), (3,)), ((), (3,)), ((2, 3, 5), (5, 7))]
)
def test_matmul_names_shapes_that_do_not_fit(shapes):
    a, b = (Tensor(np.ones(shape)) for shape in shapes)
    with pytest.raises(ValueError, match="matmul") as caught:
        a @ b
    assert f"{shapes[0]}, {shapes[1]}" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, bool])
def test_real_numbers_of_every_dtype_become_float64(dtype):
    a = Tensor(np.array([1, 0, 1], dtype=dtype))
    assert a.value.dtype == np.float64
    assert (a * np.float32(0.5)).value.dtype == np.float64
    ag.sum(a * np.ones(3, dtype=np.float32)).backward()
    assert a.grad.dtype == np.float64


@pytest.mark.parametrize("data", ["abc", [1j, 2], [None], [Tensor(1)], Tensor(1.0)])
def test_what_is_no_real_number_is_refused(data):
    with pytest.raises(TypeError, match="real numbers"):
        Tensor(data)


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


def test_a_row_gathered_twice_collects_twice():
    table = Tensor(np.zeros((5, 2)))
    ag.sum(ag.gather(table, [3, 1, 3, 3])).backward()
    assert_array_equal(table.grad[:, 0], [0, 1, 0, 3, 0])


def test_gather_refuses_what_numpy_would_wrap_spread_or_round():
    a = Tensor(np.ones((5, 3)))
    with pytest.raises(ValueError, match="ids ≥ 0"):
        ag.gather(a, [0, -1])
    with pytest.raises(ValueError, match="one shape"):
        ag.gather(a, np.arange(5), np.zeros((5, 1), dtype=int))  # numpy: (5, 5)
    with pytest.raises(IndexError):
        ag.gather(a, [5])
    with pytest.raises(IndexError):
        ag.gather(a, [0.0, 1.0])


@pytest.mark.parametrize(("before", "after"), [((0, 3), (0, 3)), ((1, 3), (0, 3)), ((), (0,))])
def test_broadcast_to_and_its_gradient_keep_their_shapes_where_nothing_is(before, after):
    a = Tensor(np.ones(before))
    copies = ag.broadcast_to(a, after)
    ag.sum(copies).backward()
    assert copies.shape == after
    assert_array_equal(a.grad, np.zeros(before))


def test_log_softmax_stays_finite_where_exp_overflows():
    z = Tensor([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4]])
    log_probs = ag.log_softmax(z)
    assert_allclose(log_probs.value, [[0, -1e4, -2e4], [-np.log(3)] * 3])
    ag.sum(ag.gather(log_probs, [0, 1], [1, 2])).backward()
    assert_allclose(z.grad, [[-1, 1, 0], [-1 / 3, -1 / 3, 2 / 3]], atol=1e-15)


@given(st.integers(0, 2**32 - 1), st.floats(-1e3, 1e3))
@settings(max_examples=50, deadline=None)
def test_log_softmax_ignores_a_shift_and_its_gradient_sums_to_zero(seed, shift):
    z, g = np.random.default_rng(seed).normal(size=(2, 3, 5))
    leaf = Tensor(z)
    moved = ag.log_softmax(leaf + shift)
    assert_allclose(moved.value, ag.log_softmax(Tensor(z)).value, atol=1e-10)
    ag.sum(moved * g).backward()
    assert_allclose(leaf.grad.sum(axis=1), 0, atol=1e-12)


def test_relu_has_slope_zero_at_zero_as_in_torch():
    a = Tensor([-1.0, 0.0, 1.0])
    ag.sum(ag.relu(a)).backward()
    assert_array_equal(a.grad, [0, 0, 1])


def test_sigmoid_does_not_overflow():
    assert_allclose(ag.sigmoid(Tensor([-1e4, 0.0, 1e4])).value, [0, 0.5, 1])


def test_an_exponent_is_a_plain_number():
    for exponent in (Tensor([1.0, 2.0]), np.array([1.0, 2.0]), 1j):
        with pytest.raises(TypeError):
            Tensor([1.0, 2.0]) ** exponent


def test_a_subclass_which_no_operation_would_return_is_refused():
    with pytest.raises(TypeError, match="operations return a plain Tensor"):

        class Parameter(Tensor):
            pass


def test_repr_shows_the_values():
    assert repr(Tensor([[1, 2], [3, 4]])) == "Tensor([[1., 2.],\n        [3., 4.]])"


def test_every_operation_says_what_it_computes():
    assert ag.exp.__doc__ == "eᵃ, entry by entry."
    assert ag.matmul.__doc__.startswith("a @ b")


def test_the_engine_is_no_longer_than_promised():
    assert len(inspect.getsource(ag).splitlines()) <= 150
