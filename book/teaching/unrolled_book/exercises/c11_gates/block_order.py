r"""Whose order is this?

Somebody sends the weights of an LSTM: `W` of shape `(D, 4H)`, `U` of shape `(H, 4H)` and `b` of
shape `(4H,)`, with four blocks of `H` columns side by side, and does not say in which order the
blocks stand. Luckily there is one example: an input `x` of shape `(B, D)`, the state before it,
`h` and `c` of shape `(B, H)`, and the hidden state `h_new` that the right program computes.

Write `block_order(W, U, b, x, h, c, h_new)`: the order as a string of the letters i, f, g and o,
such as `"ifgo"` for torch's.
"""

import itertools

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def block_order(W, U, b, x, h, c, h_new):
    """The order of the blocks, a string such as "ifgo"."""
    from itertools import permutations

    blocks = np.split(x @ W + h @ U + b, 4, axis=1)  # four of (B, H)
    for order in permutations("ifgo"):
        a = dict(zip(order, blocks, strict=True))
        i, f, o = (1 / (1 + np.exp(-a[k])) for k in "ifo")
        new_c = f * c + i * np.tanh(a["g"])
        if np.allclose(o * np.tanh(new_c), h_new):
            return "".join(order)
    raise ValueError("no order of i, f, g and o gives this output")


# %% explanation
explanation = r"""
There are only 24 orders, so try them all. The product with all blocks is computed once; an order
is a way of giving the four results their names. With real numbers in it, one example is enough:
no two roles do the same with their block, so two orders agree by accident only.

In practice this is how a converter between two libraries is debugged: one input through both,
and a search over conventions until the numbers agree. Reading the documentation is faster, and
not as reliable.
"""


# %% tests
def example(rng, order, shape):
    B, D, H = shape
    W, U, b = rng.normal(size=(D, 4 * H)), rng.normal(size=(H, 4 * H)), rng.normal(size=4 * H)
    x, h, c = (rng.normal(size=(B, n)) for n in (D, H, H))
    a = dict(zip(order, np.split(x @ W + h @ U + b, 4, axis=1), strict=True))
    i, f, o = (1 / (1 + np.exp(-a[k])) for k in "ifo")
    return W, U, b, x, h, c, o * np.tanh(f * c + i * np.tanh(a["g"]))


def tests(rng):
    yield call(*example(np.random.default_rng(0), "ifgo", (1, 1, 1)), visible=True)
    yield call(*example(rng, "iofg", (2, 3, 5)), hint="ONNX's order")
    yield call(*example(rng, "igfo", (3, 2, 2)), hint="an order of old TensorFlow")
    for _ in range(3):
        yield call(*example(rng, "".join(rng.permutation(list("ifgo"))), (5, 3, 2)))


# %% oracle
def oracle(W, U, b, x, h, c, h_new):
    """torch's cell, with the columns brought into its order, agrees for the right order only."""
    import torch

    n = h.shape[1]
    distance = {}
    for order in itertools.permutations("ifgo"):
        columns = np.concatenate(
            [np.arange(n) + n * order.index(name) for name in ("i", "f", "g", "o")]
        )
        cell = torch.nn.LSTMCell(x.shape[1], n).double()
        weights = (W[:, columns].T, U[:, columns].T, b[columns], 0 * b)
        cell.load_state_dict(dict(zip(cell.state_dict(), map(torch.tensor, weights), strict=True)))
        with torch.no_grad():
            found, _ = cell(torch.tensor(x), (torch.tensor(h), torch.tensor(c)))
        distance["".join(order)] = np.abs(found.numpy() - h_new).max()
    return min(distance, key=distance.get)


# %% wrong
def closest(blocks_of):
    """The order whose output is nearest, with other blocks than the right ones."""

    def answer(W, U, b, x, h, c, h_new):
        gaps = {}
        for order in itertools.permutations("ifgo"):
            a = dict(zip(order, blocks_of(x @ W + b, h @ U), strict=True))
            i, f, o = (1 / (1 + np.exp(-a[k])) for k in "ifo")
            gaps["".join(order)] = np.abs(o * np.tanh(f * c + i * np.tanh(a["g"])) - h_new).max()
        return min(gaps, key=gaps.get)

    return answer


wrong = {
    "this is torch's order whatever the example says": lambda *example: "ifgo",
    "this is Keras's name for it; call the candidate g": (
        swap('"".join(order)', '"".join(order).replace("g", "c")')
    ),
    "these are the positions of i, f, g and o, not their names in the order of the blocks": (
        swap('"".join(order)', '"".join(str(order.index(k)) for k in "ifgo")')
    ),
    "the order is read backwards": swap('"".join(order)', '"".join(order)[::-1]'),
    "the product with h is missing": closest(lambda a, _: np.split(a, 4, axis=1)),
    "a block is H columns side by side; here every fourth column was taken": (
        closest(lambda a, b: [(a + b)[:, k::4] for k in range(4)])
    ),
    "the answer is a string, not a list of letters": swap('"".join(order)', "list(order)"),
}
