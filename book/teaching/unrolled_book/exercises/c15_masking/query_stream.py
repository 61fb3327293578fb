r"""Two streams

To predict token $i$ *at* position $i$, the query there must know the position but not the token.
The key and the value there must know the token, because later positions read them. In one layer
that is easy. For several layers XLNet keeps two streams, here without weight matrices. They start
as

- contents $h_i = x_i + p_i$, the vectors of a token and of its position, and
- queries $g_i = p_i$, the position alone.

In every layer both read the *contents of the layer below*: contents with the mask $j \le i$,
queries with the mask $j < i$. Each adds what it reads to itself:

$$
h' = h + \mathrm{attend}(h, h, h;\ j \le i), \qquad g' = g + \mathrm{attend}(g, h, h;\ j < i),
$$

with scores divided by $\sqrt{D}$. A query that may see nothing reads the zero vector.

Write `query_stream(tokens, positions, n_layers)` for arrays of shape (T, D); return $g$ after the
last layer, (T, D). Row $i$ must not depend on `tokens[i]`, nor on any later one.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def read(queries, contents, mask):
    """What queries (T, D) read from contents (T, D) under the mask (T, T)."""
    scores = queries @ contents.T / np.sqrt(queries.shape[1])
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - np.where(top > -np.inf, top, 0))
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total > 0, total, 1) @ contents


def query_stream(tokens, positions, n_layers):
    """The queries (T, D) after n_layers of two streams."""
    usual = np.tri(len(tokens), dtype=bool)
    strict = np.tri(len(tokens), k=-1, dtype=bool)
    contents, queries = tokens + positions, positions
    for _ in range(n_layers):
        queries = queries + read(queries, contents, strict)
        contents = contents + read(contents, contents, usual)
    return queries


# %% explanation
explanation = r"""
The order of the two updates matters: if the contents were updated first, the queries would read the
new contents and not those of the layer *below*.

Why does nothing leak? The contents at $j$ depend on tokens up to $j$ and no further, in every
layer, because the causal mask is transitive. The queries at $i$ read contents at $j < i$ only, so
they depend on tokens before $i$. And they start without $x_i$.

A single stream is not enough. If keys and values came from the stream of queries, a key would not
know its own token, and no token would ever be read. If queries came from the stream of contents,
position $i$ would know the answer from the start. Position 0 may see nothing in any layer, so its
query stays what it was at the start.
"""


# %% tests
def tests(rng):
    yield call(np.array([[1.0], [2.0]]), np.array([[0.0], [1.0]]), 1, visible=True)
    for shape, n_layers in [((4, 3), 1), ((5, 2), 2), ((7, 5), 3)]:
        yield call(rng.normal(size=shape), rng.normal(size=shape), n_layers)
    x, p = rng.normal(size=(2, 6, 3))
    yield call(x, p, 0, hint="without a layer the queries are the positions")
    yield call(40 * x, 40 * p, 2, hint="scores may be large: subtract the maximum", tolerance=1e-7)


# %% oracle
def oracle(tokens, positions, n_layers):
    """One position at a time, with torch's attention over what it may see."""
    import torch

    fused = torch.nn.functional.scaled_dot_product_attention

    def reads(query, rows):
        if not rows:
            return torch.zeros_like(query)
        keys = torch.stack(rows)
        return fused(query[None], keys, keys)[0]

    h = list(torch.from_numpy(tokens + positions))
    g = list(torch.from_numpy(positions.copy()))
    for _ in range(n_layers):
        g, h = (
            [g[i] + reads(g[i], h[:i]) for i in range(len(g))],
            [h[i] + reads(h[i], h[: i + 1]) for i in range(len(h))],
        )
    return torch.stack(g).numpy()


# %% wrong
wrong = {
    "the queries use the mask j ≤ i, and so read their own token": (
        swap("queries, contents, strict", "queries, contents, usual")
    ),
    "the queries start with their own token in them": (
        swap("tokens + positions, positions\n", "tokens + positions, tokens + positions\n")
    ),
    "the contents use the strict mask too; only the queries must": (
        swap("contents, contents, usual", "contents, contents, strict")
    ),
    "the queries read the contents of this layer, not of the layer below": (
        swap("        queries = queries + read(queries, contents, strict)\n", "").swap(
            "usual)\n", "usual)\n        queries = queries + read(queries, contents, strict)\n"
        )
    ),
    "what was read replaces the query; add it instead": (
        swap("queries = queries + read", "queries = read")
    ),
    "keys and values come from the queries' stream, which does not know the tokens": (
        swap("queries, contents, strict", "queries, queries, strict")
    ),
    "the scores are not divided by the root of D": swap(" / np.sqrt(queries.shape[1])", ""),
    "the first query may see nothing and must stay as it was; here it is nan": (
        swap("np.where(total > 0, total, 1)", "total")
    ),
    "the masks let every position see the whole text": (
        swap("np.tri(len(tokens), dtype", "np.tri(len(tokens), k=len(tokens), dtype").swap(
            "k=-1", "k=len(tokens)"
        )
    ),
    "the contents are returned, not the queries": swap("return queries", "return contents"),
}
