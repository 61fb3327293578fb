"""Verbs that check: style, library, chapters, pages, and what they are run with."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import BinaryIO

from book.verbs import verb
from book.verbs.environments import browser, compiler, env, env_colab, node, sandbox
from book.verbs.reading import html, slides
from book.verbs.system import ROOT, Stop, given, program, python, run, this_program

PYTEST = ("-m", "pytest", "-q", "-n", "2")


def stages(names: str, beside: str = "", last: str = "") -> None:
    """Do each verb, also after one that failed; the last lines name those that failed.

    names and beside are done at the same time, since those of beside, one after the other, keep one
    core busy; last comes after both. The pages, if wanted, are built by their own stage.
    """

    def each(verbs: Sequence[str], failed: list[str], out: BinaryIO | None = None) -> None:
        for name in verbs:
            begin = time.monotonic()
            command = this_program(*([] if name == "html" else ["--built"]), name)
            if subprocess.run(command, cwd=ROOT, stdout=out, stderr=out).returncode:
                failed.append(name)
            took = f"{name}: {time.monotonic() - begin:.0f} s"
            out.write(f"{took}\n".encode()) if out else print(took, flush=True)

    failed, failed_beside = [], []
    with tempfile.TemporaryFile(buffering=0) as out:
        thread = threading.Thread(target=each, args=(beside.split(), failed_beside, out))
        thread.start()
        each(names.split(), failed)
        thread.join()
        out.seek(0)
        print(out.read().decode("utf8", "replace"), end="", flush=True)
    failed += failed_beside
    each(last.split(), failed)
    if failed:
        raise Stop(f"FAILED: {' '.join(failed)}")
    print(f"passed: {' '.join(f'{names} {beside} {last}'.split())}")


CHECK = ("lint test-lib test-form",)
TEST = (
    "lint test-lib test-cuda test-form test-stored test-notebooks test-colab",
    "live html",
    "test-browser",
)


@verb(env)
def check() -> None:
    """The fast part of the tests: style, library, form, exercises"""
    stages(*CHECK)


@verb(env, sandbox)
def test() -> None:
    """Everything, as CI runs it"""
    stages(*TEST)


@verb(env)
def lint() -> None:
    """Style: what ruff says, and open code of the chapters that is wider than 80 columns"""
    run("ruff", "check", ".", shown=True)
    run("ruff", "format", "--check", ".", shown=True)
    python("-m", "book.tools.notebooks.weight", "--wide", shown=True)


@verb(env, sandbox)
def test_lib() -> None:
    """Tests of the library"""
    python(*PYTEST, "lib/tests", "book/teaching/tests", shown=True)


@verb(env, compiler)
def test_cuda() -> None:
    """The library's cases for a GPU, on one that is emulated on the CPU"""
    build = [program("python"), "lib/tests/emulated/build.py"]
    status = subprocess.run(build, cwd=ROOT).returncode
    if status == 3:  # it says what is missing; nothing has failed
        return
    if status:
        raise Stop(status=status)
    run("python", *PYTEST, "-p", "emulated", "-m", "cuda", "lib/tests", "book/teaching/tests",
        shown=True, more={"PYTHONPATH": "lib/tests"})  # fmt: skip


@verb(env)
def test_form() -> None:
    """Form of the notebooks, and the exercises with their wrong answers"""
    python(*PYTEST, "chapters/tests", shown=True)


def _shard() -> list[str]:
    return ["--shard", given("SHARD")] if given("SHARD") else []


@verb(env)
def test_notebooks() -> None:
    """Run the chapters and compare with their stored outputs (SHARD=1/3, ONLY=)"""
    python("-m", "book.tools.notebooks.compare", *_shard(), *given("ONLY").split(), shown=True)


@verb(env, env_colab)
def test_colab() -> None:
    """With Colab's versions and the library's wheel: changed chapters, the set-up of others
    (SHARD=)"""
    python("-m", "book.tools.notebooks.colab", *_shard(), shown=True)


@verb(env, env_colab)
def test_colab_all() -> None:
    """The same with all cells of all chapters; writes the record of it"""
    python("-m", "book.tools.notebooks.colab", "--all", shown=True)


@verb(env, sandbox)
def test_newest() -> None:
    """Library and chapters with the newest versions that are allowed (long;
    UV_TORCH_BACKEND=cpu: torch too)"""
    python("-m", "book.tools.verify.versions", "newest", *given("ONLY").split(), shown=True)


@verb(env, sandbox)
def test_oldest() -> None:
    """The library with the oldest versions that are allowed"""
    python("-m", "book.tools.verify.versions", "oldest", *given("ONLY").split(), shown=True)


@verb(env)
def test_stored() -> None:
    """What is generated, held against what two other processors compute"""
    python("-m", "book.tools.verify.processors", "--generated", shown=True)


@verb(env)
def test_processors() -> None:
    """All that is stored, as processors from Prescott to SkylakeX compute it (long;
    ONLY= chapters)"""
    python("-m", "book.tools.verify.processors", *given("ONLY").split(), shown=True)


@verb(env, html, slides, browser)
def test_browser() -> None:
    """The built book in a real browser, and its Python in node (SCREENSHOTS=1: pictures;
    SLOW=1: from a slow host)"""
    python(*PYTEST, "--no-loadscope-reorder", "book/tests", shown=True)


SCHEMAS = {
    "github-workflows": [".github/workflows/*.yml"],
    "github-actions": [".github/actions/*/action.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/*.yml", "!config.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "dependabot": [".github/dependabot.yml"],
    "readthedocs": [".readthedocs.yaml"],
    "citation-file-format": ["CITATION.cff"],
}


@verb(env, node)
def lint_workflows() -> None:
    """Lint what GitHub and Read the Docs read: workflows, forms (needs the package index
    and npm)"""
    python("-m", "book.tools.workflows")
    for schema, (pattern, *but) in SCHEMAS.items():
        files = [path for path in sorted(ROOT.glob(pattern)) if f"!{path.name}" not in but]
        run("uv", "tool", "run", "check-jsonschema==0.39.0",
            "--builtin-schema", f"vendor.{schema}", *files)  # fmt: skip


@verb(env)
def test_wheel() -> None:
    """Build the wheels and source archives into _build/dist, install them in clean environments"""
    python("-m", "book.tools.dist", "--try")
    built = sorted((ROOT / "_build" / "dist").iterdir())
    run("uv", "tool", "run", "twine==6.2.0", "check", "--strict", *built)


@verb(env)
def bench() -> None:
    """Benchmarks, side by side in one run, as ratios"""
    for file in sorted((ROOT / "lib" / "benchmarks").glob("*.py")):
        python(file)


# cosmic-ray comes for this run only. What was found is kept in _build/mutants.
@verb(env)
def mutants() -> None:
    """Mutation score: do the tests notice changed code? (OF=exercises, SAMPLE=, SEED=, ONLY=;
    long)"""
    run("uv", "run", "--quiet", "--no-project", "--python", program("python"),
        "--with", "cosmic-ray==8.7.0", "--with", "coverage==7.17.3",
        "python", "-m", "book.tools.mutants", "--of", given("OF", "library"),
        "--sample", given("SAMPLE", "300"), "--seed", given("SEED", "0"),
        "--only", given("ONLY"))  # fmt: skip
