r"""The longest quotation

How much of a text is quoted? Write `longest_copy(sample, source)`. Both are integer arrays of token
numbers, `(n,)` and `(m,)`. Return the length of the longest run of neighbouring tokens of `sample`
that stands, in the same order and without a gap, anywhere in `source`: an `int`, 0 where they have
no token in common or one of them is empty.

The chapter looked at windows of eight tokens. Here the length is not given.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def longest_copy(sample, source):
    """Tokens in the longest run of sample (n,) that stands in source (m,)."""
    sample, source = sample.tolist(), source.tolist()
    longest = 0
    ending = [0] * (len(source) + 1)  # of the token before, by its place in source
    for token in sample:
        grown = [0] * (len(source) + 1)
        for place, other in enumerate(source, start=1):
            if token == other:
                grown[place] = ending[place - 1] + 1
        longest = max(longest, *grown)
        ending = grown
    return longest


# %% explanation
explanation = r"""
`grown[place]` is the length of the longest common run that ends at this token of the sample and at
this place of the source. If the two tokens are equal, it is one more than for the token before and
the place before; if not, it is 0. That takes $n\,m$ steps. With windows, as in the chapter, one
tries lengths instead: build the set of all windows of $k$ tokens of the source, and ask whether one
of the sample's is among them. If a run of $k$ tokens was copied, so was one of $k - 1$: the right
length can be found by bisection, and each try takes $n + m$ windows.
"""


# %% tests
def hidden(rng):
    for n, m, size in [(13, 31, 2), (29, 23, 3), (17, 53, 7)]:
        yield call(rng.integers(size, size=n), rng.integers(size, size=m))
    yield call(np.array([1, 2, 3, 4]), np.array([1, 2, 9, 3, 4]), hint="there is a gap")
    yield call(np.array([3, 2, 1]), np.array([1, 2, 3]), hint="the order counts")
    yield call(np.array([1, 1, 1, 1]), np.array([1, 1]), hint="the source holds two 1s in a row")
    yield call(np.array([7, 8]), np.array([1, 7, 8]), hint="all of the sample, at the end")
    yield call(np.array([5, 6, 7]), np.array([9, 5, 6, 7, 9]), hint="all of the sample is quoted")
    yield call(np.arange(11), np.arange(30, 41), hint="nothing in common")
    yield call(np.array([], dtype=int), np.array([1]), hint="an empty sample")
    yield call(np.array([1]), np.array([], dtype=int), hint="an empty source")
    long = rng.integers(40, size=60)
    yield call(long[10:41], long, hint="a run of 31 tokens")
    many = rng.integers(3, size=250)
    yield call(many[20:51], many, hint="a long source")
    yield call(np.array([256]), np.array([0, 1]), hint="token numbers may be large")


def tests(rng):
    sample, source = np.array([4, 1, 2, 3, 1]), np.array([1, 2, 5, 1, 2, 3, 4])
    yield call(sample, source, visible=True)
    calls = list(hidden(rng))
    yield from (calls[i] for i in rng.permutation(len(calls)))


# %% oracle
def oracle(sample, source):
    """Every run of the sample, the longest first, is looked for at every place."""
    sample, source = sample.tolist(), source.tolist()
    for length in range(len(sample), 0, -1):
        for i in range(len(sample) - length + 1):
            run = sample[i : i + length]
            if any(source[j : j + length] == run for j in range(len(source))):
                return length
    return 0


# %% wrong
def with_gaps(sample, source):
    ending = [0] * (len(source) + 1)
    for token in sample.tolist():
        before = ending[:]
        for place, other in enumerate(source.tolist(), start=1):
            same = before[place - 1] + 1 if token == other else 0
            ending[place] = max(same, before[place], ending[place - 1])
    return ending[-1]


def eights(sample, source):
    windows = {tuple(source[i : i + 8].tolist()) for i in range(len(source) - 7)}
    found = [tuple(sample[i : i + 8].tolist()) in windows for i in range(len(sample) - 7)]
    runs = "".join("x" if hit else " " for hit in found).split()
    return max((len(run) + 7 for run in runs), default=0)


def sets_of_tokens(sample, source):
    runs = "".join("x" if hit else " " for hit in np.isin(sample, source)).split()
    return max(map(len, runs), default=0)


def reversed_too(sample, source):
    return max(longest_copy(sample, source), longest_copy(sample[::-1], source))


wrong = {
    "the tokens need not stand side by side there; a run has no gaps": with_gaps,
    "runs shorter than eight tokens were overlooked; the length is not given": eights,
    "each token stands in the source, but not the run: its order counts": sets_of_tokens,
    "a run read backwards is no quotation": reversed_too,
    "the run at the end of the sample is the answer, not the longest": (
        swap("max(longest, *grown)", "max(0, *grown)")
    ),
    "only a run from the source's beginning was looked for": (
        swap("if token == other:", "if token == other and (place == 1 or ending[place - 1]):")
    ),
    "only a run up to the source's end was looked for": (
        swap("max(longest, *grown)", "max(longest, grown[-1])")
    ),
    "the tokens in common were counted, wherever they stand": (
        lambda sample, source: len(set(sample.tolist()) & set(source.tolist()))
    ),
    "the steps from token to token were counted; a run of k tokens has k": (
        swap("    return longest", "    return max(longest - 1, 0)")
    ),
    "the count goes on after a token that differs; it begins again at 0": (
        swap("                grown", "                pass\n            grown").swap(
            "ending[place - 1] + 1", "ending[place - 1] + (token == other)"
        )
    ),
    "the same place of the source was used for each token; it moves on with the sample": (
        swap("ending[place - 1] + 1", "ending[place] + 1")
    ),
    "sample and source were compared place by place, not at every shift": (
        lambda sample, source: longest_copy(sample[: len(source)] * 0 + 1,
        (sample[: len(source)] == source[: len(sample)]).astype(int))
    ),
}  # fmt: skip
