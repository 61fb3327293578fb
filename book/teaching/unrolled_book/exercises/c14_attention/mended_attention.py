r"""Five faults in three lines

Somebody wrote this function for scaled dot-product attention. On one small case, three tokens of
width 3, its output looked right.

```python
def mended_attention(q, k, v):
    weights = np.exp(q @ k.T / np.sqrt(k.shape[0]))
    weights = weights / weights.sum(axis=1)
    return weights @ v
```

It has five faults. Find them and write a function that is right for `q` `(…, T, K)`,
`k` `(…, S, K)` and `v` `(…, S, Kv)` with any number of axes in front, with T, S and K that differ,
and with scores of any size. Return `(…, T, Kv)` and do not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def mended_attention(q, k, v):
    """Attention (…, T, Kv) of q (…, T, K), k (…, S, K), v (…, S, Kv)."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])  # (…, T, S)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v


# %% explanation
explanation = r"""
- `k.T` reverses *all* axes; exchange the last two only.
- `k.shape[0]` is the number of keys, or of tables in a batch. The divisor is the root of the width,
  the last axis.
- `axis=1` is the axis of the keys only as long as there is no batch. Counted from the end, the keys
  are always the last axis.
- Without `keepdims`, numpy matches the sums $(T,)$ with the *columns* of the weights $(T, S)$: the
  entry in row $i$, column $j$ is divided by the sum of row $j$. With T = S no error is raised.
- `np.exp` overflows above about 709 in float64. Subtracting each row's maximum changes no weight.

The first four raise no error for some shapes. Two checks find them: that the weights of each query
are a distribution, and a test in which every axis has a different size.
"""


# %% tests
def table(rng, *lead, T, S, K, Kv, size=1.0):
    q = size * rng.normal(size=(*lead, T, K))
    return q, rng.normal(size=(*lead, S, K)), rng.normal(size=(*lead, S, Kv))


def tests(rng):
    yield call(
        np.array([[1.0, 0, 0, 0]]),
        np.array([[0.0, 0, 0, 0], [0, 1, 0, 0]]),
        np.array([[2.0], [4.0]]),
        visible=True,
    )
    yield call(*table(rng, T=3, S=3, K=3, Kv=3), hint="T = S = K here")
    yield call(*table(rng, T=4, S=4, K=7, Kv=2), hint="T = S, and another width")
    yield call(*table(rng, T=2, S=5, K=3, Kv=7), hint="T, S and K differ")
    yield call(*table(rng, 2, T=3, S=5, K=7, Kv=11), hint="a batch of two")
    yield call(*table(rng, 5, T=5, S=5, K=5, Kv=5), hint="all axes are 5 long")
    yield call(*table(rng, 2, 3, T=5, S=7, K=11, Kv=2), hint="two axes in front")
    yield call(*table(rng, T=3, S=5, K=3, Kv=2, size=3000.0), hint="scores in the thousands")
    q, k, v = table(rng, T=3, S=5, K=3, Kv=2)
    q[0] *= 5000.0
    yield call(q, k, v, hint="one query has scores far above the others")


# %% oracle
def oracle(q, k, v):
    """torch's fused kernel, one table at a time."""
    import torch

    attention = torch.nn.functional.scaled_dot_product_attention
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for lead in np.ndindex(q.shape[:-2]):
        out[lead] = attention(*(torch.tensor(a[lead])[None, None] for a in (q, k, v)))[0, 0]
    return out


# %% wrong
wrong = {
    "`k.T` reverses all axes; exchange the last two": swap("np.swapaxes(k, -1, -2)", "k.T"),
    "the divisor is taken from the number of keys; it is the root of the width": (
        swap("q.shape[-1]", "k.shape[-2]")
    ),
    "the divisor is taken from the first axis of k; it is the root of the width, the last": (
        swap("q.shape[-1]", "k.shape[0]")
    ),
    "the scores are divided by the width, not by its root": (
        swap("np.sqrt(q.shape[-1])", "q.shape[-1]")
    ),
    "the scores are not divided by the root of the width": swap(" / np.sqrt(q.shape[-1])", ""),
    "axis 1 is the keys' axis only as long as nothing stands in front: count from the end": (
        swap("weights.sum(axis=-1", "weights.sum(axis=1")
    ),
    "the softmax runs over the queries, the last axis but one": (
        swap("weights.sum(axis=-1", "weights.sum(axis=-2")
    ),
    "the maximum of each row is not subtracted: large scores overflow": (
        swap(" - scores.max(axis=-1, keepdims=True)", "")
    ),
    "the maximum of all scores is subtracted; each row has its own": (
        swap("scores.max(axis=-1, keepdims=True)", "scores.max()")
    ),
    "without `keepdims` the sum of row j divides column j": (
        swap("weights.sum(axis=-1, keepdims=True)", "weights.sum(axis=-1)[..., None, :]")
    ),
}
