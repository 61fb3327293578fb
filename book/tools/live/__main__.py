"""Write the bundle into `_build/live`: `python -m book.tools.live`."""

from __future__ import annotations

import sys

from book.tools.live.bundle import OUT, build
from book.tools.live.packages import NoBundle

try:
    files = build()
except NoBundle as why:
    sys.exit(f"live: no exercises in the page: {why}")
OUT.mkdir(parents=True, exist_ok=True)
for name, data in files.items():
    (OUT / name).write_bytes(data)
print(f"live: {sum(map(len, files.values())):,} bytes in {OUT}")
