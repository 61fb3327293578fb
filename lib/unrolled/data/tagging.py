"""Part-of-speech tagging: a small synthetic set after the sentences of the lecture room.

"time flies like an arrow", "fruit flies like a banana": the same words with other tags. The
training and held-out sentences are synthetic. They come from the grammar below, written for this
book (CC BY 4.0): thirteen frames, each a row of word classes, filled at random. They are
grammatical and often silly, and scores on them say nothing about English at large. What they do ask
for is context: of 74 words 22 have more than one tag, and in this grammar the whole sentence always
settles which (the tests go through all 77,936). For "time" and "love" at the start it takes what
comes after: "time flies near a park", "time the house train".

`lecture()` gives real sentences, tagged by hand. Some have further readings in English; the tags
are those of the usual one.

Tags are those of the Universal Dependencies (universaldependencies.org/u/pos) that occur here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAGS = ("ADJ", "ADP", "ADV", "AUX", "DET", "NOUN", "PART", "PRON", "VERB")

# Word classes: the tag, then the words. A frame names classes.
_CLASSES = {
    "the": ("DET", "the a"),
    "some": ("DET", "the some"),
    "old": ("ADJ", "old light slow small"),
    "thing": (
        "NOUN",
        "arrow banana boat book can duck fish flower light park plant saw train van watch well",
    ),
    "fruit": ("NOUN", "fruit garden horse house river"),  # before another noun
    "ducks": ("NOUN", "boats books ducks flies lights parks plants saws trains watches"),
    "time": ("NOUN", "life love music time"),
    "tin": ("NOUN", "fish fruit paint soup"),  # what a can may hold
    "we": ("PRON", "i they we you"),
    "who": ("PRON", "he she"),
    "flies": ("VERB", "flies runs moves trains works"),  # one does
    "fly": ("VERB", "duck fish fly move run train work"),  # many do
    "plants": ("VERB", "books likes lights plants saws watches"),  # one does to something
    "like": ("VERB", "book buy can like light love paint plant time watch"),  # many do
    "saw": ("VERB", "bought found left painted saw"),
    "want": ("VERB", "need want"),
    "can": ("AUX", "can must"),
    "LIKE": ("ADP", "like near"),
    "near": ("ADP", "by near"),
    "into": ("ADP", "into to"),
    "of": ("ADP", "of"),
    "to": ("PART", "to"),
    "well": ("ADV", "fast slowly well"),
}

_FRAMES = tuple(
    frame.split()
    for frame in (
        "time flies LIKE the thing",  # time flies like an arrow
        "fruit ducks like the thing",  # fruit flies like a banana
        "we can like the thing",  # i can buy a can
        "we can like the thing of tin",  # i can buy a can of fish
        "we can fly near the thing",
        "we saw the old thing",
        "who plants some ducks",
        "like the fruit thing",  # time the horse train
        "the old thing flies well",
        "we want to like some ducks",
        "we fly into the thing",
        "some ducks fly LIKE the thing",
        "the fruit thing saw the thing",
    )
)

_LECTURE = (
    "time/NOUN flies/VERB like/ADP an/DET arrow/NOUN",
    "fruit/NOUN flies/NOUN like/VERB a/DET banana/NOUN",
    "i/PRON can/AUX buy/VERB a/DET can/NOUN of/ADP fish/NOUN",
    "i/PRON saw/VERB a/DET van/NOUN",
    "i/PRON saw/VERB the/DET saw/NOUN",
    "you/PRON can/AUX fish/VERB well/ADV",
    "the/DET old/ADJ train/NOUN runs/VERB slowly/ADV",
    "they/PRON need/VERB to/PART run/VERB to/ADP the/DET train/NOUN",
)

# Every word of the grammar and of `lecture()`; a word's id is its position.
VOCAB = tuple(sorted({"an"}.union(*(words.split() for _, words in _CLASSES.values()))))
_WORD_IDS = {word: i for i, word in enumerate(VOCAB)}

_TRIES = 10_000  # draws without a usable sentence before a split is called impossible

Sentence = tuple[tuple[str, str], ...]  # (word, tag) pairs


@dataclass(frozen=True, kw_only=True, eq=False)
class Tagged:
    """Sentences and their tags: int64 arrays (length,), ids in `VOCAB` and `TAGS`, side by side."""

    sentences: tuple[NDArray[np.int64], ...]
    tags: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.sentences)

    def text(self, i: int) -> str:
        """Sentence i as "time/NOUN flies/VERB …"."""
        pairs = zip(self.sentences[i], self.tags[i], strict=True)
        return " ".join(f"{VOCAB[word]}/{TAGS[tag]}" for word, tag in pairs)

    def __repr__(self) -> str:
        return f"Tagged({len(self)} sentences, {sum(map(len, self.sentences)):,} words)"


def encode(sentence: str) -> NDArray[np.int64]:
    """Ids (length,) of the words of a sentence, split at spaces, in any case.

    Raises ValueError naming the first word that is not in `VOCAB`.
    """
    words = sentence.lower().split()
    for word in words:
        if word not in _WORD_IDS:
            raise ValueError(f"{word!r} is not among the {len(VOCAB)} words of the vocabulary")
    return np.array([_WORD_IDS[word] for word in words], dtype=np.int64)


def lecture() -> Tagged:
    """The real sentences, tagged by hand. None of them is in what `split` returns."""
    return _tagged([_read(line) for line in _LECTURE])


def ambiguous() -> dict[str, tuple[str, ...]]:
    """The words that have more than one tag in the grammar, each with its tags, both in order."""
    tags: dict[str, set[str]] = {}
    for tag, words in _CLASSES.values():
        for word in words.split():
            tags.setdefault(word, set()).add(tag)
    return {word: tuple(sorted(tags[word])) for word in VOCAB if len(tags.get(word, ())) > 1}


def split(
    rng: np.random.Generator, n_train: int = 2000, n_held_out: int = 500
) -> tuple[Tagged, Tagged]:
    """Training and held-out sentences (`Tagged`, `Tagged`) of the grammar, all different.

    First the frame is drawn, then each word, all equally likely. Every word of the held-out part
    has been seen in training, every ambiguous one with each of the tags that it is held out with;
    and each held-out sentence holds a word that is not to have its most frequent tag of training,
    so a tagger that looks at single words gets no held-out sentence right.

    Raises ValueError for numbers below 1, or if the grammar does not yield as many.
    """
    if n_train < 1 or n_held_out < 1:
        raise ValueError(f"expected n_train, n_held_out >= 1, got {n_train}, {n_held_out}")
    taken = {_read(line) for line in _LECTURE}
    train = _draw_new(rng, n_train, taken, lambda sentence: True)
    seen, usual = set(itertools.chain(*train)), usual_tags(_tagged(train))
    held_out = _draw_new(
        rng,
        n_held_out,
        taken,
        lambda sentence: seen.issuperset(sentence) and any(usual[w] != t for w, t in sentence),
    )
    return _tagged(train), _tagged(held_out)


def usual_tags(data: Tagged) -> dict[str, str]:
    """Each word's most frequent tag in `data`, of equally frequent ones the first in `TAGS`: what
    is known without context."""
    counts = np.zeros((len(VOCAB), len(TAGS)), dtype=np.int64)
    np.add.at(counts, (np.concatenate(data.sentences), np.concatenate(data.tags)), 1)
    best = counts.argmax(axis=1)
    return {VOCAB[w]: TAGS[best[w]] for w in np.flatnonzero(counts.sum(axis=1))}


def language() -> Iterator[Sentence]:
    """Every sentence of the grammar, as (word, tag) pairs, each once: 77,936."""
    for frame in _FRAMES:
        for words in itertools.product(*(_CLASSES[name][1].split() for name in frame)):
            yield _sentence(frame, words)


def _sentence(frame: Sequence[str], words: Sequence[str]) -> Sentence:
    pairs = []
    for i, (name, word) in enumerate(zip(frame, words, strict=True)):
        if word == "a" and words[i + 1][0] in "aeiou":
            word = "an"
        pairs.append((word, _CLASSES[name][0]))
    return tuple(pairs)


def _draw_new(
    rng: np.random.Generator, n: int, taken: set[Sentence], accept: Callable[[Sentence], bool]
) -> list[Sentence]:
    """n acceptable sentences that are not in `taken`, where they are entered."""
    found: list[Sentence] = []
    misses = 0
    while len(found) < n:
        frame = _FRAMES[rng.integers(len(_FRAMES))]
        choices = (_CLASSES[name][1].split() for name in frame)
        sentence = _sentence(frame, [words[rng.integers(len(words))] for words in choices])
        if sentence not in taken and accept(sentence):
            taken.add(sentence)
            found.append(sentence)
            misses = 0
        elif (misses := misses + 1) == _TRIES:
            raise ValueError(
                f"the grammar yields no further sentence after {len(found)} of {n}: ask for fewer, "
                "or for more to train on"
            )
    return found


def _read(line: str) -> Sentence:
    """A sentence written as "time/NOUN flies/VERB"."""
    return tuple(tuple(pair.split("/")) for pair in line.split())


def _tagged(sentences: Sequence[Sentence]) -> Tagged:
    return Tagged(
        sentences=tuple(np.array([_WORD_IDS[w] for w, _ in s], np.int64) for s in sentences),
        tags=tuple(np.array([TAGS.index(t) for _, t in s], np.int64) for s in sentences),
    )
