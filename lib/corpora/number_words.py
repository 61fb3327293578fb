"""Writes the number words that ship with the library, with a published package.

    python lib/corpora/number_words.py           write unrolled_book/texts/number_words.bz2
    python lib/corpora/number_words.py --check   build in memory and compare with what ships

For maintainers, like `build.py`; it needs pip and a network. The package is pinned by checksum.
`--check` also compares all numbers of the book, joined by the library, with the package.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import sys
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path

from build import BOOK_TEXTS, fetch_wheel
from unrolled_book.tasks import number_words

PACKAGE = "num2words==0.5.14"
PACKAGE_SHA256 = "1c8e5b00142fc2966fd8d685001e36c4a9911e070d1b120e1beb721fa1edb33d"


def sections(spell) -> str:
    """For each language, and for ones, thousands, millions and milliards, the words of 1 … 999."""
    text = ""
    for language in number_words.LANGUAGES:
        for k in range(4):
            lines = "".join(f"{spell(n * 1000**k, lang=language)}\n" for n in range(1, 1000))
            text += f"\f{language}\t{1000**k}\n{lines}"
    return text


def different(spell) -> list[tuple[int, str]]:
    """The book's numbers that the library joins otherwise than the package spells them."""
    every = [n for split in number_words.SPLITS for n in number_words.numbers(split)]
    return [
        (n, language)
        for n in every
        for language in number_words.LANGUAGES
        if spell(n, lang=language) != number_words.words(n, language)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the number words that ship.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch_wheel(Path(folder), PACKAGE, PACKAGE_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        sys.path.insert(0, folder)
        spell = import_module("num2words").num2words  # of the wheel, not of the environment
        text = sections(spell).encode()
        data = bz2.compress(text)
        target = BOOK_TEXTS / "number_words.bz2"
        if not check:
            target.write_bytes(data)
            print(f"{target.name}: {len(data):,} bytes, of {len(text):,}")
            print(f"  sha256 of the text {hashlib.sha256(text).hexdigest()}")
        elif target.read_bytes() != data:
            raise SystemExit("differs from what ships: number_words.bz2")
        elif wrong := different(spell):
            raise SystemExit(f"the library spells {len(wrong)} numbers otherwise: {wrong[:3]}")
        else:
            print("the number words that ship are what the package gives, byte for byte")


if __name__ == "__main__":
    main()
