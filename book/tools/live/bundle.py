"""The bundle: every file of `_build/live`, made from two packages of npm and the library."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

from unrolled.teaching.exercises.engine import Exercise

from book.tools.live import archives, library
from book.tools.live.packages import NUMPY, PYODIDE, members
from book.tools.notebooks import ROOT

HERE = Path(__file__).parent
OUT = ROOT / "_build" / "live"
SITE = "lib/python3.12/site-packages"


def build() -> dict[str, bytes]:
    """The bundle's files by their names. Raises NoBundle where the packages cannot be had."""
    pyodide = {name.removeprefix("package/"): data for name, data in PYODIDE.members().items()}
    (conda,) = (data for name, data in NUMPY.members().items() if name.endswith(".tar.gz"))
    book = library.book()
    reasons = {name: library.elsewhere(exercise) for name, exercise in book.items()}
    here = {name: exercise for name, exercise in book.items() if not reasons[name]}
    first = {
        "pyodide.asm.js.gz": archives.gz(pyodide["pyodide.asm.js"]),
        "pyodide.asm.wasm.gz": archives.gz(pyodide["pyodide.asm.wasm"]),
        "stdlib.tar.gz": archives.tar_gz(stdlib(pyodide["python_stdlib.zip"])),
        "numpy.tar.gz": archives.tar_gz(numpy(members(conda))),
        "unrolled.tar.gz": archives.tar_gz(unrolled(list(here.values()))),
    }
    texts = {name: library.texts(exercise) for name, exercise in here.items()}
    files = {
        **first,
        "live.mjs": (HERE / "live.mjs").read_bytes(),
        **{
            n: (library.LIB / library.TEXTS / n).read_bytes()
            for some in texts.values()
            for n in some
        },
    }
    manifest = {
        "total_bytes": sum(map(len, first.values())),
        "first": list(first),
        "files": {name: described(data) for name, data in files.items()},
        "exercises": list(here),
        "elsewhere": {name: reason for name, reason in reasons.items() if reason},
        "texts": {name: some for name, some in texts.items() if some},
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    return files | {"manifest.json": text.encode()}


def described(data: bytes) -> dict[str, int | str]:
    """What the manifest says of a file."""
    return {"bytes": len(data), "sha512": hashlib.sha512(data).hexdigest()}


def stdlib(archive: bytes) -> dict[str, bytes]:
    """Python's standard library, by the paths where the interpreter looks for it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        names = [name for name in found.namelist() if not name.endswith("/")]
        return {f"lib/python3.12/{name}": found.read(name) for name in names}


def numpy(conda: dict[str, bytes]) -> dict[str, bytes]:
    """numpy without its tests, its stubs and its compilers."""
    return {
        name: data
        for name, data in conda.items()
        if name.startswith(f"{SITE}/numpy/") and not _NOT_OF_NUMPY.search(name)
    }


def unrolled(here: list[Exercise]) -> dict[str, bytes]:
    """What checking these exercises needs of the library, and what runs it in the page."""
    found = {f"{SITE}/{name}": data for name, data in library.modules(here).items()}
    return found | {f"{SITE}/live_reader.py": (HERE / "reader.py").read_bytes()}


_NOT_OF_NUMPY = re.compile(
    r"/(tests|f2py|distutils|_pyinstaller|_examples|include)/|\.(pyi|pxd|a|h|c)$|_(operand_flag|rational|struct_ufunc|umath)_tests\.|_simd\."
)
