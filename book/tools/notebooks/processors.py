"""Run the chapters as other processors would, and compare with what is stored.

    python -m book.tools.notebooks.processors            all chapters
    python -m book.tools.notebooks.processors 10 15      some

Four runs: with this machine's instructions and with those of an older one (AVX2, no AVX-512), each
with one thread and with two. Another processor adds the same numbers up in another order; an output
that differs holds more digits than survive that, so print fewer. Needs an x86 processor for the
older one's instructions; elsewhere the two runs with them say nothing new.
"""

from __future__ import annotations

import math
import sys
import time

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from book.tools.notebooks import chapter_paths
from book.tools.notebooks.compare import compare

CELL_TIMEOUT = 600  # seconds; two processes with two threads each share the machine


def older() -> dict[str, str]:
    """What makes torch, MKL, oneDNN, OpenBLAS and numpy leave out what AVX2 does not have.

    numpy refuses the name of a feature that it does not dispatch or the processor does not have.
    """
    newer = [
        name
        for name in __cpu_dispatch__
        if __cpu_features__.get(name) and name.startswith(("AVX512", "X86_V4"))
    ]
    return {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(newer),
    }


def main() -> int:
    chapters = chapter_paths(sys.argv[1:])
    results = {}
    for name, more in {"an older processor": older(), "this processor": {}}.items():
        for threads in (1, 2):
            begin = time.monotonic()
            fixed = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS")}
            code = compare(chapters, more | fixed, CELL_TIMEOUT, budget=math.inf)
            seconds = time.monotonic() - begin
            what = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
            results[what] = f"{'FAILED' if code else 'passed'} in {seconds:.0f} s"
            print(f"{what}: {results[what]}", flush=True)
    print("\n".join(f"{what}: {result}" for what, result in results.items()))
    return int(any(result.startswith("FAILED") for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
