"""Run the chapters and compare with their stored outputs: what `make test-notebooks` does.

    python -m book.tools.notebooks.compare            all chapters
    python -m book.tools.notebooks.compare 10 15      some

Two chapters run side by side, the longest first, so that none runs alone for long at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from book.tools.notebooks import ROOT, chapter_paths
from book.tools.notebooks.colab import longest_first


def compare(chapters: list[Path], more: Mapping[str, str] | None = None, timeout: int = 120) -> int:
    """The exit code of comparing the chapters, with more variables in the environment.

    timeout: seconds for one cell.
    """
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env"),
        *("--nbval-sanitize-with", "chapters/tests/sanitize.cfg", "-p", "no:cacheprovider"),
        *(f"--nbval-cell-timeout={timeout}", "-n", "2", "--dist", "loadscope"),
        *("--no-loadscope-reorder", *map(str, longest_first(chapters))),
    ]
    environment = os.environ | {"UNROLLED_STATIC": "1"} | (more or {})
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(compare(chapter_paths(sys.argv[1:])))
