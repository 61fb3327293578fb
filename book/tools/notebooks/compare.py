"""Run the chapters and compare with their stored outputs: what `make test-notebooks` does.

    python -m book.tools.notebooks.compare                all chapters
    python -m book.tools.notebooks.compare 10 15          some
    python -m book.tools.notebooks.compare --shard 1/3    a third of them, for a job beside others

Two chapters run side by side, the longest first, so that none runs alone for long at the end. The
run lists the slowest chapters, and fails where one is over its budget (`book.tools.verify.cpu`) or
the answer of a prediction is not what the chapter computes (`book.tools.verify.predictions`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from book.tools.notebooks import ROOT, chapter_paths
from book.tools.notebooks.colab import longest_first, shard

BUDGET = 40  # CPU seconds of a chapter


def compare(
    chapters: list[Path],
    more: Mapping[str, str] | None = None,
    timeout: int = 600,
    budget: float = BUDGET,
) -> int:
    """The exit code of comparing the chapters, with more variables in the environment.

    timeout: seconds for one cell that hangs; budget: CPU seconds for one chapter.
    """
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env"),
        *("--nbval-sanitize-with", "chapters/tests/sanitize.cfg", "-p", "no:cacheprovider"),
        *(f"--nbval-cell-timeout={timeout}", "-n", "2", "--dist", "loadscope"),
        *("--no-loadscope-reorder", "-p", "book.tools.verify.kernels"),
        *("-p", "book.tools.verify.cpu", f"--cpu-budget={budget}"),
        *("-p", "book.tools.verify.predictions"),
        *map(str, longest_first(chapters)),
    ]
    environment = os.environ | {"UNROLLED_STATIC": "1"} | (more or {})
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main() -> int:
    """Compare the chapters that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shard", default="1/1", help="one part of the chapters: 1/3, say")
    parser.add_argument("chapters", nargs="*")
    options = parser.parse_args()
    return compare(shard(chapter_paths(options.chapters), options.shard))


if __name__ == "__main__":
    sys.exit(main())
