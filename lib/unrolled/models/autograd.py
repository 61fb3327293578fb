"""Reverse-mode differentiation of programs on arrays: the engine of chapter 7.

A vjp maps ∂L/∂value to one ∂L/∂parent per parent. Shapes are strict: only plain numbers broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

outer = np.multiply.outer
product = np.matmul  # the book's pages, whose numpy has no BLAS, put a quicker one here


class Tensor:
    """A read-only float64 copy of data (real numbers, else TypeError) that knows its parents."""

    __array_ufunc__ = None  # `array + tensor` is for Tensor.__radd__, not for numpy
    shape = property(lambda self: self.value.shape)

    def __init__(self, data: ArrayLike, parents: tuple = (), vjp: Callable = lambda g: ()):
        if np.asarray(data).dtype.kind not in "biuf":
            raise TypeError(f"a Tensor holds real numbers, got {type(data).__name__} {data!r}")
        self.value = np.array(data, dtype=np.float64)
        self.value.flags.writeable = False  # vjps will read it: to change it, make a new Tensor
        self.grad, self.parents, self.vjp = None, parents, vjp

    def __init_subclass__(cls) -> None:
        raise TypeError("operations return a plain Tensor: keep one in an attribute instead")

    def backward(self) -> None:
        """Set grad to ∂self/∂tensor on each tensor this scalar came from; calls do not add up."""
        if self.shape != ():
            raise ValueError(f"backward starts at a scalar, got shape {self.shape}: sum it first")
        order = topological_order(self)
        for tensor in order:
            tensor.grad = None
        self.grad = np.ones(())
        for tensor in reversed(order):
            for parent, grad in zip(tensor.parents, tensor.vjp(tensor.grad), strict=True):
                if np.shape(grad) != parent.shape:
                    raise ValueError(f"vjp gave {np.shape(grad)} to a parent of {parent.shape}")
                # a value used twice collects from both uses
                parent.grad = grad if parent.grad is None else parent.grad + grad


def topological_order(root: Tensor) -> list[Tensor]:
    """All tensors that root came from, parents first; a loop, so a graph may be of any depth."""
    order, stack = {}, [root]
    while stack:
        waiting = [parent for parent in stack[-1].parents if parent not in order]
        stack += waiting
        if not waiting:
            order[stack.pop()] = True
    return list(order)


def elementwise(formula: str, f: Callable, *slopes: Callable) -> Callable[..., Tensor]:
    """Operation y = f(a, …) on entries; its Jacobians are diagonal, so each vjp is g · slope."""

    def operation(*operands: Tensor | ArrayLike) -> Tensor:
        shapes = [np.shape(a) for a in operands if not np.isscalar(a)] or [()]
        if len(set(shapes)) > 1:
            raise ValueError(f"shapes {' and '.join(map(str, shapes))} differ: use broadcast_to")
        parents = [x if isinstance(x, Tensor) else Tensor(np.full(shapes[0], x)) for x in operands]
        entries = [parent.value for parent in parents]
        y = f(*entries)
        return Tensor(y, parents, lambda g: [g * slope(*entries, y) for slope in slopes])

    operation.__doc__ = f"{formula}, entry by entry."
    return operation


add = elementwise("a + b", np.add, lambda a, b, y: 1, lambda a, b, y: 1)
sub = elementwise("a − b", np.subtract, lambda a, b, y: 1, lambda a, b, y: -1)
mul = elementwise("a · b", np.multiply, lambda a, b, y: b, lambda a, b, y: a)
div = elementwise("a / b", np.divide, lambda a, b, y: 1 / b, lambda a, b, y: -y / b)
exp = elementwise("eᵃ", np.exp, lambda a, y: y)
log = elementwise("ln a", np.log, lambda a, y: 1 / a)
tanh = elementwise("tanh a", np.tanh, lambda a, y: 1 - y**2)
relu = elementwise("max(a, 0)", lambda a: np.maximum(a, 0), lambda a, y: a > 0)
sigmoid = elementwise("1/(1 + e⁻ᵃ)", lambda a: (1 + np.tanh(a / 2)) / 2, lambda a, y: y * (1 - y))


def power(a: Tensor, n: float) -> Tensor:
    """aⁿ, entry by entry, for a plain number n."""
    return elementwise("aⁿ", lambda a: a ** float(n), lambda a, y: n and n * a ** (n - 1))(a)


def matmul(a: Tensor | ArrayLike, b: Tensor | ArrayLike) -> Tensor:
    """a @ b for vectors and matrices, or stacks of matrices (…, m, k) by (k, n) or (…, k, n)."""
    a, b = (x if isinstance(x, Tensor) else Tensor(x) for x in (a, b))
    n_a, n_b = len(a.shape), len(b.shape)
    fits = min(n_a, n_b) > 0 and a.shape[-1] == b.shape[-2:][0]
    if max(n_a, n_b) > 2:
        fits = fits and min(n_a, n_b) > 1 and b.shape[:-2] in ((), a.shape[:-2])
    if not fits:
        raise ValueError(f"matmul takes (…, m, k) by (k, n) or (…, k, n), got {a.shape}, {b.shape}")
    if n_a > 2 == n_b:  # one b for the whole stack: a's rows stand one below the other
        return reshape(matmul(reshape(a, -1, a.shape[-1]), b), *a.shape[:-1], b.shape[-1])

    def vjp(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        to_a = product(g, b.value.swapaxes(-1, -2)) if n_b > 1 else outer(g, b.value)
        to_b = product(a.value.swapaxes(-1, -2), g) if n_a > 1 else outer(a.value, g)
        return to_a, to_b

    return Tensor(product(a.value, b.value), (a, b), vjp)


def sum(a: Tensor, axis: int | None = None) -> Tensor:
    """The sum over one axis, which disappears, or over all entries."""
    total = a.value.sum(axis, keepdims=True)
    return Tensor(total.squeeze(axis), (a,), lambda g: (g.reshape(total.shape) * np.ones(a.shape),))


def broadcast_to(a: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Copies of a along new leading axes and axes of length 1; the gradient sums over them."""
    value = np.broadcast_to(a.value, shape)
    copied = tuple(i for i in range(-value.ndim, 0) if i < -a.value.ndim or a.shape[i] == 1)
    return Tensor(value, (a,), lambda g: (g.sum(copied).reshape(a.shape),))


