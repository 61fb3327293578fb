"""What the verbs do with the computer: its environments' programs, and what Debian has for it."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
CONTAINER = "use the container (Dockerfile)"


class Stop(Exception):
    """The end of a run: what to say, if anything has to be said, and the exit status."""

    def __init__(self, message: str = "", status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def ready() -> None:
    """Set what every command finds, unless it is set: threads, UTF-8, and compiled files kept."""
    # Two processes on two cores: one thread each is faster and keeps float sums in one order.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    os.environ.setdefault("PYTHONUTF8", "1")  # Windows would print and read in its own code page
    # What is imported is compiled once and kept; without it each kernel would compile torch.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.chdir(ROOT)


def program(name: str, environment: Path = VENV) -> Path:
    """A program of an environment: .venv/bin/ruff, on Windows .venv\\Scripts\\ruff.exe."""
    if os.name == "nt":
        return environment / "Scripts" / f"{name}.exe"
    return environment / "bin" / name


def run(*command: object, shown: bool = False, more: Mapping[str, str] | None = None) -> None:
    """Run a program of .venv, or one given with its folder; Stop if it fails.

    shown: print the command first; more: variables for it.
    """
    first, *rest = map(str, command)
    words = [first if os.path.dirname(first) else str(program(first)), *rest]
    if shown:
        print(" ".join([first, *rest]), flush=True)
    status = subprocess.run(words, cwd=ROOT, env=os.environ | dict(more or {})).returncode
    if status:
        raise Stop(status=status if status > 0 else 128 - status)


def python(*arguments: object, shown: bool = False) -> None:
    """Run .venv's Python."""
    run("python", *arguments, shown=shown)


def given(name: str, default: str = "") -> str:
    """A value from the command line or the environment: ONLY, SHARD."""
    return os.environ.get(name) or default


def debian(verb: str, package: str, command: str) -> None:
    """Install a Debian package where its command is missing; elsewhere say what is missing."""
    if shutil.which(command):
        return
    if platform.system() != "Linux":
        raise Stop(
            f"{verb}: {package} is missing on {platform.system()}; install it, or {CONTAINER}"
        )
    with _one_at_a_time():
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        may = not sudo or (shutil.which("sudo") and _works(*sudo, "true"))
        if not may or not shutil.which("apt-get"):
            raise Stop(f"{verb}: {package} is missing; as root: apt-get install {package}")
        print(f"{verb}: installing the Debian package {package}", flush=True)
        quiet = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
        install = [*quiet, "install", "-y", "--no-install-recommends", package]
        for step in ([*quiet, "update"], install):
            if subprocess.run(step, stdout=subprocess.DEVNULL).returncode:
                raise Stop()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Within, no other stage installs a Debian package."""
    import fcntl  # of Linux and macOS; Windows has none

    with open(ROOT / "Makefile", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _works(*command: str) -> bool:
    return not subprocess.run(command, capture_output=True).returncode


def this_program(*arguments: str) -> list[str]:
    """The command that runs another verb, in a process of its own."""
    return [sys.executable, "-m", "book", *arguments]
