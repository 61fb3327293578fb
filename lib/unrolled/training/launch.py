"""Starting the processes of a distributed fit on one machine, and telling how they ended."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait

import torch
import torch.distributed as dist

GRACE = 5.0  # seconds that the others have to name a cause, when one may report a consequence


class LostError(RuntimeError):
    """A process of a distributed run is gone; `ranks` lists which, as far as it is known."""

    def __init__(self, message: str, ranks: list[int]) -> None:
        super().__init__(message)
        self.ranks = ranks


def launch(
    function: Callable,
    n_processes: int,
    *arguments: object,
    timeout: float = 600.0,
    method: str | None = None,
) -> list:
    """function(*arguments) in n_processes new processes that can talk; what each one returned.

    In each of them `distributed.fit` finds the others and `distributed.device` its device. On GPUs
    they talk by NCCL, otherwise by gloo. For several machines there is torchrun, which starts a
    script that calls the same functions.

    function: importable, or defined in a notebook where no GPU is used. What it takes and returns
        goes through pickle.
    timeout: seconds that one process waits for another.
    method: of multiprocessing; None: "fork" for a notebook's function, "spawn" for others.

    When one process fails the others are ended, and LostError is raised if it was killed, or
    RuntimeError with its traceback, either naming it. Ctrl-C ends all of them. Checkpoints stay.
    """
    if n_processes < 1:
        raise ValueError(f"n_processes must be at least 1, got {n_processes}")
    context = multiprocessing.get_context(method or method_for(function))
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes, pipes = [], []
    try:
        for rank in range(n_processes):
            ours, theirs = context.Pipe(duplex=False)
            place = (rank, n_processes, store.port, timeout)
            work = context.Process(target=_work, args=(function, arguments, place, theirs))
            work.start()
            theirs.close()  # so that a process that is gone leaves an end
            processes.append(work)
            pipes.append(ours)
        return _collected(processes, pipes)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()
        # Here, not when a traceback that holds this frame is collected: maybe in a later fork,
        # which has no copy of the store's thread and would wait for its end.
        del store


def method_for(function: Callable) -> str:
    """fork for a function that only this process knows, as in a notebook, or else spawn."""
    interactive = not hasattr(sys.modules["__main__"], "__file__")
    return "fork" if interactive and function.__module__ == "__main__" else "spawn"


def join() -> None:
    """Enter the group of processes that torchrun has started, unless there is none or we are in."""
    if not dist.is_available() or dist.is_initialized() or "WORLD_SIZE" not in os.environ:
        return
    _enter()
    atexit.register(_leave)


def device() -> torch.device:
    """This process's own GPU where there is one for each on this machine, the CPU otherwise."""
    rank, n = (
        int(os.environ.get(f"LOCAL_{name}", d)) for name, d in (("RANK", 0), ("WORLD_SIZE", 1))
    )
    return torch.device("cuda", rank) if torch.cuda.device_count() >= n else torch.device("cpu")


def _enter(**options: object) -> None:
    own = device()
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", **options)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _work(function: Callable, arguments: tuple, place: tuple, pipe) -> None:
    """What a process does: enter, call, send (kind, what), where kind is done, failed, cut or lost.

    cut is a RuntimeError, which is what a backend raises when another process is gone.
    """
    rank, n, port, timeout = place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends us
    torch.set_num_threads(max(1, torch.get_num_threads() // n))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, n, n)), strict=True))
    try:
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
        _enter(store=store, rank=rank, world_size=n, timeout=timedelta(seconds=timeout))
        message = "done", function(*arguments)
        _leave()
        content = pickle.dumps(message)
    except LostError as error:
        content = pickle.dumps(("lost", (str(error), error.ranks)))
    except BaseException as error:
        words = "".join(traceback.format_exception(error))
        kind = "cut" if isinstance(error, RuntimeError) else "failed"
        content = pickle.dumps((kind, (f"{type(error).__name__}: {error}", words)))
    pipe.send_bytes(content)
    pipe.close()


def _collected(processes: list, pipes: list) -> list:
    """What each process returned; raises for the first cause of a failure that can be told."""
    outcomes, until = {}, None
    while len(outcomes) < len(processes):
        left = None if until is None else max(0.0, until - time.monotonic())
        open_pipes = [pipe for rank, pipe in enumerate(pipes) if rank not in outcomes]
        ready = wait(open_pipes, left)
        if not ready:
            break
        for rank, pipe in enumerate(pipes):
            if pipe in ready:
                outcomes[rank] = _outcome(processes[rank], pipe)
        _raise_first(outcomes, len(processes), "ended", "failed")
        if until is None and any(kind != "done" for kind, _ in outcomes.values()):
            until = time.monotonic() + GRACE
    _raise_first(outcomes, len(processes), "cut", "lost")
    for process in processes:
        process.join(GRACE)
    return [outcomes[rank][1] for rank in range(len(processes))]


def _outcome(process, pipe) -> tuple[str, object]:
    """(kind, what) as sent, or ("ended", how) of a process that sent nothing."""
    with contextlib.suppress(EOFError, OSError):
        return pickle.loads(pipe.recv_bytes())
    process.join()
    code = process.exitcode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return "ended", how


def _raise_first(outcomes: dict, n: int, *kinds: str) -> None:
    """Raise what the first outcome of these kinds tells, the kinds in order; none: do nothing."""
    for sought in kinds:
        for rank, (kind, content) in outcomes.items():
            if kind != sought:
                continue
            if kind == "ended":
                raise LostError(
                    f"process {rank} of {n} {content}; the others were ended. A fit with a "
                    "checkpoint goes on from it when it is launched again",
                    [rank],
                )
            if kind == "lost":
                raise LostError(*content)
            raise RuntimeError(f"process {rank} of {n} raised {content[0]}\n\n{content[1]}")
