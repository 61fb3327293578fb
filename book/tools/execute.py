"""The former place of `python -m book.tools.notebooks.execute`."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
runpy.run_module("book.tools.notebooks.execute", run_name="__main__")
