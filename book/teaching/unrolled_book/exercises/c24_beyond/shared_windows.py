r"""A detector of copies

A test may have stood in the training text. Write `shared_windows(test, training, n)` for two lists
of words: the share of the test's windows of $n$ words in a row that occur as $n$ words in a row in
the training text. Windows overlap, and one that occurs twice in the test counts twice. A test of
fewer than $n$ words has no window; return 0.0 for it.

Then think: you hold a test of 1,000 questions against a training text of a trillion words. What
goes wrong if $n$ is too small, and what if it is too large?
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def shared_windows(test, training, n):
    """Share of the windows of n words that stand in the training text."""
    known = {tuple(training[i : i + n]) for i in range(len(training) - n + 1)}
    windows = [tuple(test[i : i + n]) for i in range(len(test) - n + 1)]
    return sum(w in known for w in windows) / max(1, len(windows))


# %% explanation
explanation = r"""
A set finds each window in constant time, so both texts are read once.

With a small $n$ every text shares windows with every other: *it is the* proves nothing. With a
large $n$ one changed word hides $n$ windows, so light edits escape. GPT-3's authors took 13 words,
others 8 words or 50 characters, and every choice misses a paraphrase. The chapter measures it: with
about every fifth word replaced, hardly a window of eight is left, and the model still has most of
the gain.
"""


# %% tests
def hidden(rng):
    yield call("a b c d".split(), "x a b c d y".split(), 3, hint="a copy inside")
    yield call("a b a b a b d".split(), "a b c".split(), 2, hint="a window that comes often")
    yield call("a b".split(), "a b c".split(), 3, hint="a test shorter than n")
    yield call("a b c".split(), "a b".split(), 3, hint="a training text shorter than n")
    yield call([], "a b c".split(), 1, hint="an empty test")
    yield call("a b c".split(), "c b a".split(), 1, hint="n = 1")
    yield call("a b c".split(), "c b a".split(), 2, hint="the same words in another order")
    yield call("a b c d".split(), "a b x c d".split(), 4, hint="broken by one word")
    yield call("ab c".split(), "a bc".split(), 2, hint="the same letters, other words")
    yield call("be or not".split(), "maybe or nothing".split(), 2, hint="parts of words")
    for n in (1, 2, 3):
        test, training = ([*map(str, rng.integers(3, size=k))] for k in (12, 20))
        yield call(test, training, n, hint="drawn at random")


def tests(rng):
    yield call("to be or not to be".split(), "or not to sleep".split(), 2, visible=True)
    calls = list(hidden(rng))
    yield from (calls[i] for i in rng.permutation(len(calls)))


# %% oracle
def oracle(test, training, n):
    """Every window compared with every other."""
    found = total = 0
    for i in range(len(test) - n + 1):
        total += 1
        for j in range(len(training) - n + 1):
            if all(test[i + k] == training[j + k] for k in range(n)):
                found += 1
                break
    return found / total if total else 0.0


# %% wrong
wrong = {
    "words of the training text count wherever they stand; a window has them in a row": (
        lambda test, training, n: sum(
            set(test[i : i + n]) <= set(training) for i in range(len(test) - n + 1)
        ) / max(1, len(test) - n + 1)
    ),
    "the order of the words in a window counts": (
        lambda test, training, n: sum(
            sorted(test[i : i + n]) in [
                sorted(training[j : j + n]) for j in range(len(training) - n + 1)
            ] for i in range(len(test) - n + 1)
        ) / max(1, len(test) - n + 1)
    ),
    "windows that come twice count twice": (
        lambda test, training, n: len(
            {tuple(test[i : i + n]) for i in range(len(test) - n + 1)}
            & {tuple(training[i : i + n]) for i in range(len(training) - n + 1)}
        ) / max(1, len({tuple(test[i : i + n]) for i in range(len(test) - n + 1)}))
    ),
    "windows overlap: they begin at every word, not at every nth": (
        lambda test, training, n: sum(
            tuple(test[i : i + n]) in {
                tuple(training[j : j + n]) for j in range(len(training) - n + 1)
            } for i in range(0, len(test) - n + 1, n)
        ) / max(1, len(range(0, len(test) - n + 1, n)))
    ),
    "the test's last window is left out": (
        swap("range(len(test) - n + 1)", "range(len(test) - n)")
    ),
    "the training text's last window is left out": (
        swap("range(len(training) - n + 1)", "range(len(training) - n)")
    ),
    "it is a share of the test's windows, not of its words": (
        swap("max(1, len(windows))", "max(1, len(test))")
    ),
    "it is a share of the test's windows, not of the training text's": (
        swap("max(1, len(windows))", "max(1, len(known))")
    ),
    "it is a share, not a number of windows": swap(" / max(1, len(windows))", " * 1.0"),
    "letters that run together are not words: compare lists of words, not joined text": (
        lambda test, training, n: sum(
            "".join(test[i : i + n]) in "".join(training) for i in range(len(test) - n + 1)
        ) / max(1, len(test) - n + 1)
    ),
    "a test shorter than n has the share 0.0": swap("max(1, len(windows))", "len(windows)"),
}  # fmt: skip