def reshape(a: Tensor, *shape: int | tuple[int, ...]) -> Tensor:
    """The entries of a, row after row, in another shape."""
    return Tensor(a.value.reshape(*shape), (a,), lambda g: (g.reshape(a.shape),))


def transpose(a: Tensor, *axes: int) -> Tensor:
    """The axes of a in another order; without one, in reverse."""
    axes = axes or tuple(reversed(range(len(a.shape))))
    return Tensor(a.value.transpose(axes), (a,), lambda g: (np.moveaxis(g, range(g.ndim), axes),))


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape, side by side along a new axis."""
    value = np.stack([tensor.value for tensor in tensors], axis)
    return Tensor(value, tuple(tensors), lambda g: np.moveaxis(g, axis, 0))


def gather(a: Tensor, *ids: ArrayLike) -> Tensor:
    """a[ids]: one array of ids ≥ 0 picks rows, a second of the same shape picks entries of them."""
    ids = tuple(map(np.asarray, ids))
    if len({axis.shape for axis in ids}) > 1 or any(axis.min(initial=0) < 0 for axis in ids):
        raise ValueError(f"gather takes ids ≥ 0 in arrays of one shape, got {ids}")

    def vjp(g: np.ndarray) -> tuple[np.ndarray]:
        grad = np.zeros(a.shape)
        np.add.at(grad, ids, g)  # unlike grad[ids] += g, counts an entry taken twice twice
        return (grad,)

    return Tensor(a.value[ids], (a,), vjp)


def log_softmax(a: Tensor) -> Tensor:
    """a − ln Σ eᵃ over the last axis; the maximum is taken off first, so nothing overflows."""
    shifted = a.value - a.value.max(axis=-1, keepdims=True)
    y = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return Tensor(y, (a,), lambda g: (g - np.exp(y) * g.sum(axis=-1, keepdims=True),))


def softmax(a: Tensor) -> Tensor:
    """eᵃ / Σ eᵃ over the last axis."""
    weights = np.exp(a.value - a.value.max(axis=-1, keepdims=True))
    y = weights / weights.sum(axis=-1, keepdims=True)
    return Tensor(y, (a,), lambda g: (y * (g - (g * y).sum(axis=-1, keepdims=True)),))


def cross_entropy(logits: Tensor, targets: ArrayLike) -> Tensor:
    """The mean of −ln softmax(logits)[target], for logits (…, V) and integer targets (…)."""
    targets = np.asarray(targets)
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"expected targets of {logits.shape[:-1]}, got {targets.shape}")
    rows = reshape(logits, -1, logits.shape[-1]).log_softmax()
    return gather(rows, np.arange(targets.size), targets.ravel()).sum() / -targets.size


def standardize(a: Tensor, eps: float = 1e-5) -> Tensor:
    """(a − mean) / √(variance + eps) over the last axis: a layer norm without its two vectors."""
    centred = a.value - a.value.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    y = centred / scale

    def vjp(g: np.ndarray) -> tuple[np.ndarray]:
        along = (g * y).mean(axis=-1, keepdims=True)
        return ((g - g.mean(axis=-1, keepdims=True) - y * along) / scale,)

    return Tensor(y, (a,), vjp)


def gelu(a: Tensor) -> Tensor:
    """a · Φ(a) by GPT-2's formula with tanh, entry by entry."""
    x, root = a.value, np.sqrt(2 / np.pi)
    t = np.tanh(root * (x + 0.044715 * x * x * x))
    slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 0.134145 * x * x)
    return Tensor(x * (1 + t) / 2, (a,), lambda g: (g * slope,))


Tensor.__repr__ = lambda a: f"Tensor({np.array2string(a.value, separator=', ', prefix='Tensor(')})"
Tensor.T = property(transpose)  # axes in reverse order
Tensor.__neg__, Tensor.__pow__ = lambda a: mul(a, -1), power
Tensor.__add__ = Tensor.__radd__ = add
Tensor.__mul__ = Tensor.__rmul__ = mul
Tensor.__sub__, Tensor.__rsub__ = sub, lambda a, b: sub(b, a)
Tensor.__truediv__, Tensor.__rtruediv__ = div, lambda a, b: div(b, a)
Tensor.__matmul__, Tensor.__rmatmul__ = matmul, lambda a, b: matmul(b, a)
Tensor.exp, Tensor.log, Tensor.tanh, Tensor.relu, Tensor.sigmoid = exp, log, tanh, relu, sigmoid
Tensor.sum, Tensor.reshape, Tensor.transpose = sum, reshape, transpose
Tensor.log_softmax, Tensor.softmax, Tensor.gelu = log_softmax, softmax, gelu
