"""What tools write into the book from the library: pages, parts of pages, a file of weights.

    python -m book.tools.generate            write all
    python -m book.tools.generate ladder     one

Each module of this package has a TARGET and a function `page`, the target's content (text or bytes)
as the library would make it today. A test compares the two.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from book.tools.notebooks import ROOT


def generators() -> dict[str, ModuleType]:
    """The modules that generate something, by name."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return {name: import_module(f"{__name__}.{name}") for name in names}


def fresh(module: ModuleType) -> bytes:
    """What the module would write today."""
    content = module.page()
    return content if isinstance(content, bytes) else content.encode()


def write(module: ModuleType) -> None:
    """Write the module's target where its content has changed, and say so."""
    content = fresh(module)
    if not module.TARGET.exists() or module.TARGET.read_bytes() != content:
        module.TARGET.write_bytes(content)
        print(f"{module.TARGET.relative_to(ROOT)}: written")
