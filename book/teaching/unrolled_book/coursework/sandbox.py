"""The sandbox in which a student's answer runs: bubblewrap's namespaces, limits, one pipe out.

The process in there sees Python with numpy and scipy, a small /tmp of its own, and nothing else:
no file of the grader's or of another student's, no environment, no network, no other process. It
is given the answer's source and the arguments of the tests, and it hands out what the answer did
with them. The expected values, the reference and the wrong answers stay out here, where
`marking.mark` judges; a forged outcome is an answer like any other.

Nothing is concluded in there: an answer can change whatever stands beside it. Values are judged out
here, and so are the arguments, of which a print comes back with each outcome; what an answer must
not build is kept from it by the limits, which are the kernel's.

What this does not keep: an answer knows its own arguments and can tell one test from another; it
can put back an argument that it has changed, or hide the change, where it could have worked on a
copy; random numbers drawn without a seed differ when it is graded again; and a fault of the kernel
itself.

Where the grader runs as root, a first bubblewrap makes a view of the same few folders which
anybody may read, and the second one starts in there as the user nobody.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unrolled_book.coursework import sandbox_files, syscalls
from unrolled_book.coursework.handed_in import Asked, Result, read_result
from unrolled_book.coursework.watch import Limits, Watch
from unrolled_book.exercises.engine import travel
from unrolled_book.exercises.engine.running import prints
from unrolled_book.exercises.engine.wire import decode

__all__ = ["Limits", "Result", "Sandbox", "SandboxMissing"]

Encoded = Any  # a list of the arguments of one call, as `wire.encode` writes them

_BOOT = f"""\
import json, sys, types
{travel.LOADER}
install("engine", json.loads(sys.stdin.buffer.readline()))
sys.modules["engine.sandboxed"].main(*map(int, sys.argv[1:]))
"""
_NOBODY = 65534
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # re-grading gives the same order of every set
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HOME": "/tmp",
    "LC_ALL": "C.UTF-8",
}

_TO_INSTALL = "bubblewrap is missing; as root on Debian or Ubuntu: apt-get install bubblewrap"
_TO_RUN_LINUX = (
    "the sandbox needs Linux, whose namespaces shut an answer in; here is {}. Grade in the book's"
    " container (Dockerfile), or on a Linux machine"
)
_TO_LIMIT = (
    "Windows cannot limit what an answer uses, nor end what it started. Grade in the book's"
    " container (Dockerfile), or on a Linux machine"
)
_TO_ALLOW = (
    "Ubuntu 24.04 needs an AppArmor profile that lets bwrap make user namespaces; Docker needs"
    " --security-opt seccomp=unconfined --security-opt apparmor=unconfined, and as root"
    " --cap-add SYS_ADMIN"
)


class SandboxMissing(RuntimeError):
    """No sandbox can be had on this machine; the message says what to install or to allow."""


@dataclass(frozen=True)
class Sandbox:
    """A way to run answers; `find` gives one. Any number of threads may run answers at once."""

    unsafe: bool
    python: str
    parts: str = field(repr=False)  # the modules that are sent in, a line of JSON

    @staticmethod
    def find(unsafe: bool = False) -> Sandbox:
        """The sandbox of this machine, tried once. SandboxMissing says what to install or allow.

        unsafe: a plain process with limits, another user's when this one is root. An answer in it
        reads every file that everybody may read, and reaches the network.
        """
        if not unsafe:
            _check_bubblewrap()
        elif not hasattr(os, "killpg"):
            raise SandboxMissing(_TO_LIMIT)
        python = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
        parts = json.dumps(travel.texts(travel.ANSWERING))
        sandbox = Sandbox(unsafe, python, parts)
        try:
            result = sandbox.run("answer = 1", "answer", [], is_value=True)
        except (RuntimeError, OSError) as error:
            raise SandboxMissing(_reason(unsafe, error)) from error
        if result.outcomes != [{"value": 1, "mutated": []}]:
            raise SandboxMissing(f"the sandbox starts, but does not answer: {result.problem}")
        return sandbox

    def run(
        self,
        program: str,
        name: str,
        arguments: list[Encoded],
        *,
        use_source: str = "",
        is_value: bool = False,
        library: bool = False,
        torch: bool = False,
        limits: Limits | None = None,
    ) -> Result:
        """What `name` of the program does with each of the encoded arguments, in fresh processes.

        use_source, is_value: as the exercise has them. library: whether `unrolled` may be
        imported in there, without its teaching; torch likewise. RuntimeError where the sandbox
        does not start; what the answer does never raises anything.
        """
        limits = limits or Limits()
        if own := re.search(r"(?m)^memory_mb = (\d+)\b", use_source):
            limits = replace(limits, memory_bytes=int(own[1]) * 2**20)
        request = {
            "program": program,
            "name": name,
            "arguments": arguments,
            "use_source": use_source,
            "is_value": is_value,
        }
        packages = list(sandbox_files.NUMBERS)
        packages += (["regex"] if library else []) + (list(sandbox_files.TORCH) if torch else [])
        before = [prints(decode(args)) for args in ([[]] if is_value else arguments)]
        asked = Asked(name, program, before)
        start = partial(self._started, packages, library)
        if re.search(r"(?m)^apart = True\b", use_source):
            return _run_apart(start, self.parts, request, limits, asked)
        with start(limits) as watch:
            watch.begin(self.parts)
            data, problem = watch.end(_line(request))
        return read_result(data, asked, problem, watch.seconds, float(limits.cpu_seconds))

    @contextmanager
    def _started(
        self, packages: list[str], library: bool, limits: Limits, pipes: tuple[int, ...] = ()
    ) -> Iterator[Watch]:
        with ExitStack() as stack:
            channel, out = os.pipe()
            stack.callback(os.close, channel)
            try:
                # The pipe holds the filter until bubblewrap has read it; that is 1 kB of 64.
                rules, fill = os.pipe()
                try:
                    os.write(fill, b"" if self.unsafe else syscalls.refusing_filter())
                finally:
                    os.close(fill)
                try:
                    if self.unsafe:
                        home = stack.enter_context(tempfile.TemporaryDirectory())
                        command, options = self._plain(Path(home), packages, library)
                    else:
                        command, options = self._wrapped(packages, library, limits, rules), {}
                    process = subprocess.Popen(
                        [*command, "-s", "-S", "-P", "-B", "-c", _BOOT, *map(str, (out, *pipes))],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        pass_fds=(out, rules, *pipes),
                        start_new_session=True,
                        **{"env": {}, "cwd": "/", **options},
                    )
                finally:
                    os.close(rules)
            finally:
                os.close(out)
            watch = Watch(process, channel, limits, own_tmp=not self.unsafe)
            stack.callback(watch.close)
            yield watch

    # ---- what the process sees -------------------------------------------------------------------

    def _wrapped(self, packages: list[str], library: bool, limits: Limits, rules: int) -> list[str]:
        binds = sandbox_files.python_binds(self.python) + sandbox_files.package_binds(
            packages, library
        )
        python = binds[0][1]  # where it stands in there
        outer: list[str] = []
        if os.geteuid() == 0:
            tools = [shutil.which("bwrap"), shutil.which("setpriv")]
            outer = [str(tools[0]), "--unshare-ipc", "--unshare-pid", "--unshare-net"]
            outer += [
                "--die-with-parent",
                *sandbox_files.options(binds + [(str(t), str(t)) for t in tools if t]),
            ]
            # The inner /proc may be new only where an outer one is whole.
            outer += [
                "--dir",
                "/tmp",
                "--bind",
                "/proc",
                "/proc",
                "--dev-bind",
                "/dev",
                "/dev",
                "--",
                str(tools[1]),
            ]
            outer += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--"]
            binds = [(inside, inside) for _, inside in binds]
        inner = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user"]
        inner += ["--disable-userns", "--die-with-parent", "--new-session", "--clearenv"]
        inner += ["--uid", str(_NOBODY), "--gid", str(_NOBODY), "--hostname", "sandbox"]
        inner += sandbox_files.options(binds)
        inner += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
        inner += ["--size", str(limits.file_bytes), "--tmpfs", "/tmp", "--chdir", "/tmp"]
        inner += ["--remount-ro", "/", "--seccomp", str(rules)]
        for variable, value in (_ENVIRONMENT | _paths("/python/lib", "/packages")).items():
            inner += ["--setenv", variable, value]
        return [*outer, *inner, "--", python]

    def _plain(
        self, home: Path, packages: list[str], library: bool
    ) -> tuple[list[str], dict[str, Any]]:
        """The interpreter as it stands, with the packages in a folder of links."""
        for source, inside in sandbox_files.package_binds(packages, library):
            link = home / Path(inside).relative_to("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
        work = home / "work"
        work.mkdir()
        os.chmod(home, 0o755)
        env = _ENVIRONMENT | _paths("", str(home / "packages")) | {"HOME": str(work)}
        options: dict[str, Any] = {"env": env, "cwd": work}
        if os.geteuid() == 0:
            os.chown(work, _NOBODY, _NOBODY)
            options |= {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        return [self.python], options


def _run_apart(
    start: Callable[..., Any],
    parts: str,
    request: dict[str, Any],
    limits: Limits,
    asked: Asked,
) -> Result:
    """The answer in one sandbox, `use` in another, and pipes between them."""
    of_use = request | {"program": None}
    of_answer = request | {"arguments": [], "use_source": ""}
    longer = replace(limits, wall_seconds=2 * limits.wall_seconds)  # it waits for the other
    most = float(limits.cpu_seconds)
    with ExitStack() as stack:
        pipes = [*os.pipe(), *os.pipe()]
        try:
            answering = stack.enter_context(start(limits, (pipes[0], pipes[3])))
            using = stack.enter_context(start(longer, (pipes[2], pipes[1])))
        finally:
            for pipe in pipes:
                os.close(pipe)
        answering.begin(parts)
        using.begin(parts)
        with ThreadPoolExecutor(1) as pool:
            its_end = pool.submit(answering.end, _line(of_answer))
            data, problem = using.end(_line(of_use))
            if not problem:
                answering.kill()
            said, cause = its_end.result()
        seconds = answering.seconds + using.seconds
        if problem and (cause or problem.startswith("the answer ended")):  # the other side did
            problem = read_result(said, replace(asked, before=[[]]), cause, 0.0, 0.0).problem
        return read_result(data, asked, problem, seconds, most)


def _line(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _paths(libraries: str, packages: str) -> dict[str, str]:
    return {"PYTHONPATH": packages} | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def _check_bubblewrap() -> None:
    if sys.platform != "linux":
        raise SandboxMissing(_TO_RUN_LINUX.format(sys.platform))
    if not shutil.which("bwrap"):
        raise SandboxMissing(_TO_INSTALL)
    says = subprocess.run(["bwrap", "--help"], capture_output=True, encoding="utf8", timeout=60)
    lacking = [o for o in ("--disable-userns", "--size") if o not in says.stdout + says.stderr]
    if lacking:
        raise SandboxMissing(f"this bubblewrap has no {lacking[0]}; version 0.8 or newer is needed")
    try:
        syscalls.refusing_filter()
    except ValueError as error:
        raise SandboxMissing(str(error)) from error


def _reason(unsafe: bool, error: Exception) -> str:
    if unsafe:
        return f"a plain process cannot be started as another user ({error})"
    return f"bubblewrap is here, but cannot make its namespaces ({error}). {_TO_ALLOW}"
