r"""No writer on both sides

`writers` `(N,)` names the writer of each of N pictures, by an integer. Write
`folds_by_writer(writers, n_folds)`: the number of a fold, 0 to `n_folds` − 1, for each picture, so
that all pictures of a writer are in one fold. Deal the writers out by size: the writer with the
most pictures first (of equal ones the smaller name first), each to the fold that has the fewest
pictures so far (of equal ones the first). Names need not be 0, 1, 2, …, and a writer's pictures
need not stand together. Do not change `writers`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def folds_by_writer(writers, n_folds):
    """(N,) integers: the fold of each picture."""
    folds = np.zeros(len(writers), dtype=int)
    filled = np.zeros(n_folds, dtype=int)
    names, counts = np.unique(writers, return_counts=True)
    for i in np.argsort(-counts, kind="stable"):
        fold = filled.argmin()
        folds[writers == names[i]] = fold
        filled[fold] += counts[i]
    return folds


# %% explanation
explanation = r"""
What must not stand on both sides is dealt out as a whole: writers here, plays and chapters in this
book's texts, patients and sites elsewhere. Large ones first, so that the small ones can even out
what is left; `GroupKFold` of scikit-learn does the same. `np.unique` sorts the names, so a stable
sort of the counts keeps equal writers in the order of their names.

The folds are not always equally large, and often cannot be. Average the scores over pictures, not
over folds, or say which of the two you did.
"""


# %% tests
def tests(rng):
    yield call(np.array([7, 7, 7, 2, 2, 9, 9, 4]), 2, visible=True)
    yield call(np.array([5, 5, 5]), 3, hint="one writer")
    yield call(np.zeros(0, dtype=int), 2, hint="no picture")
    yield call(np.array([3, 1, 2, 1, 3, 2]), 3, hint="equal writers, mixed")
    yield call(np.array([1, 2, 2, 3, 3, 3, 4, 4, 4, 4]), 2, hint="small writers come first")
    yield call(np.array([-4, 100, 100, -4, 8]), 1, hint="one fold; a name below 0")
    for n, w, k in [(40, 7, 3), (60, 13, 4), (31, 5, 2)]:
        yield call(rng.integers(w, size=n) * 3 + 11, k)


# %% oracle
def oracle(writers, n_folds):
    """With lists and dictionaries."""
    counts = {}
    for name in writers.tolist():
        counts[name] = counts.get(name, 0) + 1
    filled, fold_of = [0] * n_folds, {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        fold_of[name] = filled.index(min(filled))
        filled[fold_of[name]] += counts[name]
    return np.array([fold_of[name] for name in writers.tolist()], dtype=int)


# %% wrong
wrong = {
    "pictures are dealt out one by one: a writer is in several folds": (
        lambda writers, n_folds: np.arange(len(writers)) % n_folds
    ),
    "thirds of the file cut a writer in two": (
        lambda writers, n_folds: np.arange(len(writers)) * n_folds // max(1, len(writers))
    ),
    "the writer with the most pictures comes first, not the one with the fewest": swap(
        "np.argsort(-counts", "np.argsort(counts"
    ),
    "the writers come by size, not by name": swap(
        'np.argsort(-counts, kind="stable")', "range(len(names))"
    ),
    "of equal writers the smaller name comes first": swap(
        'np.argsort(-counts, kind="stable")',
        'len(counts) - 1 - np.argsort(-counts[::-1], kind="stable")',
    ),
    "pictures are counted, not writers": swap("filled[fold] += counts[i]", "filled[fold] += 1"),
    "a writer goes to the emptiest fold, not round and round": swap(
        "fold = filled.argmin()", "fold = (filled > 0).sum() % n_folds"
    ),
    "a writer goes to the fold with the fewest pictures, not with the most": swap(
        "filled.argmin()", "filled.argmax()"
    ),
    "of equal folds the first is taken": swap(
        "filled.argmin()", "n_folds - 1 - filled[::-1].argmin()"
    ),
    "folds are counted from 0": swap("return folds", "return folds + 1"),
    "names need not be 0, 1, 2, …": swap("writers == names[i]", "writers == i"),
}
