"""Make the tools of book/tools importable here: they hold the notebooks' one clean form."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book" / "tools"))
