r"""A cache that stops growing

Some models attend only to the last $w$ tokens in *some* of their layers (a sliding window,
[chapter 15](15_masking.ipynb)), and to all tokens in the others. A layer with a window never needs
more than $w$ keys and values.

Write `cache_in_window(layers, windowed, heads, kv_heads, width, window, n, size)`, the bytes of the
cache for one text of `n` tokens:

- `layers` is the number of all layers; `windowed` of them have a window of `window` tokens;
- `heads` is the number of heads of the queries, `kv_heads` that of keys and values; every head is
  `width / heads` wide;
- a number has `size` bytes.

What does a window of 1,024 in every second layer save GPT-3 at 2,048 tokens? And at 131,072?
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def cache_in_window(layers, windowed, heads, kv_heads, width, window, n, size):
    """Bytes of keys and values for one text of n tokens."""
    one = 2 * kv_heads * (width // heads) * size  # of a token in a layer
    tokens = (layers - windowed) * n + windowed * min(n, window)
    return one * tokens


# %% explanation
explanation = r"""
Each layer keeps a key and a value, hence the 2, for each token and each head *of keys and values*;
the number of query heads matters only for the width, `width / heads`. A layer with a window
keeps `min(n, window)` tokens: before the text is as long as the window, it saves nothing.

With every second layer windowed at 1,024, a text of 2,048 costs three quarters: half of the layers
keep half. At 131,072 it costs hardly more than half, and the layers without a window are all that
counts.
"""


# %% tests
def tests(rng):
    yield call(2, 1, 4, 2, 12, 5, 8, 2, visible=True)
    yield call(
        96, 0, 96, 96, 12_288, 1024, int(rng.integers(1025, 2049)), 2, hint="GPT-3, no windows"
    )
    n = int(rng.integers(60_000, 131_073))
    yield call(96, 48, 96, 96, 12_288, 1024, n, 2, hint="every second layer")
    yield call(80, 0, 64, 8, 8192, 4096, int(rng.integers(1000, 4097)), 2, hint="LLaMA-2, 70B")
    n, window = int(rng.integers(1, 10)), int(rng.integers(11, 30))
    yield call(7, 7, 3, 3, 15, window, n, 4, hint="a text shorter than the window")
    yield call(7, 3, 5, 1, 35, window, window, 1, hint="a text as long as the window")
    yield call(5, 2, 3, 3, 21, 4, 0, 4, hint="no tokens yet")
    n = [int(x) for x in rng.integers(2, 9, size=3)]
    yield call(n[0] + n[1], n[1], 6, 3, 6 * n[2], 13, 29, 2, hint="at random")


# %% oracle
def oracle(layers, windowed, heads, kv_heads, width, window, n, size):
    """Token by token: each is stored, and a full window lets the oldest go."""
    total = 0
    for layer in range(layers):
        held = 0
        for _ in range(n):
            held += 1
            if layer < windowed and held > window:
                held -= 1
        total += held
    return total * 2 * kv_heads * width // heads * size


# %% wrong
wrong = {
    "keys and values are kept, two vectors for each token": swap("2 * kv_heads", "kv_heads"),
    "the cache has kv_heads heads, each width / heads wide": (swap("2 * kv_heads", "2 * heads")),
    "a text shorter than its window keeps n tokens, not a full window": (
        swap("min(n, window)", "window")
    ),
    "a layer with a window forgets the tokens that left it": (swap("min(n, window)", "n")),
    "the layers with a window are not counted": (swap(" + windowed * min(n, window)", "")),
    "the layers with a window are counted twice, once as whole ones": (
        swap("(layers - windowed)", "layers")
    ),
    "these are numbers, not bytes": swap(" * size", ""),
    "it is the windowed layers that keep min(n, window), not the others": (
        swap("(layers - windowed) * n + windowed", "windowed * n + (layers - windowed)")
    ),
}
