"""The engine as text, to be installed where the book is not: in a sandbox, in a student's notebook.

Its modules import each other relatively, so that they run under any package's name.
"""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path

ANSWERING = ("wire", "running", "apart", "sandboxed")  # what a sandbox is given
CHECKING = ("wire", "compare", "running", "marking", "self_check")  # what a notebook is given


def texts(names: tuple[str, ...]) -> dict[str, str]:
    """The source of each module, in the order in which they can be run."""
    return {name: Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in names}


def install(package, texts):
    """Make a package of the modules' texts; nothing of it is read from a file."""
    root = sys.modules[package] = types.ModuleType(package)
    root.__path__ = []
    for name, text in texts.items():
        module = types.ModuleType(f"{package}.{name}")
        module.__package__ = package
        setattr(root, name, module)
        sys.modules[module.__name__] = module
        exec(compile(text, f"<{module.__name__}>", "exec"), vars(module))


LOADER = inspect.getsource(install)  # needs `sys` and `types`
