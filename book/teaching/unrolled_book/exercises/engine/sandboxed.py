"""What runs in the sandbox, beside the student's answer: takes arguments in, hands outcomes out.

The text of this module is sent into the sandbox together with that of `wire` and `running`, and
nothing else of the package is in there. It holds no test, no expected value and no reference, so
an answer that takes it over learns only its own arguments, and what it hands out is judged outside.

Both pipes carry JSON, a document to a line. In: the limits, and when the first byte `READY` has
gone out, the program, the answer's name and the encoded arguments. Out: that byte, an outcome for
each call or {"stopped": what}, and last {"seconds": 0.1}.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import random
import resource
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import apart
from .running import Outcome, attempt, describe_error, prints
from .wire import decode, encode

if importlib.util.find_spec("torch"):  # where it is allowed; its address space is not the answer's
    import torch  # noqa: F401

READY = b"+"
_FILE = "<answer>"


def main(channel: int, *pipes: int) -> None:
    """Read a request from the standard input, answer it on the file descriptor, and end.

    pipes: from and to the other side, where `use` and the answer are kept `apart`.
    """
    # As they are now, before the answer can put something else in their place.
    send, leave, dumps, clock = _sender(channel), os._exit, json.dumps, time.process_time
    limits = json.loads(sys.stdin.buffer.readline())
    os.write(channel, READY)
    request = json.loads(sys.stdin.buffer.readline())
    _close_the_doors(limits)
    start = clock()
    try:
        peer = apart.Peer(*pipes) if pipes else None
        outcomes = _outcomes(request, peer)
    except BaseException as error:  # whatever the program raises; KeyboardInterrupt, too
        send(dumps({"stopped": _stopped(error)}))
    else:
        for outcome in outcomes:
            send(_written(outcome, dumps))
    send(dumps({"seconds": float(clock() - start)}))
    leave(0)  # at once: no thread, no atexit of the answer's comes after it


def _sender(channel: int) -> Callable[[str], None]:
    """What writes a line to the channel, with `os.write` as it is now.

    `main` must not hold it: since Python 3.13 an answer can assign to the variables of every
    function that has called it (PEP 667).
    """
    write = os.write

    def send(text: str) -> None:
        data = text.encode() + b"\n"
        while data:
            data = data[write(channel, data) :]

    return send


def _close_the_doors(limits: dict[str, int]) -> None:
    """No input, nothing printed, and limits which no process in here can raise again."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = {
        "CPU": limits["cpu_seconds"] + int(used.ru_utime + used.ru_stime) + 1,
        "AS": limits["memory_bytes"] + _mapped_bytes(),
        "NPROC": limits["processes"],
        "FSIZE": limits["file_bytes"],
        "NOFILE": 64,
        "CORE": 0,
        "MSGQUEUE": 0,
        "SIGPENDING": 64,
    }
    for name, value in hard.items():
        if hasattr(resource, f"RLIMIT_{name}"):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    builtins.exit = builtins.quit = sys.exit  # -S leaves them out
    random.seed(0)  # what draws from these is marked alike every time
    np.random.seed(0)  # noqa: NPY002


def _mapped_bytes() -> int:
    """The address space that Python, numpy and torch take up before the answer begins."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 2**30


class _Stop(Exception):
    """The program is no answer: the name of the type of what it defines, or None for nothing."""


def _defined(request: dict[str, Any]) -> Any:
    """What the program says that the answer is."""
    name, source = request["name"], request["program"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # where a dataclass looks for itself
    exec(compile(source, _FILE, "exec"), vars(module))
    if name not in vars(module):
        raise _Stop(None)
    answer = vars(module)[name]
    if not (request["is_value"] or answer is Ellipsis or callable(answer)):
        raise _Stop(type(answer).__name__)
    return answer


def _outcomes(request: dict[str, Any], peer: apart.Peer | None) -> Iterator[Outcome]:
    has_use = peer and request["program"] is None
    answer = apart.remote(peer) if has_use else _defined(request)
    if peer and not has_use:
        return apart.serve(peer, answer)
    arguments = [[]] if request["is_value"] else request["arguments"]
    if request["is_value"] or answer is Ellipsis:
        value = encode(answer)
        return ({"value": value, "after": prints(decode(args))} for args in arguments)
    use = _use(request["use_source"])
    return (_outcome(answer, args, use) for args in arguments)


def _use(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, "<use>", "exec"), names)
    return names.get("use")


def _outcome(answer: Any, args: Any, use: Any) -> Outcome:
    try:
        return attempt(answer, args, use)
    except apart.Gone:
        raise
    except BaseException as error:  # KeyboardInterrupt, and kinds of the answer's own
        return {"error": _described(error, answer), "after": []}


def _written(outcome: Outcome, dumps: Callable[..., str]) -> str:
    """The outcome as JSON, or that it cannot be written: an object's methods may lie."""
    try:
        return dumps(outcome, allow_nan=False)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        named = f"thing that cannot cross ({type(error).__name__})"
        return dumps({"value": {"unknown": named}, "after": []})


def _described(error: BaseException, answer: Any, file: str | None = None) -> dict[str, Any]:
    try:
        return describe_error(error, answer, file)
    except BaseException:  # an error whose own methods raise
        return {"type": type(error).__name__, "message": "", "line": None, "text": ""}


def _stopped(error: BaseException) -> Any:
    """A type's name or None, as in `_Stop`; or the error, with the line of the program."""
    if type(error) is _Stop:
        return error.args[0]
    said = _described(error, None, _FILE)
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        said |= {"message": error.msg, "line": error.lineno}
    return said
