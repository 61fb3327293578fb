r"""The gradient of a lookup

A batch of contexts `(N, n)` was looked up in a table $E$ of shape `(V, D)`, and each context's
vectors were put side by side, so that $e$ has the shape `(N, n * D)`: first the $D$ numbers of
its first word, then those of the second, and so on.

Write `table_gradient(contexts, e_bar, vocab_size)`. `contexts` holds integers, `e_bar`, of shape
`(N, n * D)`, is the gradient of $e$. Return the gradient of $E$, `(V, D)`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def table_gradient(contexts, e_bar, vocab_size):
    """Gradient of E (V, D) from that of e (N, n·D) and the ids (N, n)."""
    shares = e_bar.reshape(*contexts.shape, -1)  # (N, n, D)
    gradient = np.zeros((vocab_size, shares.shape[-1]))
    np.add.at(gradient, contexts, shares)
    return gradient


# %% explanation
explanation = r"""
A lookup copies row $w$ of $E$ to every position where word $w$ stands, so the gradient of the row
is the sum of the gradients of all copies.

`gradient[contexts] += shares` looks like a sum and is none: numpy reads the rows, adds, and writes
back, and of several writes to one row only the last stays. `np.add.at` adds each.

As a matrix product the same thing is $\bar E = O^\top \bar e$, where each row of $O$ has its 1 at
the word that was read: a lookup is a product with one-hot vectors.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0, 2], [2, 2]]), np.arange(1.0, 9.0).reshape(2, 4), 3, visible=True)
    for N, n, D, V in ((5, 3, 2, 7), (11, 2, 3, 4), (1, 5, 1, 3)):
        yield call(rng.integers(0, V, (N, n)), rng.normal(size=(N, n * D)), V)
    yield call(np.array([[1, 1, 1]]), rng.normal(size=(1, 6)), 4, hint="one word three times")


# %% oracle
def oracle(contexts, e_bar, vocab_size):
    """torch, through its own lookup."""
    import torch

    width = e_bar.shape[1] // contexts.shape[1]
    table = torch.zeros(vocab_size, width, dtype=torch.float64, requires_grad=True)
    read = torch.nn.functional.embedding(torch.tensor(contexts), table).flatten(1)
    return torch.autograd.grad(read, table, torch.tensor(e_bar))[0].numpy()


# %% wrong
wrong = {
    "of several shares for one word only the last is kept": (
        swap("np.add.at(gradient, contexts, shares)", "gradient[contexts] += shares")
    ),
    "e's row is cut the wrong way: the D numbers of a word stand together": swap(
        "e_bar.reshape(*contexts.shape, -1)",
        "e_bar.reshape(len(contexts), -1, contexts.shape[1]).swapaxes(1, 2)",
    ),
    "only the first position of each context is handed back": swap(
        "np.add.at(gradient, contexts, shares)", "np.add.at(gradient, contexts[:, 0], shares[:, 0])"
    ),
    "only the last position of each context is handed back": swap(
        "np.add.at(gradient, contexts, shares)",
        "np.add.at(gradient, contexts[:, -1], shares[:, -1])",
    ),
    "the shares of a word are averaged": swap(
        "    return gradient",
        "    n = np.bincount(contexts.ravel(), minlength=vocab_size)\n"
        "    return gradient / np.maximum(n, 1)[:, None]",
    ),
    "the positions stand in reverse order": (
        swap("np.add.at(gradient, contexts, ", "np.add.at(gradient, contexts[:, ::-1], ")
    ),
    "the sum was divided by the number of contexts": (
        swap("return gradient", "return gradient / (len(contexts) + 1e-300 + (len(contexts) < 2))")
    ),
}
