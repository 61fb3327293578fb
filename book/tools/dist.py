"""Build the two packages' wheels and source archives into _build/dist, and look into them.

python -m book.tools.dist          build, and say what does not belong in there or is missing
python -m book.tools.dist --try    install the library's wheel alone, and then the book's with it
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from book.tools.notebooks import PACKAGES, ROOT
from book.verbs.system import program

OUT = ROOT / "_build" / "dist"
UV = Path(sys.executable).with_name("uv")
# Run in a clean environment: import every module of these packages, read every text and result.
TRIAL = """\
import importlib, pkgutil, sys, unrolled
assert "site-packages" in unrolled.__file__, unrolled.__file__
assert unrolled.__version__ == sys.argv[1], unrolled.__version__
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from unrolled.data import corpora
assert all(corpora.load(name) for name in corpora.names())
if "unrolled_book" in sys.argv:
    from unrolled_book.experiments import record
    assert all(record.load(name) for name in record.names())
print(sum(name.startswith("unrolled") for name in sys.modules), "modules imported")
"""


def expected(package: str) -> set[str]:
    """The files of a package: modules, texts, results, syllabi, styles and scripts."""
    ends = {".py", ".css", ".js", ".json", ".npz", ".toml", ".txt", ".bz2"}
    home = PACKAGES[package]
    found = (home / package).rglob("*")
    kept = (f for f in found if f.is_file() and "__pycache__" not in f.parts)
    return {
        f.relative_to(home).as_posix() for f in kept if f.suffix in ends or f.parent.name == "texts"
    }


def complaints(names: Iterable[str], wanted: set[str]) -> list[str]:
    """What is missing among an archive's files, and what does not belong there."""
    names = {name for name in names if not name.endswith("/")}
    beside = re.compile(
        r"unrolled(_book)?-[\w.]+\.dist-info/(METADATA|RECORD|WHEEL|top_level\.txt|licenses/LICENSE)"
        r"|LICENSE|MANIFEST\.in|PKG-INFO|README\.md|pyproject\.toml|setup\.cfg"
        r"|unrolled(_book)?\.egg-info/[\w-]+(\.txt)?"
    )
    extra = {name for name in names - wanted if not beside.fullmatch(name)}
    return [f"missing: {name}" for name in sorted(wanted - names)] + [
        f"does not belong there: {name}" for name in sorted(extra)
    ]


def build(out: Path = OUT) -> dict[str, tuple[Path, Path]]:
    """Of each package the wheel, made from the source archive, and that archive."""
    shutil.rmtree(out, ignore_errors=True)
    found = {}
    for package, home in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, package)  # a build leaves folders beside what it builds
            unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
            shutil.copytree(home, copy, ignore=unwanted)
            options = ["--quiet", "--no-build-isolation", "--python", sys.executable]
            subprocess.run([UV, "build", *options, "--out-dir", out, copy], check=True)
        found[package] = tuple(next(out.glob(f"{package}-{end}")) for end in ("*.whl", "*.tar.gz"))
    return found


def contents(archive: Path) -> list[str]:
    """The files in a wheel, or in a source archive below the folder that it begins with."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as opened:
        return [m.name.partition("/")[2] for m in opened.getmembers() if m.isfile()]


def try_out(wheels: dict[str, Path]) -> None:
    """Install the library's wheel, then both, in clean environments, and import all of them."""
    torch = re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text("utf8"), re.MULTILINE)
    version = wheels["unrolled"].name.split("-")[1]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    clean |= {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    for names in (["unrolled"], ["unrolled", "unrolled_book"]):
        with tempfile.TemporaryDirectory() as folder:
            python = program("python", Path(folder, "venv"))
            subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, python.parents[1]])
            # torch first and by its version: another one would be another build, of gigabytes
            for wanted in ([torch[0]], [str(wheels[name].resolve()) for name in names]):
                command = [UV, "pip", "install", "--quiet", "--python", python, *wanted]
                subprocess.run(command, check=True, env=clean)
            print(f"{' and '.join(names)}: ", end="", flush=True)
            command = [python, "-W", "error", "-c", TRIAL, version, *names]
            subprocess.run(command, check=True, cwd=folder, env=clean)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--try", action="store_true", dest="trial")
    trial = parser.parse_args().trial
    found = []
    for package, archives in (built := build()).items():
        for archive in archives:
            wrong = complaints(contents(archive), expected(package))
            found += [f"{archive.name}: {line}" for line in wrong]
            print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size / 1e6:.1f} MB")
    print("\n".join(found), end="\n" * bool(found))
    if trial and not found:
        try_out({package: wheel for package, (wheel, _) in built.items()})
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
