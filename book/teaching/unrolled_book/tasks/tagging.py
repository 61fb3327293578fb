"""Part-of-speech tagging: a small synthetic set after sentences of the lecture room (chapter 9b).

"time flies like an arrow", "fruit flies like a banana": the same words with other tags. The
training and held-out sentences are synthetic. They come from the grammar below, written for this
book (CC BY 4.0): thirteen frames, each a row of word classes, filled at random. Scores on them say
nothing about English at large. But they demand context: 22 of the 74 words have more than one tag,
and in this grammar the whole sentence always settles which (the tests look at all 77,936
sentences). For "time" and "love" at the start the later words decide: "time flies near a park",
"time the house train".

`lecture()` gives real sentences, tagged by hand with their usual reading. The tags are those of the
Universal Dependencies (universaldependencies.org/u/pos) that occur here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from unrolled.validate import checked, whole

TAGS = ("ADJ", "ADP", "ADV", "AUX", "DET", "NOUN", "PART", "PRON", "VERB")

# The words of each class, by tag. A frame names classes.
_WORDS = {
    "DET": {"the": "the a", "some": "the some"},
    "ADJ": {"old": "old light slow small"},
    "NOUN": {
        "thing": "arrow banana boat book can duck fish flower light park plant saw train van "
        "watch well",
        "fruit": "fruit garden horse house river",  # before another noun
        "ducks": "boats books ducks flies lights parks plants saws trains watches",
        "time": "life love music time",
        "tin": "fish fruit paint soup",  # what a can may hold
    },
    "PRON": {"we": "i they we you", "who": "he she"},
    "VERB": {
        "flies": "flies runs moves trains works",  # one does
        "fly": "duck fish fly move run train work",  # many do
        "plants": "books likes lights plants saws watches",  # one does to something
        "like": "book buy can like light love paint plant time watch",  # many do
        "saw": "bought found left painted saw",
        "want": "need want",
    },
    "AUX": {"can": "can must"},
    "ADP": {"LIKE": "like near", "near": "by near", "into": "into to", "of": "of"},
    "PART": {"to": "to"},
    "ADV": {"well": "fast slowly well"},
}
_CLASSES = {name: (tag, words.split()) for tag in _WORDS for name, words in _WORDS[tag].items()}

_FRAMES = (
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

_LECTURE = """\
time/NOUN flies/VERB like/ADP an/DET arrow/NOUN
fruit/NOUN flies/NOUN like/VERB a/DET banana/NOUN
i/PRON can/AUX buy/VERB a/DET can/NOUN of/ADP fish/NOUN
i/PRON saw/VERB a/DET van/NOUN
i/PRON saw/VERB the/DET saw/NOUN
you/PRON can/AUX fish/VERB well/ADV
the/DET old/ADJ train/NOUN runs/VERB slowly/ADV
they/PRON need/VERB to/PART run/VERB to/ADP the/DET train/NOUN"""

# Every word of the grammar and of `lecture()`; a word's id is its position.
VOCAB = tuple(sorted({"an"}.union(*(words for _, words in _CLASSES.values()))))
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

    @checked
    def text(self, i: int) -> str:
        """Sentence i as "time/NOUN flies/VERB …"."""
        whole("i", i, 0, len(self) - 1)
        pairs = zip(self.sentences[i], self.tags[i], strict=True)
        return " ".join(f"{VOCAB[word]}/{TAGS[tag]}" for word, tag in pairs)

    def __repr__(self) -> str:
        return f"Tagged({len(self)} sentences, {sum(map(len, self.sentences)):,} words)"


@checked
def encode(sentence: str) -> NDArray[np.int64]:
    """Ids (length,) of the words of a sentence, split at spaces, in any case.

    Raises ValueError naming the first word that is not in `VOCAB`.
    """
    try:
        return np.array([_WORD_IDS[word] for word in sentence.lower().split()], dtype=np.int64)
    except KeyError as word:
        raise ValueError(f"{word} is not among the {len(VOCAB)} words of the vocabulary") from None


def lecture() -> Tagged:
    """The real sentences, tagged by hand. None of them is in what `split` returns."""
    return _tagged(_lecture())


@checked
def split(
    rng: np.random.Generator, n_train: int = 2000, n_held_out: int = 500
) -> tuple[Tagged, Tagged]:
    """Training and held-out sentences (`Tagged`, `Tagged`) of the grammar, all different.

    First the frame is drawn, then each word, all equally likely. Every held-out word has been seen
    in training with its tag, and each held-out sentence holds a word whose tag is not its most
    frequent one in training: a tagger that looks at single words gets no such sentence right.
    Raises ValueError if the grammar does not yield as many.
    """
    whole("n_train", n_train)
    whole("n_held_out", n_held_out)
    taken = set(_lecture())

    def draw(n: int, accept: Callable[[Sentence], bool]) -> list[Sentence]:
        found = []
        while len(found) < n:
            tries = (_draw(rng) for _ in range(_TRIES))
            sentence = next((s for s in tries if s not in taken and accept(s)), None)
            if sentence is None:
                raise ValueError(f"the grammar yields no further sentence after {len(found)}")
            found.append(sentence)
            taken.add(sentence)
        return found

    train = draw(n_train, lambda s: True)
    seen, usual = set(itertools.chain(*train)), most_frequent_tags(_tagged(train))
    held_out = draw(
        n_held_out, lambda s: seen.issuperset(s) and any(usual[word] != tag for word, tag in s)
    )
    return _tagged(train), _tagged(held_out)


@checked
def most_frequent_tags(data: Tagged) -> dict[str, str]:
    """Each word's most frequent tag in `data`, of equally frequent ones the first in `TAGS`."""
    counts = np.zeros((len(VOCAB), len(TAGS)), dtype=np.int64)
    np.add.at(counts, (np.concatenate(data.sentences), np.concatenate(data.tags)), 1)
    best = counts.argmax(axis=1)
    return {VOCAB[w]: TAGS[best[w]] for w in np.flatnonzero(counts.sum(axis=1))}


def all_sentences() -> Iterator[Sentence]:
    """Every sentence of the grammar, as (word, tag) pairs, each once: 77,936."""
    for frame in _FRAMES:
        for words in itertools.product(*(_CLASSES[name][1] for name in frame.split())):
            yield _sentence(frame, words)


def _draw(rng: np.random.Generator) -> Sentence:
    frame = _FRAMES[rng.integers(len(_FRAMES))]
    classes = (_CLASSES[name][1] for name in frame.split())
    return _sentence(frame, [words[rng.integers(len(words))] for words in classes])


def _sentence(frame: str, words: Sequence[str]) -> Sentence:
    """The words with their tags; "a" becomes "an" before a vowel."""
    pairs = []
    for name, word, after in zip(frame.split(), words, (*words[1:], ""), strict=True):
        article = word == "a" and after[0] in "aeiou"
        pairs.append(("an" if article else word, _CLASSES[name][0]))
    return tuple(pairs)


def _lecture() -> list[Sentence]:
    return [tuple(tuple(p.split("/")) for p in line.split()) for line in _LECTURE.splitlines()]


def _tagged(sentences: Sequence[Sentence]) -> Tagged:
    words = (np.array([_WORD_IDS[word] for word, _ in s], np.int64) for s in sentences)
    tags = (np.array([TAGS.index(tag) for _, tag in s], np.int64) for s in sentences)
    return Tagged(sentences=tuple(words), tags=tuple(tags))
