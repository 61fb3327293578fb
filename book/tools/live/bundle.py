"""The bundle: every file of `_build/live`, made from two packages of npm and the library."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from unrolled_book.exercises.engine import Exercise

from book.tools.live import archives, library, listings, trim
from book.tools.live.compiler import Compiler
from book.tools.live.listings import Listing
from book.tools.live.packages import NUMPY, PYODIDE, members
from book.tools.notebooks import PACKAGES, ROOT, chapter_paths

HERE = Path(__file__).parent
OUT = ROOT / "_build" / "live"
HOME = "lib/python3.12"
SITE = f"{HOME}/site-packages"


def build() -> dict[str, bytes]:
    """The bundle's files by their names. Raises NoBundle where one of its parts cannot be had."""
    pyodide = {name.removeprefix("package/"): data for name, data in PYODIDE.members().items()}
    (conda,) = (data for name, data in NUMPY.members().items() if name.endswith(".tar.gz"))
    engine = {name: archives.gz(pyodide[name]) for name in ("pyodide.asm.js", "pyodide.asm.wasm")}
    engine = {f"{name}.gz": data for name, data in engine.items()}
    python = stdlib(pyodide["python_stdlib.zip"])
    compiler = Compiler(engine | {"stdlib.tar.gz": archives.tar_gz(under(HOME, python))})

    book = library.book()
    reasons = {name: library.elsewhere(exercise) for name, exercise in book.items()}
    here = {name: exercise for name, exercise in book.items() if not reasons[name]}
    tried = {f"c{path.stem}": listings.of_chapter(path) for path in chapter_paths()}
    first = engine | {
        "stdlib.tar.gz": archives.tar_gz(compiler.compiled(under(HOME, trim.python(python)))),
        "numpy.tar.gz": archives.tar_gz(compiler.compiled(trim.numpy(site_packages(conda)))),
        "unrolled.tar.gz": archives.tar_gz(compiler.compiled(unrolled(list(here.values()), tried))),
    }
    texts = {name: library.texts(exercise) for name, exercise in here.items()}
    more = {"live.mjs": (HERE / "live.mjs").read_bytes(), "LICENSES.txt": licences(members(conda))}
    for chapter, found in tried.items():
        programs = [one.before for one in found]
        more[f"{chapter}.json"] = json.dumps(programs, ensure_ascii=False).encode()
        whole = (library.texts_in(ast.parse(f"{one.before}\n{one.source}")) for one in found)
        texts |= {f"{chapter}/{n}": names for n, names in enumerate(whole)}
    ready = {f"{name}.txt.bz2" for name in library.WORKBENCH}
    for name in ready.union(*texts.values()):
        more[name] = (library.LIB / library.TEXTS / name).read_bytes()
    manifest = {
        "total_bytes": sum(map(len, first.values())),
        "first": list(first),
        "files": {name: described(data) for name, data in (first | more).items()},
        "exercises": list(here),
        "elsewhere": {name: reason for name, reason in reasons.items() if reason},
        "texts": {name: names for name, names in texts.items() if names},
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    return first | more | {"manifest.json": text.encode()}


def write() -> bool:
    """Write the bundle where something has changed since it was written; say whether it had.

    Raises NoBundle, and leaves none that is old.
    """
    now, record = sources(), OUT / ".sources"
    if record.exists() and record.read_text("utf8") == now:
        return False
    shutil.rmtree(OUT, ignore_errors=True)
    files = build()
    OUT.mkdir(parents=True)
    for name, data in files.items():
        (OUT / name).write_bytes(data)
    record.write_text(now, "utf8")
    return True


def sources() -> str:
    """A hash of everything that the bundle is made from; the packages of npm by their checksums."""
    digest = hashlib.sha256((PYODIDE.sha512 + NUMPY.sha512).encode())
    folders = (HERE, *(folder / name for name, folder in PACKAGES.items()))
    paths = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    paths += chapter_paths()  # for what they import, and their listings
    for path in sorted(path for path in paths if path.parent.name != "__pycache__"):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def described(data: bytes) -> dict[str, int | str]:
    """What the manifest says of a file."""
    return {"bytes": len(data), "sha512": hashlib.sha512(data).hexdigest()}


def licences(conda: dict[str, bytes]) -> bytes:
    """The licences of everything in the bundle, one after the other."""
    mine = {path.name: path.read_text(encoding="utf-8") for path in (HERE / "licences").iterdir()}
    of_numpy = [n for n in sorted(conda) if re.search(r"site-packages/numpy.*/LICENSE", n)]
    parts = {
        "Unrolled (the library, its exercises, live.mjs): MIT": (ROOT / "LICENSE").read_text(
            "utf8"
        ),
        f"Pyodide {PYODIDE.version}, unchanged; source: github.com/pyodide/pyodide: "
        "Mozilla Public License 2.0": mine["MPL-2.0.txt"],
        "Python 3.12, trimmed and compiled: PSF": mine["Python-3.12.txt"],
        "What else Pyodide contains": mine["others.txt"],
        "numpy 2.0.1, trimmed, compiled, its docstrings taken out: BSD and others": "\n\n".join(
            f"[{name.partition('site-packages/')[2]}]\n\n{conda[name].decode()}"
            for name in of_numpy
        ),
    }
    contents = "".join(f"{i}. {title}\n" for i, title in enumerate(parts, start=1))
    bodies = "".join(
        f"\n\n{'=' * 98}\n{i}. {title}\n{'=' * 98}\n\n{text.strip()}\n"
        for i, (title, text) in enumerate(parts.items(), start=1)
    )
    return (contents + bodies).encode()


def stdlib(archive: bytes) -> dict[str, bytes]:
    """The files of Python's standard library, by their paths in it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        return {name: found.read(name) for name in found.namelist() if not name.endswith("/")}


def unrolled(here: list[Exercise], tried: Mapping[str, list[Listing]]) -> dict[str, bytes]:
    """What these exercises and listings need of the library, and what runs them in the page."""
    found = library.modules(here, [one.before for each in tried.values() for one in each])
    chapters = dict.fromkeys(exercise.chapter for exercise in here)
    imports = {chapter: library.imports(chapter, found) for chapter in chapters}
    found["live_reader.py"] = (HERE / "reader.py").read_bytes()
    found["live_imports.json"] = json.dumps(imports, indent=1).encode()
    return under(SITE, found)


def site_packages(conda: bytes) -> dict[str, bytes]:
    """The files of numpy's package, by the paths where Python looks for them."""
    return {name: data for name, data in members(conda).items() if name.startswith(f"{SITE}/")}


def under(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """The files in a folder."""
    return {f"{folder}/{name}": data for name, data in files.items()}
