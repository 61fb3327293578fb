"""Hold what is stored against what other processors compute.

    python -m book.tools.verify.processors              all: what `make test-processors` does
    python -m book.tools.verify.processors 10 15        of the chapters some
    python -m book.tools.verify.processors --generated  the quick form: `make test-stored`

Another processor adds the same numbers up in another order. Switches make the libraries compute as
it would; each row of PROCESSORS runs

- the tests with the mark `stored`: the exercises' cells, the generated pages, the recorded results;
- all notebooks of a course, which must read as they do without the switches;
- the chapters' cells, compared with their stored outputs.

Last, the chapters run once as they are with all weights moved a little before each training
(`MOVED`, see `kernels`): what another processor's rounding may do to a reading, here it does.

What differs holds more digits than survive: print fewer, or begin with other numbers. The quick
form has no trainings and no chapters, and two rows, side by side, whose kernels differ from the
one that this machine runs. A row that this machine cannot run is skipped
and says so; OpenBLAS has fewer kernels than names, so each row says which one ran.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from book.tools.notebooks import ROOT, chapter_paths
from book.tools.notebooks.compare import compare

CELL_TIMEOUT = 600  # seconds; two processes with two threads each share the machine
QUICK = 2  # rows of the quick form
BY_HAND = ("08",)  # it holds torch's training against one without its optimizers
TESTS = ("lib/tests", "book/teaching/tests", "chapters/tests")
# numpy's names of what it may leave out; a newer processor has the older one's as well.
AVX512, AVX2 = ("AVX512", "X86_V4"), ("AVX512", "X86_V4", "X86_V3", "AVX2", "FMA3")


class Processor(NamedTuple):
    """The switches of one row; an empty one is left as it is."""

    name: str  # OpenBLAS's core type
    needs: str  # what this machine's processor must have, by numpy's name
    numpy_without: tuple[str, ...]  # beginnings of names
    torch: str
    mkl: str  # of AMD's processors it has one path for old ones, COMPATIBLE, and one for the others
    onednn: str
    threads: int


# Not every combination, but each switch at each position, with one thread and with two.
PROCESSORS = [
    #         OpenBLAS       needs         numpy    torch      MKL           oneDNN   threads
    Processor("Prescott",    "SSE3",       AVX2,    "default", "COMPATIBLE", "SSE41", 2),
    Processor("Nehalem",     "SSE42",      AVX2,    "default", "COMPATIBLE", "SSE41", 1),
    Processor("Sandybridge", "AVX",        AVX2,    "default", "AVX",        "AVX",   2),
    Processor("Haswell",     "AVX2",       AVX512,  "avx2",    "AVX2",       "AVX2",  1),
    Processor("Zen",         "AVX2",       AVX512,  "avx2",    "AVX2",       "AVX2",  2),
    Processor("SkylakeX",    "AVX512_SKX", (),      "avx512",  "",           "",      1),
    Processor("",            "",           (),      "",        "",           "",      2),
]  # fmt: skip
QUICK_ORDER = ("Nehalem", "Haswell", "SkylakeX", "Sandybridge")  # the first that differ are taken


def switches(processor: Processor) -> dict[str, str]:
    """The environment in which numpy, scipy and torch compute as this processor would."""
    mkl = "MKL_CBWR" if processor.mkl == "COMPATIBLE" else "MKL_ENABLE_INSTRUCTIONS"
    chosen = {
        "OPENBLAS_CORETYPE": processor.name,
        "NPY_DISABLE_CPU_FEATURES": " ".join(_left_out(processor.numpy_without)),
        "ATEN_CPU_CAPABILITY": processor.torch,
        mkl: processor.mkl,
        "ONEDNN_MAX_CPU_ISA": processor.onednn,
    }
    fixed = {f"{name}_NUM_THREADS": str(processor.threads) for name in ("OMP", "MKL", "OPENBLAS")}
    return {name: value for name, value in chosen.items() if value} | fixed


def _left_out(beginnings: tuple[str, ...]) -> list[str]:
    """numpy refuses a name that it does not dispatch or that the processor does not have."""
    return [n for n in __cpu_dispatch__ if __cpu_features__.get(n) and n.startswith(beginnings)]


def lacking(processor: Processor, features: Mapping[str, bool] = __cpu_features__) -> str:
    """A sentence that says what this machine's processor lacks, or nothing."""
    if not processor.needs or features.get(processor.needs):
        return ""
    return f"skipped: the processor of this machine has no {processor.needs}"


_KERNELS = """
import numpy, scipy.linalg, threadpoolctl
found = threadpoolctl.threadpool_info()
print(*sorted({lib["architecture"] for lib in found if lib["internal_api"] == "openblas"}))
"""


def kernel(environment: Mapping[str, str]) -> str:
    """The kernel that numpy's and scipy's OpenBLAS run there, or both if they are two."""
    done = _python("-c", _KERNELS, environment=environment, capture_output=True, text=True)
    return done.stdout.strip()


