"""Write the bundle into `_build/live`: `python -m book.tools.live`.

With `--try` the book can do without it: one line says why there is none, and that is no failure.
"""

from __future__ import annotations

import json
import sys

from book.tools.live.bundle import OUT, write
from book.tools.live.packages import NoBundle

try:
    new = write()
except NoBundle as why:
    print(f"live: no exercises are solved in the page, links lead to Colab: {why}")
    sys.exit("--try" not in sys.argv)
manifest = json.loads((OUT / "manifest.json").read_text(encoding="utf-8"))
if new or "--try" not in sys.argv:
    here, elsewhere = len(manifest["exercises"]), len(manifest["elsewhere"])
    size = f"{manifest['total_bytes'] / 1e6:.1f} MB"
    print(f"live: {here} exercises run in the page, {elsewhere} do not; it loads {size}")
