"""What the modules of one kind compute, collected while a `with` block runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn


@contextlib.contextmanager
def recording(model: nn.Module, kind: type[nn.Module]) -> Iterator[list[Any]]:
    """A list that stands as `recorded` in each of the model's modules of a kind, None afterwards.

    A module whose `recorded` is not None appends to it.
    """
    records, modules = [], [m for m in model.modules() if isinstance(m, kind)]
    for module in modules:
        module.recorded = records
    try:
        yield records
    finally:
        for module in modules:
            module.recorded = None
