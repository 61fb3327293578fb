r"""Batches of equal work

A batch costs its number of texts times its *longest* text, padding included. Instead of a fixed
number of texts, give each batch a budget of positions. Write `token_batches(lengths, budget)`:

- order the texts by length, the shortest first; of equally long ones the first comes first;
- fill a batch with texts in this order as long as (texts in it) × (its longest text) is at most
  `budget`, then begin the next.

Return a list of batches, each a list of indices into `lengths`. No text is longer than `budget`. No
text means no batch.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2


# %% solution
def token_batches(lengths, budget):
    """Lists of indices; texts × longest text is at most budget in each."""
    batches = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not batches or (len(batches[-1]) + 1) * lengths[i] > budget:
            batches.append([])
        batches[-1].append(i)
    return batches


# %% explanation
explanation = r"""
In ascending order the text that comes last is the longest of its batch, so the size of the
rectangle after adding text $i$ is (texts + 1) × its length. Python's `sorted` is stable: equal
lengths keep their order.

With such a budget each step costs about the same and needs about the same memory, whatever the
lengths. The numbers of *texts* and of true tokens differ from batch to batch, and with them the
weight of a mean over a batch: divide by tokens, as the chapter says. And shuffle the batches before
training.
"""


# %% tests
def tests(rng):
    yield call([5, 2, 3, 9, 2], 10, visible=True)
    yield call([], 7, hint="no texts")
    yield call([7], 7, hint="one text that fills its batch")
    yield call([4, 4, 4, 4, 4], 8, hint="equally long")
    yield call(rng.permutation([1, 1, 1, 10]).tolist(), 10, hint="a long one behind short ones")
    yield call([3, 3, 3], 9, hint="exactly the budget")
    yield call(rng.permutation([9, 8, 7, 6]).tolist(), 9, hint="each alone")
    yield call(
        rng.permutation([2, 2, 2, 5]).tolist(), 11, hint="the rectangle grows with the longest"
    )
    yield call(rng.permutation([1] * 5 + [2] * 5).tolist(), 100, hint="one batch is enough")
    yield call([int(n) for n in rng.integers(1, 30, size=40)], 90, hint="at random")


# %% oracle
def oracle(lengths, budget):
    """Cut after cut: of all beginnings of what is left the longest that fits."""
    left = sorted((n, i) for i, n in enumerate(lengths))
    found = []
    while left:
        fits = [k for k in range(1, len(left) + 1) if k * max(left[:k])[0] <= budget]
        found.append([i for _, i in left[: max(fits)]])
        left = left[max(fits) :]
    return found


# %% wrong
def by_sum(lengths, budget):
    batches, total = [], 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not batches or total + lengths[i] > budget:
            batches.append([])
            total = 0
        batches[-1].append(i)
        total += lengths[i]
    return batches


wrong = {
    "padding is computed too: texts × longest text counts, not the sum of the lengths": by_sum,
    "the texts are not sorted by length": (
        swap("sorted(range(len(lengths)), key=lambda i: lengths[i])", "range(len(lengths))")
    ),
    "the shortest texts come first, not the longest": (
        swap("key=lambda i: lengths[i]", "key=lambda i: -lengths[i]")
    ),
    "a batch may hold exactly the budget": swap("> budget", ">= budget"),
    "the new text counts as one of the batch: it makes the rectangle higher by one": (
        swap("(len(batches[-1]) + 1)", "len(batches[-1])")
    ),
    "indices are asked for, not lengths": swap("append(i)", "append(lengths[i])"),
    "the text that does not fit begins the next batch; it must not be lost": (
        swap("batches.append([])\n", "batches.append([])\n            continue\n")
    ),
    "the last batch is lost": swap("return batches", "return batches[:-1]"),
    "no text means no batch, not an empty one": swap("return batches", "return batches or [[]]"),
    "of equally long texts the first comes first": (
        swap("key=lambda i: lengths[i]", "key=lambda i: (lengths[i], -i)")
    ),
    "the rectangle is as wide as the longest text, which is the new one, not the first": (
        swap("* lengths[i] > budget", "* lengths[batches[-1][0]] > budget")
    ),
    "the budget counts positions, not texts": (
        swap("(len(batches[-1]) + 1) * lengths[i] > budget", "len(batches[-1]) >= budget")
    ),
}
