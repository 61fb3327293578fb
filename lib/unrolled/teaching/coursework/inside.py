"""What runs in the sandbox, beside the student's answer: takes arguments in, hands outcomes out.

The text of this module is sent into the sandbox together with that of `wire` and `running`, and
nothing else of the package is in there. It holds no test, no expected value and no reference, so
an answer that takes it over learns only its own arguments, and what it hands out is judged outside.

Both pipes carry JSON. In: a line with the limits, and when the first byte `READY` has gone out, a
line with the program, the answer's name and the encoded arguments. Out: that byte, then either
{"outcomes": […], "seconds": 0.1} or {"stopped": sentence, "seconds": 0.1}.
"""

from __future__ import annotations

import builtins
import json
import linecache
import os
import random
import resource
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.teaching.exercises.engine.running import Outcome, describe_error, run
from unrolled.teaching.exercises.engine.wire import encode

READY = b"+"
_FILE = "<answer>"


def main(channel: int) -> None:
    """Read a request from the standard input, answer it on the file descriptor, and end."""
    write, leave, dumps, clock = (
        os.write,
        os._exit,
        json.dumps,
        time.process_time,
    )  # as they are now
    limits = json.loads(sys.stdin.buffer.readline())
    write(channel, READY)
    request = json.loads(sys.stdin.buffer.readline())
    _close_the_doors(limits)
    start = clock()
    try:
        reply = _reply(request)
    except BaseException as error:  # whatever the answer raises; KeyboardInterrupt, too
        reply = {"stopped": f"the program stops with {_said(error)}"}
    data = dumps({**reply, "seconds": clock() - start}).encode()
    while data:
        data = data[write(channel, data) :]
    leave(0)  # at once: no thread, no atexit of the answer's comes after it


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
    """The address space that Python and numpy take up before the answer begins."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 2**30


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    name, source = request["name"], request["program"]
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # where a dataclass looks for itself
    exec(compile(source, _FILE, "exec"), vars(module))
    if name not in vars(module):
        return {"stopped": f"the program defines no `{name}`"}
    answer, arguments = vars(module)[name], request["arguments"]
    if request["is_value"]:
        return {"outcomes": [_crossing({"value": encode(answer), "mutated": []})]}
    if answer is Ellipsis:
        return {"outcomes": [{"value": encode(answer), "mutated": []} for _ in arguments]}
    if not callable(answer):
        kind = type(answer).__name__
        return {"stopped": f"`{name}` is a thing of type {kind}, not a function or a class"}
    use = _use(request["use_source"])
    return {"outcomes": [_outcome(answer, args, use) for args in arguments]}


def _use(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, "<use>", "exec"), names)
    return names.get("use")


def _outcome(answer: Any, args: Any, use: Any) -> Outcome:
    try:
        return _crossing(run(answer, [args], use)[0])
    except BaseException as error:  # KeyboardInterrupt, and kinds of the answer's own
        return {"error": describe_error(error, answer), "mutated": []}


def _crossing(outcome: Outcome) -> Outcome:
    """The outcome, or that it cannot be written as JSON: an object's methods may lie."""
    try:
        json.dumps(outcome, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        named = f"thing that cannot cross ({type(error).__name__})"
        return {"value": {"unknown": named}, "mutated": []}
    return outcome


def _said(error: BaseException) -> str:
    said = describe_error(error, None, _FILE)
    message, line, text = said["message"], said["line"], said["text"]
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        message, line, text = error.msg, error.lineno, (error.text or "").strip()
    where = f" (line {line}: `{text}`)" if line else ""
    return f"{said['type']}: {message}{where}"
