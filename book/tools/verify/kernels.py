"""A plugin of pytest: nbval's kernels are spoken to through files, not through ports.

    python -m pytest --nbval … -p book.tools.verify.kernels

A free port is found, closed, and opened by the kernel a second later. In between another process
may take it; then the kernel cannot start, and after a minute the whole chapter counts as failed.
"""

from __future__ import annotations

import itertools
import tempfile

import nbval.kernel
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Give each kernel of this process sockets of its own in a folder that goes at the end."""
    folder = tempfile.TemporaryDirectory(prefix="kernels-")
    config.add_cleanup(folder.cleanup)
    number = itertools.count()
    start = nbval.kernel.KernelManager

    def manager(**options: object) -> nbval.kernel.KernelManager:
        return start(transport="ipc", ip=f"{folder.name}/{next(number)}", **options)

    nbval.kernel.KernelManager = manager
