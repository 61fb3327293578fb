r"""How much context does each token get?

`evaluate` reads a text of $n$ tokens in windows of `context_length` tokens. Each window
begins `context_length − overlap` tokens after the one before, as long as it fits into the text; if
some tokens at the end are then left over, a last window is laid flush with the end. A token is
scored in the *first* window that holds it. The model starts each window from an empty state and
reads, before each token, the one that stands before it in the text; before the very first, a start
symbol.

Write `context_given(n, context_length, overlap)`: an integer array `(n,)` that tells for each token
how many tokens the model has read when it predicts it, the start symbol included. A text shorter
than `context_length` is one window.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def context_given(n, context_length, overlap):
    """How many tokens are read before each of n is predicted: integers (n,)."""
    width = min(context_length, n)
    starts = list(range(0, n - width + 1, context_length - overlap))
    if starts[-1] + width < n:
        starts.append(n - width)
    context = np.zeros(n, dtype=int)
    for start in reversed(starts):  # so that the first window has the last word
        context[start : start + width] = np.arange(1, width + 1)
    return context


# %% explanation
explanation = r"""
In a window that begins at $s$ the token at $i$ is predicted after $i - s + 1$ tokens: the one that
stands before the window (or the start symbol), and those from $s$ to $i - 1$. In the first window
the count runs from 1; in each later one only its new tokens are scored, so that none has fewer than
`overlap + 1`. The last window is flush with the end and may overlap more: its tokens have more.

With `overlap = 0` the count falls back to 1 at every window, and the loss says as much about the
windows as about the model.
"""


# %% tests
def tests(rng):
    yield call(11, 4, 2, visible=True)
    yield call(7, 3, 0, hint="windows that do not overlap, and one token left over")
    yield call(5, 8, 3, hint="a text shorter than one window")
    yield call(8, 5, 1, hint="tokens are left over")
    yield call(2, 8, 3, hint="a text shorter than the overlap")
    yield call(12, 4, 0, hint="nothing is left over")
    yield call(10, 4, 1, hint="nothing is left over, with overlap")
    yield call(9, 5, 4, hint="each window brings one token")
    for _ in range(3):
        width = int(rng.integers(3, 9))
        yield call(int(rng.integers(20, 40)), width, int(rng.integers(1, width)))


# %% oracle
def oracle(n, context_length, overlap):
    """The library's own evaluation of a text of positions, spied on by the model it calls."""
    from unrolled.training.evaluate import evaluate

    first = {}

    def spy(tokens):
        for row in tokens:  # the inputs are the positions before; −1 stands for the start
            for k, before in enumerate(row.tolist(), start=1):
                first.setdefault(before + 1, k)
        return np.zeros((*tokens.shape, n))

    evaluate(spy, np.arange(n), n, start=-1, context_length=context_length, overlap=overlap)
    return np.array([first[i] for i in range(n)])


# %% wrong
def shorter_last_window(n, context_length, overlap):
    context = np.zeros(n, dtype=int)
    for start in reversed(range(0, n, context_length - overlap)):
        width = min(context_length, n - start)
        context[start : start + width] = np.arange(1, width + 1)
    return context


wrong = {
    "the start symbol or the token before the window is read, too: counts begin at 1": (
        swap("np.arange(1, width + 1)", "np.arange(width)")
    ),
    "a token is scored in the first window that holds it, here in the last": (
        swap("reversed(starts)", "starts")
    ),
    "the last window is laid flush with the end; here it is cut short": shorter_last_window,
    "the tokens left over at the end are scored in no window": (
        swap("starts[-1] + width < n", "False")
    ),
    "the windows lie side by side here; they must overlap": swap(
        "context_length - overlap", "context_length"
    ),
    "windows begin `overlap` tokens apart; it is context_length − overlap": (
        swap("context_length - overlap", "overlap")
    ),
    "no window forgets: this is the context in one long reading": (
        lambda n, context_length, overlap: np.arange(1, n + 1)
    ),
    "after the first window every token gets a full window, as with a stride of one": (
        lambda n, context_length, overlap: np.minimum(np.arange(1, n + 1), context_length)
    ),
}
