"""The sandbox in which a student's answer runs: bubblewrap's namespaces, limits, one pipe out.

The process in there sees Python with numpy and scipy, a small /tmp of its own, and nothing else:
no file of the grader's or of another student's, no environment, no network, no other process. It
is given the answer's source and the arguments of the tests, and it hands out what the answer did
with them. The expected values, the reference and the wrong answers stay out here, where
`marking.mark` judges; a forged outcome is an answer like any other.

Where the grader runs as root, a first bubblewrap makes a view of the same few folders which
anybody may read, and the second one starts in there as the user nobody.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unrolled.teaching.coursework import syscalls
from unrolled.teaching.exercises.engine import wire
from unrolled.teaching.exercises.engine.running import Outcome

Encoded = Any  # a list of the arguments of one call, as `wire.encode` writes them

_ENGINE = "unrolled.teaching.exercises.engine."
_HERE = Path(__file__).parent
_PACKAGE = _HERE.parents[1]  # unrolled
# What is sent in: the text of these, which then need nothing else of the package.
_SENT = {
    "wire": Path(wire.__file__),
    "running": Path(wire.__file__).with_name("running.py"),
    "inside": _HERE / "inside.py",
}
_BOOT = """\
import json, sys, types
for name, text in json.loads(sys.stdin.buffer.readline()):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), vars(module))
sys.modules["inside"].main(int(sys.argv[1]))
"""
_READY = b"+"

_NUMBERS = ("numpy", "scipy")
_TORCH = ("torch", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath", "networkx")
_TORCH += ("jinja2", "markupsafe", "filelock", "fsspec")
_LIBRARY = ("__init__.py", "validate.py", "data", "models", "training")  # and no teaching

_NOBODY = 65534
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05  # between two looks at what the processes use
_FILES = 2000  # in /tmp; each costs the kernel a kilobyte, which no limit counts
_CONTAINERS = 200_000  # lists and dicts in what is handed in
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
_TO_ALLOW = (
    "Ubuntu 24.04 needs an AppArmor profile that lets bwrap make user namespaces; Docker needs"
    " --security-opt seccomp=unconfined --security-opt apparmor=unconfined, and as root"
    " --cap-add SYS_ADMIN"
)


class SandboxMissing(RuntimeError):
    """No sandbox can be had on this machine; the message says what to install or to allow."""


@dataclass(frozen=True)
class Limits:
    """What one answer may use, all its processes together where nothing else is said."""

    cpu_seconds: int = 10
    wall_seconds: float = 30.0
    memory_bytes: int = 2**30  # beyond what Python and numpy take
    processes: int = 16  # with their threads
    output_bytes: int = 8 * 2**20  # of all outcomes, as JSON
    file_bytes: int = 16 * 2**20  # of a file, and of /tmp


@dataclass(frozen=True)
class Result:
    """outcomes: as `marking.run` gives them, or None where the process did not deliver; then
    problem is a sentence for the student. seconds: of CPU time."""

    outcomes: list[Outcome] | None
    problem: str
    seconds: float


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
        python = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
        sandbox = Sandbox(unsafe, python, _parts())
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
        request = {
            "program": program,
            "name": name,
            "arguments": arguments,
            "use_source": use_source,
            "is_value": is_value,
        }
        packages = [*_NUMBERS, *(["regex"] if library else []), *(_TORCH if torch else [])]
        with self._started(packages, library, limits) as watch:
            watch.begin(self.parts, limits)
            data, problem = watch.end(json.dumps(request).encode() + b"\n")
        seconds = min(watch.seconds, limits.wall_seconds)
        if problem:
            return Result(None, problem, seconds)
        return _read(data, 1 if is_value else len(arguments), seconds)

    @contextmanager
    def _started(self, packages: list[str], library: bool, limits: Limits) -> Iterator[_Watch]:
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
                        [*command, "-s", "-S", "-P", "-B", "-c", _BOOT, str(out)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        pass_fds=(out, rules),
                        start_new_session=True,
                        **{"env": {}, "cwd": "/", **options},
                    )
                finally:
                    os.close(rules)
            finally:
                os.close(out)
            watch = _Watch(process, channel)
            stack.callback(watch.close)
            yield watch

    # ---- what the process sees -------------------------------------------------------------------

    def _wrapped(self, packages: list[str], library: bool, limits: Limits, rules: int) -> list[str]:
        binds = _python_binds(self.python) + _package_binds(packages, library)
        python = binds[0][1]
        outer: list[str] = []
        if os.geteuid() == 0:
            tools = [shutil.which("bwrap"), shutil.which("setpriv")]
            outer = [str(tools[0]), "--unshare-ipc", "--unshare-pid", "--unshare-net"]
            outer += ["--die-with-parent", *_view(binds + [(str(t), str(t)) for t in tools if t])]
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
        inner += _view(binds)
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
        for source, inside in _package_binds(packages, library):
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


def _parts() -> str:
    """The modules that are sent in, under short names, since the package is not in there."""
    texts = [(name, path.read_text("utf-8")) for name, path in _SENT.items()]
    return json.dumps([(name, text.replace(f"from {_ENGINE}", "from ")) for name, text in texts])


def _paths(libraries: str, packages: str) -> dict[str, str]:
    return {"PYTHONPATH": packages} | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def _check_bubblewrap() -> None:
    if not shutil.which("bwrap"):
        raise SandboxMissing(_TO_INSTALL)
    says = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, timeout=60)
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


def _view(binds: list[tuple[str, str]]) -> list[str]:
    """bubblewrap's options for a read-only system of these (source, place) and the C library.

    A place's folders are made first, one by one, or they would be the user's alone.
    """
    options: list[str] = []
    folders = {"/"}
    for root in ("/lib", "/lib64"):
        if os.path.islink(root):
            options += ["--symlink", os.readlink(root), root]
    for source, place in binds:
        for folder in reversed(Path(place).parents):
            if str(folder) not in folders:
                folders.add(str(folder))
                options += ["--dir", str(folder)]
        options += ["--ro-bind", source, place]
        if os.path.isdir(source):
            for hidden in [
                *glob.glob(f"{source}/*-packages"),
                *glob.glob(f"{source}/python3*/*-packages"),
            ]:
                at = place + hidden[len(source) :]
                options += ["--tmpfs", at, "--remount-ro", at]
    return options


def _python_binds(python: str) -> list[tuple[str, str]]:
    """The interpreter, its standard library, and the C libraries of the system."""
    get = sysconfig.get_config_var
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binds = [(python, f"/python/bin/{version}")]
    binds += [(sysconfig.get_path("stdlib"), f"/python/{sys.platlibdir}/{version}")]
    shared = Path(str(get("LIBDIR"))) / str(get("INSTSONAME"))
    if get("Py_ENABLE_SHARED") and shared.exists():
        binds += [(str(shared), f"/python/lib/{shared.name}")]
    triple = get("MULTIARCH") or "-"
    for root in ("/lib", "/lib64", "/usr/lib", "/usr/lib64"):
        narrow = f"{root}/{triple}"  # Debian's; its neighbours are programs and their files
        place = narrow if os.path.isdir(narrow) else root
        if os.path.isdir(place) and not os.path.islink(root):
            binds += [(place, place)]
    return binds + [(p, p) for p in ("/etc/ld.so.cache",) if os.path.exists(p)]


def _package_binds(packages: list[str], library: bool) -> list[tuple[str, str]]:
    """The packages one by one: what else is installed, this package above all, stays hidden."""
    binds = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            continue
        folder = spec.submodule_search_locations
        path = Path(folder[0] if folder else spec.origin)
        libraries = path.with_name(f"{path.name}.libs")  # of a wheel, found by their place
        binds += [(str(p), f"/packages/{p.name}") for p in (path, libraries) if p.exists()]
    if library:
        binds += [(str(_PACKAGE / part), f"/packages/unrolled/{part}") for part in _LIBRARY]
    return binds


# ---- the watch over a running answer -------------------------------------------------------------


class _Watch:
    """A started process: it is fed, looked at every 50 ms, and killed with all its children."""

    def __init__(self, process: subprocess.Popen[bytes], channel: int) -> None:
        self.process, self.channel = process, channel
        self.seconds = 0.0
        self._heads: list[int] = []  # pidfds of the first process of each namespace
        os.set_blocking(channel, False)

    def begin(self, parts: str, limits: Limits) -> None:
        """Bring the process to where it waits for the answer."""
        fields = ("cpu_seconds", "memory_bytes", "processes", "file_bytes")
        lines = [parts, json.dumps({name: int(getattr(limits, name)) for name in fields})]
        self._send("".join(line + "\n" for line in lines).encode())
        self.limits = limits
        until = time.monotonic() + _START_SECONDS
        while not (data := self._take(1)):
            if data == b"" or time.monotonic() > until:
                raise RuntimeError(f"the sandbox did not start: {self._last_words()}")
            select.select([self.channel], [], [], 1.0)
        if data != _READY:
            raise RuntimeError(f"the sandbox began with {data!r}, expected {_READY!r}")
        # Before the answer runs: who is first in the namespace takes all others along.
        for pid in _family(self.process.pid)[1:]:
            with suppress(ProcessLookupError):
                self._heads.append(os.pidfd_open(pid))

    def end(self, request: bytes) -> tuple[bytes, str]:
        """What the answer has handed in, and what went wrong ("" if nothing did)."""
        self._send(request)
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        data, limits = bytearray(), self.limits
        until = time.monotonic() + limits.wall_seconds
        look, ended = 0.0, False
        while True:
            ended = self.process.poll() is not None
            while chunk := self._take(2**16):
                data += chunk
                if len(data) > limits.output_bytes:
                    return b"", f"the answer handed in more than {_size(limits.output_bytes)}"
            if ended:
                delivered = data.endswith(b"}") and self.process.returncode == 0
                return bytes(data), "" if delivered else self._ending()
            now = time.monotonic()
            if now > until:
                return b"", f"the answer did not finish within {limits.wall_seconds:g} s"
            if now > look:
                look = now + _LOOK_SECONDS
                if problem := self._look():
                    return b"", problem
            waits = [] if chunk == b"" else [self.channel]
            select.select(waits, [], [], 0.002 if chunk == b"" else _LOOK_SECONDS)

    def close(self) -> None:
        """Kill everything, and wait until the kernel says that it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for head in self._heads:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(head, signal.SIGKILL)
        self.process.wait()
        for head in self._heads:
            select.select([head], [], [], _START_SECONDS)
            os.close(head)
        for pipe in (self.process.stdin, self.process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()

    def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # it has ended; what it said is read elsewhere
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _take(self, n: int) -> bytes | None:
        """Up to n bytes; b"" at the end of the pipe, None where nothing has come yet."""
        try:
            return os.read(self.channel, n)
        except BlockingIOError:
            return None

    def _look(self) -> str:
        """What the answer uses too much of, or ""."""
        pids, limits = _family(self.process.pid), self.limits
        self.seconds = max(self.seconds, sum(map(_cpu_seconds, pids)))
        if self.seconds > limits.cpu_seconds:
            return f"the answer did not finish within {limits.cpu_seconds} s of CPU time"
        if sum(map(_memory_bytes, pids)) > limits.memory_bytes + 2**27:  # numpy itself, and forks
            return f"the answer used more than {_size(limits.memory_bytes)} of memory"
        if any(_files(pid) > _FILES for pid in pids[-1:]):
            return f"the answer made more than {_FILES} files"
        return ""

    def _ending(self) -> str:
        code = self.process.returncode
        ended_by = -code if code < 0 else max(0, code - 128)  # bubblewrap adds 128 to a signal
        if ended_by == signal.SIGKILL and self.seconds > 0.8 * self.limits.cpu_seconds:
            return f"the answer did not finish within {self.limits.cpu_seconds} s of CPU time"
        with suppress(ValueError):
            return f"the answer ended the process ({signal.Signals(ended_by).name})"
        return "the answer ended the process (exit)"

    def _last_words(self) -> str:
        self.process.kill()
        said = self.process.stderr.read(2000).decode("utf-8", "replace").strip()
        return said or "it said nothing"


def _family(pid: int) -> list[int]:
    """The process and all below it, ancestors first; what ends meanwhile is left out."""
    found, last = [pid], 0
    while last < len(found):
        for path in glob.glob(f"/proc/{found[last]}/task/*/children"):
            with suppress(OSError):
                found += map(int, Path(path).read_text().split())
        last += 1
    return found


def _cpu_seconds(pid: int) -> float:
    """Used by the process and by those of its children that it has waited for."""
    with suppress(OSError):
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _memory_bytes(pid: int) -> int:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return sum(int(kb) * 1024 for kb in re.findall(r"(?m)^Rss(?:Anon|Shmem):\s*(\d+)", status))
    return 0


def _files(pid: int) -> int:
    """How many files stand in the /tmp that the process sees."""
    with suppress(OSError):
        found = os.statvfs(f"/proc/{pid}/root/tmp")
        return found.f_files - found.f_ffree
    return 0


# ---- what was handed in --------------------------------------------------------------------------


def _read(data: bytes, n: int, seconds: float) -> Result:
    """The result that the bytes hold; whatever else they hold is one plain problem."""
    problem = "what the answer handed in cannot be read"
    if data.count(b"[") + data.count(b"{") > _CONTAINERS:
        return Result(None, problem, seconds)
    try:
        reply = wire.read(data)
    except ValueError:
        return Result(None, problem, seconds)
    if not isinstance(reply, dict):
        return Result(None, problem, seconds)
    said = reply.get("seconds")
    if isinstance(said, float) and 0 <= said < math.inf:
        seconds = max(seconds, min(said, 10_000.0))
    stopped, outcomes = reply.get("stopped"), reply.get("outcomes")
    if isinstance(stopped, str):
        return Result(None, _plain_text(stopped, 500), seconds)
    if not isinstance(outcomes, list) or len(outcomes) != n:
        return Result(None, problem, seconds)
    checked = [_checked(outcome) for outcome in outcomes]
    if None in checked:
        return Result(None, problem, seconds)
    return Result(checked, "", seconds)


def _checked(outcome: Any) -> Outcome | None:
    """The outcome in the form that `running.run` gives, or None."""
    if not isinstance(outcome, dict):
        return None
    mutated = outcome.get("mutated")
    if not isinstance(mutated, list) or not all(type(i) is int and 0 <= i < 99 for i in mutated):
        return None
    if outcome.keys() == {"value", "mutated"}:
        try:
            wire.decode(outcome["value"])
        except ValueError:
            return {"value": {"unknown": "value that cannot be read"}, "mutated": mutated}
        return outcome
    if outcome.keys() != {"error", "mutated"}:
        return None
    error = outcome["error"]
    if not isinstance(error, dict) or error.keys() != {"type", "message", "line", "text"}:
        return None
    if not all(isinstance(error[part], str) for part in ("type", "message", "text")):
        return None
    if error["line"] is not None and type(error["line"]) is not int:
        return None
    said = {part: _plain_text(error[part], 300) for part in ("type", "message", "text")}
    return {"error": {**said, "line": error["line"]}, "mutated": mutated}


def _plain_text(text: str, longest: int) -> str:
    """The beginning of a text that somebody else wrote, in characters that can be shown."""
    return "".join(c if c.isprintable() else " " for c in text[:longest])


def _size(n_bytes: int) -> str:
    for unit, name in ((2**30, "GB"), (2**20, "MB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:g} {name}"
    return f"{n_bytes} bytes"
