r"""How much does each token see?

A model reads windows of `window` tokens. The first window is scored whole. Each further one starts
`stride` tokens later and scores only what the one before did not. The last window is moved back so
that it ends with the text: it still has `window` tokens.

Write `context_seen(n_tokens, window, stride)` for 1 ≤ stride ≤ window ≤ n_tokens. Return an integer
array `(n_tokens,)`: for each token, the number of tokens before it *in the window that scores it*.
(This model sees nothing in front of its window. The chapter's listing shows it one token more.)

Then say on paper what its smallest entry outside of the first window is, and what a smaller stride
costs in time.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def context_seen(n_tokens, window, stride):
    """Context (n_tokens,) of each token in the window that scores it."""
    seen, done, start = np.arange(n_tokens), window, 0
    while done < n_tokens:
        start = min(start + stride, n_tokens - window)
        seen[done : start + window] = np.arange(done, start + window) - start
        done = start + window
    return seen


# %% explanation
explanation = r"""
Token $i$ that is scored by a window which begins at $s$ has $i - s$ tokens of context. Outside of
the first window that is at least `window − stride`, and in the last window, which was moved back,
more. The work grows like `window / stride`: with stride 1 every token costs a whole window, and
sees all that the model can read.

To move the last window back is what `strided_nats` and the library's `evaluate` do. Both also show
the model the token in front of the window, so there each entry is one larger. Programs that cut the
last window short give its tokens less context; and where a mean over windows is taken afterwards,
the short last one counts as much as a full one.
"""


# %% tests
def tests(rng):
    yield call(7, 4, 2, visible=True)
    yield call(6, 3, 3, hint="windows side by side")
    yield call(9, 4, 3, hint="the last window is moved back")
    yield call(10, 4, 4, hint="the last window is moved back")
    yield call(5, 5, 2, hint="one window is enough")
    yield call(8, 3, 1, hint="with stride 1 each token sees all it can")
    for _ in range(3):
        window = int(rng.integers(3, 12))
        yield call(int(rng.integers(window + 5, 60)), window, int(rng.integers(2, window + 1)))


# %% oracle
def oracle(n_tokens, window, stride):
    """List the windows; each token belongs to the first one that holds it."""
    starts = list(range(0, n_tokens - window + 1, stride))
    if starts[-1] + window < n_tokens:
        starts.append(n_tokens - window)
    return np.array([next(i - s for s in starts if s <= i < s + window) for i in range(n_tokens)])


# %% wrong
def latest_window(n_tokens, window, stride):
    starts = [*range(0, n_tokens - window + 1, stride), n_tokens - window]
    return np.array([i - max(s for s in starts if s <= i) for i in range(n_tokens)])


wrong = {
    "a token is scored by the first window that holds it, not by the last one": latest_window,
    "the windows stand side by side; they overlap": (
        lambda n_tokens, window, stride: np.arange(n_tokens) % window
    ),
    "the last window is cut short here; it is to be moved back": swap(
        "start = min(start + stride, n_tokens - window)", "start = start + stride"
    ).swap(
        "seen[done : start + window] = np.arange(done, start + window) - start",
        "seen[done : start + window] = np.arange(done, min(start + window, n_tokens)) - start",
    ),
    "each token sees a whole window less one, as with stride 1": (
        lambda n_tokens, window, stride: np.minimum(np.arange(n_tokens), window - 1)
    ),
    "each token sees the whole text before it; the model sees one window": (
        lambda n_tokens, window, stride: np.arange(n_tokens)
    ),
    "a token counts itself as context: every entry is one too large": swap(
        "    return seen", "    return seen + 1"
    ),
    "every token of a window is scored anew, and the context counted from what is new": swap(
        "np.arange(done, start + window) - start", "np.arange(done, start + window) - done"
    ),
    "stride and overlap are exchanged": swap(
        "start = min(start + stride, n_tokens - window)",
        "start = min(start + max(1, window - stride), n_tokens - window)",
    ),
}