def others(kernel_of: Callable[[Mapping[str, str]], str] = kernel) -> list[Processor]:
    """QUICK rows whose kernels differ from this machine's own and from each other."""
    found, seen = [], {kernel_of({})}
    by_name = {processor.name: processor for processor in PROCESSORS}
    for processor in map(by_name.get, QUICK_ORDER):
        if lacking(processor) or (ran := kernel_of(switches(processor))) in seen:
            continue
        seen.add(ran)
        found.append(processor)
    return found[:QUICK]


# ---- what is compared ----------------------------------------------------------------------------


def marked(mark: str = "stored") -> list[str]:
    """The files of tests that have the mark, so that no other one is imported."""
    files = [path for folder in TESTS for path in sorted((ROOT / folder).glob("test_*.py"))]
    return [str(p.relative_to(ROOT)) for p in files if f"mark.{mark}" in p.read_text("utf8")]


def stored_tests(environment: Mapping[str, str], mark: str, processes: int) -> str:
    """Run the tests that hold what is stored against what is computed, and print what they say."""
    options = ("-q", "-n", str(processes), "-p", "no:cacheprovider", "-m", mark)
    command = ("-m", "pytest", *options, *marked())
    done = _python(*command, environment=environment, capture_output=True, text=True)
    print(done.stdout + done.stderr, flush=True)
    return "FAILED: tests" if done.returncode else ""


def texts(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The texts of a course's notebooks, as they are written there."""
    file = folder / "texts.json"
    _python("-m", "book.tools.verify.texts", str(file), environment=environment, check=True)
    return json.loads(file.read_text("utf8"))


def differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """A line for each text that is another one, with the first line of it that differs."""
    lines = []
    for name in wanted.keys() | found.keys():
        pairs = zip(*(side.get(name, "").splitlines() for side in (wanted, found)), strict=False)
        if found.get(name) != wanted.get(name):
            here, there = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            lines.append(f"{name}:\n  here  {here.strip()}\n  there {there.strip()}")
    return sorted(lines)


def coursework(environment: Mapping[str, str], wanted: Mapping[str, str], folder: Path) -> str:
    """Hold the notebooks of a course against those that are written without the switches."""
    lines = differing(texts(environment, folder), wanted)
    print(*lines, f"coursework: {len(wanted)} texts, {len(lines)} differ", sep="\n", flush=True)
    return "FAILED: coursework" if lines else ""


def chapters(environment: Mapping[str, str], names: list[str]) -> str:
    """Compare the chapters' cells with their stored outputs."""
    code = compare(chapter_paths(names), environment, CELL_TIMEOUT, budget=math.inf)
    return "FAILED: chapters" if code else ""


def _python(*arguments: str, environment: Mapping[str, str], **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=os.environ | environment, **more
    )


Part = Callable[[Mapping[str, str]], str]  # an environment -> what failed there


def run(processors: list[Processor], parts: list[Part], at_once: int = 1) -> int:
    """Run the parts as each processor; print a table of what came of it. Returns the exit code."""
    with ThreadPoolExecutor(at_once) as pool:
        rows = list(pool.map(lambda processor: row(processor, parts), processors))
    print("\n".join(rows))
    return int(any("FAILED" in row for row in rows))


def row(processor: Processor, parts: list[Part]) -> str:
    """The line of one processor: its name, what ran, and what came of it."""
    name = f"{processor.name or 'as it is'}, {processor.threads} thread(s)"
    if said := lacking(processor):
        return f"{name}: {said}"
    begin, environment = time.monotonic(), switches(processor)
    name += f", OpenBLAS's kernel {kernel(environment)}"
    print(f"--- {name}", flush=True)
    failed = "; ".join(said for part in parts if (said := part(environment)))
    return f"{name}: {failed or f'passed in {time.monotonic() - begin:.0f} s'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("chapters", nargs="*")
    options = parser.parse_args()
    if options.generated:
        rows = others()
        if len(rows) < QUICK:
            print(f"test-stored: this machine can be {len(rows)} of {QUICK} other processors")
        quick = "stored and not trains"
        return run(rows, [lambda there: stored_tests(there, quick, processes=0)], at_once=QUICK)
    with tempfile.TemporaryDirectory() as folder:
        wanted = texts({}, Path(folder))
        parts = [
            lambda there: stored_tests(there, "stored", processes=2),
            lambda there: coursework(there, wanted, Path(folder)),
            lambda there: chapters(there, options.chapters),
        ]
        failed = run(PROCESSORS, parts)
    names = [p.stem for p in chapter_paths(options.chapters) if not p.stem.startswith(BY_HAND)]
    moved = chapters({"MOVED": "1e-6"}, names) if names else ""
    print(f"weights moved by 1e-6: {moved or 'passed'}")
    return int(failed or bool(moved))


if __name__ == "__main__":
    sys.exit(main())
