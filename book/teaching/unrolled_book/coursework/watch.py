"""The watch over a running answer: it is fed, looked at every 50 ms, and killed with its children.

The limits of a single process are set inside, where they cannot be raised again. What only the sum
shows is looked up here: the CPU time and the memory of all processes, and the number of files.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_READY = b"+"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_FILES = 2000  # in /tmp; each costs the kernel a kilobyte, which no limit counts
_OWN_MEMORY = 2**27  # what Python, numpy and a few forks of them take beside the answer


@dataclass(frozen=True)
class Limits:
    """What one answer may use, all its processes together where nothing else is said."""

    cpu_seconds: int = 10
    wall_seconds: float = 30.0
    memory_bytes: int = 2**30  # beyond what Python, numpy and torch take
    processes: int = 16  # with their threads
    output_bytes: int = 8 * 2**20  # of all outcomes, as JSON
    file_bytes: int = 16 * 2**20  # of a file, and of /tmp


class Watch:
    """Over one started process, whose outcomes come through the pipe `channel`."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: int, limits: Limits, own_tmp: bool
    ) -> None:
        self.seconds = 0.0  # of CPU time, as far as they have been seen
        self._process, self._channel, self._limits = process, channel, limits
        self._own_tmp = own_tmp
        self._heads: list[int] = []  # pidfds of what stands above the answer
        os.set_blocking(channel, False)

    def begin(self, parts: str) -> None:
        """Send the modules in and wait for the first byte. RuntimeError where none comes."""
        self._send(f"{parts}\n{json.dumps(asdict(self._limits))}\n".encode())
        until = time.monotonic() + _START_SECONDS
        while (first := self._take(1)) is None and time.monotonic() < until:
            _wait([self._channel], 1.0)
        if first != _READY:
            self._process.kill()
            said = self._process.stderr.read(2000).decode("utf-8", "replace").strip()
            raise RuntimeError(f"the sandbox did not start: {said or 'it said nothing'}")
        # Before the answer runs: a namespace ends with the process that is first in it.
        for pid in _family(self._process.pid)[1:]:
            with suppress(ProcessLookupError):
                self._heads.append(os.pidfd_open(pid))

    def end(self, request: bytes) -> tuple[bytes, str]:
        """What the answer has handed in, and what ended it before its end ("" if nothing did)."""
        self._send(request)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        data, limits, look = bytearray(), self._limits, 0.0
        until = time.monotonic() + limits.wall_seconds
        while True:
            ended = self._process.poll() is not None
            while chunk := self._take(2**16):
                data += chunk
                if len(data) > limits.output_bytes:
                    return b"", f"the answer handed in more than {_size(limits.output_bytes)}"
            if ended:
                return bytes(data), self._ending()
            now = time.monotonic()
            if now > until:
                return bytes(data), f"the answer did not finish within {limits.wall_seconds:g} s"
            if now > look:
                look = now + _LOOK_SECONDS
                if problem := self._look():
                    return bytes(data), problem
            closed = chunk == b""  # then only its end can still come
            _wait([] if closed else [self._channel], 0.002 if closed else _LOOK_SECONDS)

    def kill(self) -> None:
        """End the process; `end`, which may wait in another thread, then returns."""
        self._process.kill()

    def close(self) -> None:
        """Kill all of them, and wait until the kernel says that they are gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for head in self._heads:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(head, signal.SIGKILL)
        self._process.wait()
        for head in self._heads:
            _wait([head], _START_SECONDS)
            os.close(head)
        for pipe in (self._process.stdin, self._process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()

    def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # it has ended; what it said is read elsewhere
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _take(self, n: int) -> bytes | None:
        """Up to n bytes; b"" at the end of the pipe, None where nothing has come yet."""
        try:
            return os.read(self._channel, n)
        except BlockingIOError:
            return None

    def _look(self) -> str:
        """What the answer uses too much of, or ""."""
        pids, limits = _family(self._process.pid), self._limits
        self.seconds = max(self.seconds, sum(map(_cpu_seconds, pids)))
        if self.seconds > limits.cpu_seconds:
            return self._out_of_time()
        if sum(map(_memory_bytes, pids)) > limits.memory_bytes + _OWN_MEMORY:
            return f"the answer used more than {_size(limits.memory_bytes)} of memory"
        if self._own_tmp and _files(pids[-1]) > _FILES:
            return f"the answer made more than {_FILES} files"
        return ""

    def _out_of_time(self) -> str:
        return f"the answer did not finish within {self._limits.cpu_seconds} s of CPU time"

    def _ending(self) -> str:
        code = self._process.returncode
        ended_by = -code if code < 0 else max(0, code - 128)  # bubblewrap adds 128 to a signal
        if ended_by == signal.SIGKILL and self.seconds > 0.8 * self._limits.cpu_seconds:
            return self._out_of_time()
        if ended_by in set(signal.Signals):
            return f"the answer ended the process ({signal.Signals(ended_by).name})"
        return "the answer ended the process (exit)" if code else ""


def _wait(descriptors: list[int], seconds: float) -> None:
    """Until one of the descriptors has something to say, or the time is over."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(1000 * seconds)


def _family(pid: int) -> list[int]:
    """The process and all below it, ancestors first; what ends meanwhile is left out."""
    found = [pid]
    for each in found:  # which grows
        with suppress(OSError):
            for task in os.listdir(f"/proc/{each}/task"):
                children = Path(f"/proc/{each}/task/{task}/children").read_text("utf8")
                found += map(int, children.split())
    return found


def _cpu_seconds(pid: int) -> float:
    """Used by the process and by those of its children that it has waited for."""
    with suppress(OSError):
        ticks = Path(f"/proc/{pid}/stat").read_text("utf8").rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _memory_bytes(pid: int) -> int:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        return sum(
            int(kb) * 1024
            for kb in re.findall(r"(?m)^(?:RssAnon|RssShmem|VmSwap):\s*(\d+)", status)
        )
    return 0


def _files(pid: int) -> int:
    """How many files stand in the /tmp that the process sees."""
    with suppress(OSError):
        found = os.statvfs(f"/proc/{pid}/root/tmp")
        return found.f_files - found.f_ffree
    return 0


def _size(n_bytes: int) -> str:
    for unit, name in ((2**30, "GB"), (2**20, "MB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:g} {name}"
    return f"{n_bytes} bytes"
