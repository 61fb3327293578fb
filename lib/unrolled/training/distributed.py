"""One fit in many processes: each reads its rows of every batch, and all make the same step.

`launch` starts them on this machine and reports how they ended; torchrun does it for several. Each
process calls `training.fit.fit` with the same arguments. All draw the same batches, and each reads
its `shard` of the rows; gradients of Σ nats / Σ weight over the whole batch are added up, so the
step is that of one process up to rounding. Batch norm sees a shard; dropout draws other masks in
each process. All models start with the parameters of process 0; with `carry_state` all batches need
equally many rows. Process 0 runs a validation function, writes the checkpoint and shows the bar. As
many processes must resume a checkpoint as saved it. Raises ValueError when the processes were given
different things, LostError when another process is gone. Ctrl-C in any process stops all after the
same step.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from unrolled.training.processes import LostError, device, enter, shard
from unrolled.validate import whole

__all__ = ["LostError", "device", "launch", "method_for", "shard"]

GRACE = 1.0  # seconds a process that lost the others waits, so that the cause is reported first


def launch(
    function: Callable,
    n_processes: int,
    *arguments: object,
    timeout: float = 600.0,
    method: str | None = None,
) -> list:
    """function(*arguments) in n_processes new processes that can talk; what each one returned.

    In each of them `fit` finds the others, by NCCL on GPUs and gloo elsewhere, and `device` gives
    its device.

    function: importable, or defined in a notebook where no GPU is used; its arguments and result go
        through pickle.
    timeout: seconds that one process waits for another.
    method: of multiprocessing; None: "fork" for a notebook's function, "spawn" for others.

    When a process fails, the others are ended. Raises LostError if it was killed, RuntimeError with
    its traceback otherwise; both name it. Ctrl-C ends all of them. Checkpoints stay.
    """
    whole("n_processes", n_processes)
    method = method or method_for(function)
    with tempfile.TemporaryDirectory() as folder:
        arguments = (function, arguments, n_processes, folder, timeout)
        context = mp.start_processes(_work, arguments, n_processes, join=False, start_method=method)
        try:
            with _unlogged("torch.multiprocessing.spawn"):  # our error says who ended, and why
                while not context.join():
                    pass
        except mp.ProcessRaisedException as error:
            who, words = f"process {error.error_index} of {n_processes}", error.msg.strip()
            raise RuntimeError(f"{who} raised {words.splitlines()[-1]}\n\n{words}") from None
        except mp.ProcessExitedException as error:
            by, code = error.signal_name, error.exit_code
            end = f"was killed by {by}" if by else f"ended with code {code}"
            raise LostError(
                f"process {error.error_index} of {n_processes} {end}; the others were ended. A fit "
                "with a checkpoint goes on from it when it is launched again"
            ) from None
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(n_processes)]


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Within, this logger passes on errors only."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _work(rank: int, function: Callable, arguments: tuple, n: int, folder: str, timeout: float):
    """What a process does: enter the group, call, leave what was returned in the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends us
    torch.set_num_threads(max(1, torch.get_num_threads() // n))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, n, n)), strict=True))
    enter(init_method=f"file://{folder}/group", rank=rank, world_size=n,
          timeout=timedelta(seconds=timeout))  # fmt: skip
    dist.all_reduce(torch.zeros(1))  # no process goes on, or ends, before all are connected
    try:
        found = pickle.dumps(function(*arguments))
    except LostError:
        time.sleep(GRACE)
        raise
    Path(folder, str(rank)).write_bytes(found)
    dist.destroy_process_group()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(0)  # as a forked process ends; at an ordinary end torch's threads may call abort()


def method_for(function: Callable) -> str:
    """How to start: fork a function that only this process knows, as in a notebook; else spawn."""
    interactive = not hasattr(sys.modules["__main__"], "__file__")
    return "fork" if interactive and function.__module__ == "__main__" else "spawn"
