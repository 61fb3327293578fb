"""A plugin of pytest: nbval's kernels are forked from one process that has imported torch.

    python -m pytest --nbval … -p book.tools.verify.kernels

A fresh kernel spends seconds on imports before its first cell, the same in each chapter. So each
worker starts this file once as a program, which imports what is not ours and then forks for every
kernel: what a chapter finds is what it finds in a new process, some modules read already.

With MOVED=1e-6 in the environment each weight is larger or smaller by up to that part of itself
when a training begins. Another processor's rounding does as much sooner or later, so an assertion
that holds by luck falls.

Kernels are spoken to through files, not through ports. A free port is found, closed, and opened by
the kernel a second later. In between another process may take it; then the kernel cannot start, and
after a minute the whole chapter counts as failed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

PRELOADED = (
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipywidgets"),
    *("matplotlib.pyplot", "numpy", "scipy.optimize", "torch", "torch._dynamo"),
)


# ---- in the process that forks -----------------------------------------------------------------


def serve(modules: list[str]) -> None:
    """Import the modules; fork a kernel for each line of standard input; it writes its number."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a program's own folder
    for module in modules:
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        if os.fork() == 0:
            _become_kernel(**json.loads(line))


def _become_kernel(arguments: list[str], cwd: str | None, env: dict[str, str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # before anybody knows the number, and may signal to the group
    print(os.getpid(), flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.environ.clear()
    os.environ.update(env)
    if cwd:
        os.chdir(cwd)
    _move_weights(float(env.get("MOVED", 0)))
    from ipykernel import kernelapp

    # It ends with its parent, whose number ipykernel has looked for at its import: too early here.
    sys.argv = ["kernel", *arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    status = 1
    try:
        kernelapp.launch_new_instance()
        status = 0
    finally:
        os._exit(status)


def _move_weights(by: float) -> None:
    """Let every optimizer of torch begin with other weights, the same for the same weights."""
    if not by:
        return
    import torch

    start = torch.optim.Optimizer.__init__

    def moved(self: torch.optim.Optimizer, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        with torch.no_grad():
            for parameter in itertools.chain(*(group["params"] for group in self.param_groups)):
                parameter.mul_(1 + by * torch.sin(1e6 * parameter))

    torch.optim.Optimizer.__init__ = moved


# ---- in pytest ---------------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    """Let nbval's kernels here be forked; the folder of their sockets goes at the end.

    Elsewhere than on Linux nbval starts its own: Windows has no fork, and Apple's library that
    numpy computes with on macOS does not survive one.
    """
    if sys.platform != "linux":
        if os.environ.get("MOVED"):
            import pytest

            raise pytest.UsageError("MOVED moves the weights in forked kernels, which need Linux")
        return
    import nbval.kernel
    from jupyter_client.provisioning import local_provisioner

    folder = tempfile.TemporaryDirectory(prefix="kernels-")
    config.add_cleanup(folder.cleanup)
    number = itertools.count()

    class Manager(nbval.kernel.KernelManager):
        """A manager of kernels with sockets of their own, whose client loses no message."""

        def __init__(self, **options: Any) -> None:
            super().__init__(transport="ipc", ip=f"{folder.name}/{next(number)}", **options)

        def client(self, **options: Any) -> Any:
            client = super().client(**options)
            client.context.rcvhwm = 0  # it reads when the cell has ended, after all its bars
            return client

    nbval.kernel.KernelManager = Manager
    nursery = Nursery()
    config.add_cleanup(nursery.close)
    local_provisioner.launch_kernel = nursery.launch


class Nursery:
    """The process that forks, started with the first kernel."""

    process: subprocess.Popen | None = None
    preloaded = PRELOADED

    def launch(self, command: list[str], cwd: str | None, env: dict[str, str], **_: Any) -> Any:
        """A kernel's process; command: python -m ipykernel_launcher, and its arguments."""
        if self.process is None:
            env_of_all = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
            self.process = subprocess.Popen(
                [sys.executable, __file__, *self.preloaded],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf8", env=env_of_all,
            )  # fmt: skip
        order = {"arguments": command[3:], "cwd": cwd and str(cwd), "env": dict(env)}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return _forked(int(self.process.stdout.readline()))

    def close(self) -> None:
        if self.process:
            self.process.communicate()  # the end of its input is its end


def _forked(pid: int) -> Any:
    """A process that is no child of ours, with what its provisioner asks of a Popen."""
    import psutil

    class Forked(psutil.Process):
        stdin = stdout = stderr = None

        def poll(self) -> int | None:
            return None if self.is_running() else 0

        def wait(self, timeout: float | None = None) -> int:
            with contextlib.suppress(psutil.NoSuchProcess):
                super().wait(timeout)
            return 0

    return Forked(pid)


if __name__ == "__main__":
    serve(sys.argv[1:])
