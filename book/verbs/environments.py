"""Verbs that make the environments, and ask for what is not Python's."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from book.verbs import verb
from book.verbs.system import CONTAINER, ROOT, VENV, Stop, debian, given, program, run

COLAB = ROOT / ".venv-colab"
OURS = ("lib/pyproject.toml", "book/teaching/pyproject.toml")


@verb()
def env() -> None:
    """Install everything into .venv"""
    if _stale(VENV, "requirements.txt", "requirements.lock", *OURS):
        _install_locked(VENV, "requirements")
        pip(VENV, "--no-deps", "--no-build-isolation", "-e", "./lib", "-e", "./book/teaching")
        (VENV / ".ready").touch()


@verb(hidden=True)
def env_colab() -> None:
    """Install what Colab has into .venv-colab"""
    if _stale(COLAB, "requirements.txt", "requirements-colab.lock"):
        _install_locked(COLAB, "requirements-colab")
        (COLAB / ".ready").touch()


@verb(env)
def lock() -> None:
    """Write the lock files from requirements*.txt (UPGRADE=--upgrade: newest of what these need)"""
    with tempfile.TemporaryDirectory() as folder:
        without = Path(folder, "without.txt")
        without.write_text('torch; python_version < "3"\n', "utf8")
        for name in ("requirements", "requirements-colab"):
            asked = Path(folder, f"{name}.txt")
            text = (ROOT / f"{name}.txt").read_text("utf8")
            asked.write_text(re.sub(r"(?m)^torch==.*\n", "", text), "utf8")
            run("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11",
                "--generate-hashes", "--override", without, "--no-annotate", "--no-header",
                *given("UPGRADE").split(), "--output-file", f"{name}.lock", asked)  # fmt: skip


def pip(environment: Path, *arguments: str) -> None:
    """Install with uv, the locked one where the machine has none, or with pip."""
    here = program("python", environment)
    if uv := shutil.which("uv") or _locked_uv(environment):
        links = {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
        run(uv, "pip", "install", "--quiet", "--python", here, *arguments, more=links)
    else:
        run(here, "-m", "pip", "install", "--quiet", *arguments)


def _locked_uv(environment: Path) -> Path | None:
    """uv in the environment, installed by its hash; None where that cannot be done."""
    uv = program("uv", environment)
    if not uv.exists():
        lock = (ROOT / "requirements.lock").read_text("utf8")
        with tempfile.TemporaryDirectory() as folder:
            wanted = Path(folder, "uv.lock")
            wanted.write_text(re.search(r"(?m)^uv==.*(\n .*)*", lock)[0] + "\n", "utf8")
            command = [program("python", environment), "-m", "pip", "install", "--quiet"]
            command += ["--require-hashes", "-r", wanted]
            done = subprocess.run(command, stderr=subprocess.DEVNULL)
        if done.returncode:
            return None
    return uv


def _stale(environment: Path, *made_from: str) -> bool:
    """Whether the environment is missing, begun and not finished, or older than its lists."""
    stamp = environment / ".ready"
    if not stamp.exists():
        return True
    return any((ROOT / name).stat().st_mtime > stamp.stat().st_mtime for name in made_from)


def _install_locked(environment: Path, name: str) -> None:
    """The locked packages, each checked by its hash, then torch.

    The lock names all that they need but torch, so nothing more is looked for (--no-deps). An
    environment is whole when its file .ready exists; one that is not is made anew.
    """
    stamp = environment / ".ready"
    if not stamp.exists():
        print(f"env: making {environment.name}", flush=True)
        # Of the Python that this one's environment was made with: it may be the one made anew.
        maker = getattr(sys, "_base_executable", None) or sys.executable
        if subprocess.run([maker, "-m", "venv", "--clear", environment]).returncode:
            raise Stop(
                "env: the module venv is missing or failed (Debian: apt-get install python3-venv)"
            )
    stamp.unlink(missing_ok=True)
    print(f"env: installing {name}.lock into {environment.name} (once; minutes on a slow line)",
          flush=True)  # fmt: skip
    pip(environment, "--no-deps", "--require-hashes", "-r", f"{name}.lock")
    text = (ROOT / "requirements.txt").read_text("utf8")
    pip(environment, re.search(r"(?m)^torch==\S+", text)[0])


@verb()
def browser() -> None:
    """Install Chromium for the browser tests (Debian, root or sudo)"""
    debian("browser", "chromium", "chromium")


@verb()
def sandbox() -> None:
    """Install bubblewrap, in which the grader runs answers (UNROLLED_NO_SANDBOX=1: do without)"""
    if given("UNROLLED_NO_SANDBOX"):
        return
    if platform.system() != "Linux":
        here = platform.system()
        raise Stop(
            f"sandbox: answers run in namespaces of Linux, which {here} has not: {CONTAINER}, "
            "or UNROLLED_NO_SANDBOX=1"
        )
    debian("sandbox", "bubblewrap", "bwrap")


@verb(hidden=True)
def node() -> None:
    """Install npm and node"""
    debian("live", "npm", "npm")


@verb(hidden=True)
def compiler() -> None:
    """Install a compiler of C++"""
    debian("test-cuda", "g++", "g++")
