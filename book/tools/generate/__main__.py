"""Write what is generated: `python -m book.tools.generate`, or the names of some."""

from __future__ import annotations

import sys

from book.tools.generate import generators, write

modules = generators()
if unknown := sorted(set(sys.argv[1:]) - set(modules)):
    sys.exit(f"no generator {unknown}; there are {sorted(modules)}")
for name in sys.argv[1:] or modules:
    write(modules[name])
