"""Run the book with other versions than the tested ones: what `make test-newest` and `-oldest` do.

    python -m book.tools.verify.versions newest                     library and chapters
    python -m book.tools.verify.versions oldest                     the library
    python -m book.tools.verify.versions newest lib/tests/test_fit.py   a part of either

Both install into an environment that is thrown away: the newest or the oldest versions that
lib/pyproject.toml allows. torch stays the tested one, unless UV_TORCH_BACKEND tells uv which builds
to take (cpu), or `--torch` which version. Chapters run lax: a cell may print something else, but
it may not fail, and its assertions are asserted. Warnings fail nothing here; pytest lists them.
When something breaks, each package in turn is set back to its tested version, and what passes then
broke by that package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from book.tools.notebooks import PACKAGES, ROOT, chapter_paths
from book.tools.notebooks.colab import longest_first
from book.verbs.system import program

# What runs the tests, and what they compare the library with.
TOOLS = (
    *("ipykernel", "nbval", "pytest", "pytest-xdist", "setuptools", "networkx", "sympy"),
    *("hypothesis", "colorspacious", "nltk", "transformers", "tokenizers", "peft", "accelerate"),
)


def tested() -> dict[str, str]:
    """Package -> the version in requirements.txt."""
    text = (ROOT / "requirements.txt").read_text("utf8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def allowed() -> dict[str, str]:
    """Package -> requirement, of what the library and the chapters need: numpy -> numpy>=2.0."""
    found = {}
    for folder in PACKAGES.values():
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf8"))["project"]
        found |= {re.match(r"[\w.-]+", needed)[0]: needed for needed in project["dependencies"]}
    del found["unrolled"]
    return found


class Environment:
    """Python with the newest or the oldest versions, in a folder."""

    def __init__(self, folder: Path, which: str, torch: str) -> None:
        self.python = program("python", folder)
        folder.chmod(0o755)  # the sandbox's other user reads it
        self._uv("venv", "--quiet", "--python", sys.executable, str(folder))
        how = ["--resolution", {"newest": "highest", "oldest": "lowest-direct"}[which]]
        tools = [f"{name}=={tested()[name]}" if which == "oldest" else name for name in TOOLS]
        # torch goes first and stays: the lowest of a version's builds is not its CPU build.
        self.install(torch, *(how if torch != _pin("torch") else ()))
        ours = [word for folder in PACKAGES.values() for word in ("--editable", str(folder))]
        self.install(*how, *ours, *tools)

    def install(self, *arguments: str) -> None:
        """Install packages with uv."""
        self._uv("pip", "install", "--quiet", "--python", str(self.python), *arguments)

    def versions(self) -> dict[str, str]:
        """Package -> version, of all that is installed."""
        listing = ("pip", "list", "--quiet", "--format", "json", "--python", str(self.python))
        return {entry["name"]: entry["version"] for entry in json.loads(self._uv(*listing))}

    def failures(self, targets: Iterable[str]) -> set[str]:
        """The tests that fail, by name; a target is a test, a file of tests or a notebook."""
        with tempfile.TemporaryDirectory() as cache:
            command = [
                *(str(self.python), "-m", "pytest", "-q", "--tb=short", "-o", f"cache_dir={cache}"),
                *("-W", "default", "-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"),
                *("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600", *targets),
            ]
            environment = os.environ | {"UNROLLED_STATIC": "1"}
            code = subprocess.run(command, cwd=ROOT, env=environment).returncode
            last = Path(cache, "v", "cache", "lastfailed")
            failed = set(json.loads(last.read_text("utf8"))) if last.exists() else set()
        if code and not failed:
            raise SystemExit(f"pytest ended with {code} and names no test")
        return failed

    def _uv(self, *arguments: str) -> str:
        find_links = {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
        uv = [sys.executable, "-m", "uv", *arguments]
        done = subprocess.run(
            uv, env=find_links | os.environ, stdout=subprocess.PIPE, encoding="utf8"
        )
        if done.returncode:
            raise SystemExit(done.returncode)
        return done.stdout


def culprits(environment: Environment, failed: set[str], changed: Iterable[str]) -> dict[str, set]:
    """Package -> the failed tests that pass again when it alone has its tested version."""
    found, targets = {}, {_target(test) for test in failed}
    for name in changed:
        version = environment.versions()[name]
        environment.install("--no-deps", f"{name}=={tested()[name]}")
        mended = failed - environment.failures(targets)
        environment.install("--no-deps", f"{name}=={version}")
        if mended:
            found[name] = mended
    return found


def _target(test: str) -> str:
    """What to run again: the test; of a notebook all cells, since each needs those before it."""
    return test.partition("::")[0] if ".ipynb" in test else test


def _pin(name: str) -> str:
    return f"{name}=={tested()[name]}"


def differing(versions: dict[str, str]) -> dict[str, str]:
    """Package -> 'tested → installed', of what the library needs and the tests use."""
    pins = tested()
    pairs = {name: (pins[name], versions[name]) for name in (*allowed(), *TOOLS)}
    return {
        name: f"{pin} → {version}"
        for name, (pin, version) in pairs.items()
        if version.partition("+")[0] != pin
    }


def report(failed: set[str], by_package: dict[str, set], changed: dict[str, str]) -> list[str]:
    """What broke, by package."""
    lines = []
    for name, mended in by_package.items():
        lines += [f"{name} {changed[name]} broke:", *(f"  {test}" for test in sorted(mended))]
    rest = failed.difference(*by_package.values())
    if rest:
        lines += ["the tested version of no single package mends:"]
        lines += [f"  {test}" for test in sorted(rest)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=["newest", "oldest"])
    parser.add_argument("--torch", help="a requirement of torch, like torch>=2.6")
    parser.add_argument("targets", nargs="*", help="tests or notebooks, instead of all")
    options = parser.parse_args()
    torch = allowed()["torch"] if os.environ.get("UV_TORCH_BACKEND") else _pin("torch")
    targets = ["lib/tests", "book/teaching/tests"]
    if options.which == "newest":
        targets += [str(path) for path in longest_first(chapter_paths())]
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder), options.which, options.torch or torch)
        changed = differing(environment.versions())
        said = ", ".join(f"{name} {what}" for name, what in changed.items())
        print(f"{options.which}: {said or 'every package as tested'}", flush=True)
        failed = environment.failures(options.targets or targets)
        by_package = culprits(environment, failed, changed) if failed else {}
    print(*report(failed, by_package, changed), sep="\n")
    print(f"{options.which}: {f'FAILED: {len(failed)} tests' if failed else 'passed'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
