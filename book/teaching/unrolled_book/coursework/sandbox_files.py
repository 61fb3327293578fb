"""What a process in the sandbox sees: Python, a few packages one by one, the C library, no more.

A bind is a pair (source, place): the file or folder of this machine, and where it stands in there.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path

import unrolled

NUMBERS = ("numpy", "scipy")
TORCH = ("torch", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath", "networkx")
TORCH += ("jinja2", "markupsafe", "filelock", "fsspec")
TORCH += ("nvidia",)  # the libraries that torch's build with CUDA does not load without


def options(binds: list[tuple[str, str]]) -> list[str]:
    """bubblewrap's options for a read-only system of these (source, place) and the C library.

    A place's folders are made first, one by one, or they would be the user's alone.
    """
    found: list[str] = []
    folders = {"/"}
    for root in ("/lib", "/lib64"):
        if os.path.islink(root):
            found += ["--symlink", os.readlink(root), root]
    for source, place in binds:
        for folder in reversed(Path(place).parents):
            if str(folder) not in folders:
                folders.add(str(folder))
                found += ["--dir", str(folder)]
        found += ["--ro-bind", source, place]
        if os.path.isdir(source):
            for hidden in [
                *glob.glob(f"{source}/*-packages"),
                *glob.glob(f"{source}/python3*/*-packages"),
            ]:
                at = place + hidden[len(source) :]
                found += ["--tmpfs", at, "--remount-ro", at]
    return found


def python_binds(python: str) -> list[tuple[str, str]]:
    """The interpreter, its standard library, and the C libraries of the system."""
    get = sysconfig.get_config_var
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binds = [(python, f"/python/bin/{version}")]
    binds += [(sysconfig.get_path("stdlib"), f"/python/{sys.platlibdir}/{version}")]
    shared = Path(str(get("LIBDIR"))) / str(get("INSTSONAME"))
    if get("Py_ENABLE_SHARED") and shared.exists():
        binds += [(str(shared), f"/python/lib/{shared.name}")]
    triple = get("MULTIARCH") or "-"
    for root in ("/lib", "/lib64", "/usr/lib", "/usr/lib64"):
        narrow = f"{root}/{triple}"  # Debian's; its neighbours are programs and their files
        place = narrow if os.path.isdir(narrow) else root
        if os.path.isdir(place) and not os.path.islink(root):
            binds += [(place, place)]
    return binds + [(p, p) for p in ("/etc/ld.so.cache",) if os.path.exists(p)]


def package_binds(packages: list[str], library: bool) -> list[tuple[str, str]]:
    """The packages one by one: what else is installed, this package above all, stays hidden."""
    binds = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        folders = list(spec.submodule_search_locations or [])  # several where there is no __init__
        path = Path(folders[0] if folders else spec.origin)
        libraries = path.with_name(f"{path.name}.libs")  # of a wheel, found by their place
        binds += [(str(p), f"/packages/{p.name}") for p in (path, libraries) if p.exists()]
    if library:
        binds += [(str(Path(unrolled.__file__).parent), "/packages/unrolled")]
    return binds
