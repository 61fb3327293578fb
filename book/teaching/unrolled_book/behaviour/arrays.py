"""What the checks share: their error, and one view of arrays of numpy, torch and our autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from unrolled.models.autograd import Tensor


class BehaviourError(AssertionError):
    """A model, a data set or a gradient is wrong; the message says where."""


def first(mask: np.ndarray) -> tuple[int, ...]:
    """The index of the first True."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def is_torch(a: Any) -> bool:
    """Whether a is torch's, without loading torch."""
    return hasattr(a, "detach")


def array(a: Any) -> np.ndarray:
    """a as a numpy array; bfloat16, which numpy does not have, becomes float32."""
    if isinstance(a, Tensor):
        return a.value
    if is_torch(a):
        a = a.detach().cpu()
        return (a.float() if str(a.dtype) == "torch.bfloat16" else a).numpy()
    return np.asarray(a)


def precision(a: Any) -> float:
    """The distance from 1 to the next number of a's dtype; integers count as float64."""
    if str(getattr(a, "dtype", "")) == "torch.bfloat16":
        return 2.0**-7
    dtype = array(a).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def maker(x: Any) -> Callable[[np.ndarray], Any]:
    """The function that turns a numpy array into an array of x's kind."""
    if isinstance(x, Tensor):
        return Tensor
    if is_torch(x):
        import torch

        return lambda a: torch.as_tensor(a, device=x.device)
    return lambda a: a
