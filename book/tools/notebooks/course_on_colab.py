"""Build a course's editions with Colab's versions and run them there, away from the checkout.

The library that builds them is the installed wheel. The students' notebooks run without it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

_BUILD = """
from pathlib import Path
from unrolled_book.coursework import editions, syllabus
course = Path(syllabus.__file__).parent / "syllabi" / "four_weeks.toml"
editions.build(syllabus.Syllabus.read(course), ".")
"""
_RUN = """
import sys
sys.modules["unrolled"] = sys.modules["unrolled_book"] = None
for path in {paths!r}:
    print("notebook", path)
    get_ipython().run_line_magic("run", path)
"""


def failures(python: Path) -> list[str]:
    """A line for each notebook of a course that does not run there, or prints another thing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment |= {"COURSE_SEED": "a secret of a test", "IPYTHONDIR": folder}
        options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
        subprocess.run([python, "-c", _BUILD], check=True, **options)
        found = []
        for edition, sign in (("student", "○"), ("teacher", "✓")):
            files = sorted(Path(folder, edition).glob("*.ipynb"))
            program = _RUN.format(paths=[str(path) for path in files])
            done = subprocess.run([python, "-m", "IPython", "-c", program], **options)
            printed = (done.stdout + done.stderr).split("notebook ")[1:]
            printed += ["nothing"] * (len(files) - len(printed))  # after an error
            found += [f for pair in zip(files, printed, strict=True) for f in _failure(*pair, sign)]
        return found


def _failure(path: Path, printed: str, sign: str) -> list[str]:
    cells = json.loads(path.read_text("utf8"))["cells"]
    n = sum("".join(cell["source"]).startswith("check(") for cell in cells)
    if re.findall(r"(?m)^[✓✗○]", printed) == [sign] * n and "Traceback" not in printed:
        return []
    return [f"{path.parent.name}/{path.name}: expected {n} times {sign}, got {printed}"]
