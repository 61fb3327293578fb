r"""A whole GPT in numpy

Write `gpt_logits(weights, tokens, n_heads)` for a GPT of one block: the logits (T, V) of the token
after each of `tokens` (T,), $1 \le T \le T_{\max}$. There are no biases. `weights` holds arrays:

- `embedding` (V, D), which is also the head, and `position` ($T_{\max}$, D);
- `q`, `k`, `v`, `o`, each (D, D), used as `x @ w`; head $r$ owns the columns $rK, \dots, (r+1)K -
  1$ of the first three, $K = D / H$ with $H$ = `n_heads`, and the heads' results stand side by
  side in this order before `o`;
- `up` (D, F) and `down` (F, D), with a ReLU between them.

The norms stand first, in front of attention and feed-forward layer, and once more at the end.
They have neither gain nor bias: $(x - \mu) / \sqrt{v + 10^{-5}}$ over a row, with the biased
variance $v$. Attention is causal, scores are divided by $\sqrt K$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def gpt_logits(weights, tokens, n_heads):
    """Logits (T, V) of tokens (T,), by one block with its norms first."""

    def norm(x):
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)

    w, T = weights, len(tokens)
    x = w["embedding"][tokens] + w["position"][:T]  # (T, D)
    K = x.shape[1] // n_heads
    heads = []
    for r in range(n_heads):
        own = slice(r * K, (r + 1) * K)
        q, k, v = (norm(x) @ w[name][:, own] for name in "qkv")  # (T, K) each
        scores = q @ k.T / np.sqrt(K)
        scores[np.triu_indices(T, 1)] = -np.inf
        A = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(A / A.sum(axis=1, keepdims=True) @ v)
    x = x + np.concatenate(heads, axis=1) @ w["o"]
    x = x + np.maximum(norm(x) @ w["up"], 0) @ w["down"]
    return norm(x) @ w["embedding"].T


# %% explanation
explanation = r"""
Line by line it is the picture of *The whole GPT*: embedding and positions, the block with
its two sums, the last norm, the embedding once more. Only three lines look across positions: the
scores, the mask and the mean of the values. Everything else treats each row alone.

Two mistakes hardly show in the loss of a short training: a missing factor $1/\sqrt K$, and a last
norm that is left out. A missing mask shows as a loss that is too good.
"""


# %% tests
def random_weights(rng, V, D, F, n_positions):
    shapes = {"embedding": (V, D), "position": (n_positions, D), "up": (D, F), "down": (F, D)}
    shapes |= {name: (D, D) for name in ("q", "k", "v", "o")}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def tests(rng):
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    plain = {name: np.eye(2) for name in ("q", "k", "v", "o", "up", "down")}
    by_hand = {"embedding": signs, "position": np.zeros((3, 2))} | plain
    yield call(random_weights(rng, 5, 6, 11, 7), np.array([3]), 2, hint="a single token")
    for V, D, F, n, T, H in ((7, 6, 13, 11, 5, 3), (5, 10, 7, 8, 8, 2), (11, 6, 17, 9, 7, 1)):
        weights = random_weights(rng, V, D, F, n)
        yield call(weights, rng.integers(V, size=T), H, hint=f"{H} heads, T = {T}")
    yield call(by_hand, np.array([0, 1]), 1, visible=True)  # last: its norms give ±1 to any fault


# %% oracle
oracle_tolerance = 1e-6


def oracle(weights, tokens, n_heads):
    """By torch's own functions, all heads at once."""
    import torch
    from torch.nn import functional as F

    w = {name: torch.tensor(value, dtype=torch.float64) for name, value in weights.items()}
    ids = torch.tensor(np.asarray(tokens))
    x = F.embedding(ids, w["embedding"]) + w["position"][: len(ids)]
    D = x.shape[1]
    n = F.layer_norm(x, (D,))
    q, k, v = ((n @ w[m]).reshape(len(ids), n_heads, -1).transpose(0, 1) for m in "qkv")
    mixed = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    x = x + mixed.transpose(0, 1).reshape(len(ids), D) @ w["o"]
    x = x + F.relu(F.layer_norm(x, (D,)) @ w["up"]) @ w["down"]
    return F.linear(F.layer_norm(x, (D,)), w["embedding"]).numpy()


# %% wrong
wrong = {
    "the positions are missing: the model cannot tell the order": swap(' + w["position"][:T]', ""),
    "nothing hides the future: the scores above the diagonal are -inf before the softmax": swap(
        "        scores[np.triu_indices(T, 1)] = -np.inf\n", ""
    ),
    "a position may attend to itself; only what comes after it is hidden": swap(
        "scores[np.triu_indices(T, 1)] = -np.inf", "scores[np.triu_indices(T, 0)] = -1e9"
    ),
    "the mask hides the past and shows the future": swap("np.triu_indices(T, 1)",
                                                         "np.tril_indices(T, -1)"),
    "the scores are divided by √D; each head is K = D / H wide": swap(
        "/ np.sqrt(K)", "/ np.sqrt(x.shape[1])"
    ),
    "the scores are not divided by √K": swap(" / np.sqrt(K)", ""),
    "the softmax runs over the queries; the weights of each row sum to one": swap(
        "A.sum(axis=1, keepdims=True)", "A.sum(axis=0, keepdims=True)"
    ),
    "attention reads x itself; the norm stands in front of it": swap(
        "norm(x) @ w[name]", "x @ w[name]"
    ),
    "the feed-forward layer reads x itself; the norm stands in front of it": swap(
        'norm(x) @ w["up"]', 'x @ w["up"]'
    ),
    "the last norm is missing": swap("return norm(x)", "return x"),
    "the residual path is cut: attention's result is added to x, not put in its place": swap(
        "x = x + np.concatenate", "x = np.concatenate"
    ),
    "the residual path is cut: the feed-forward layer's result is added to x": swap(
        "x = x + np.maximum", "x = np.maximum"
    ),
    "the ReLU is missing: without it the two maps are one": swap(
        'np.maximum(norm(x) @ w["up"], 0)', '(norm(x) @ w["up"])'
    ),
    "the map after the heads, o, is missing": swap(' @ w["o"]', ""),
    "the heads take every H-th column; each owns K columns side by side": swap(
        "slice(r * K, (r + 1) * K)", "slice(r, None, n_heads)"
    ),
    "the norm divides by the standard deviation of n - 1; the variance is the biased one": swap(
        "x.var(axis=1, keepdims=True)", "x.var(axis=1, keepdims=True, ddof=1)"
    ),
    "the mean is not subtracted: this is an RMS norm": swap(
        "return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)",
        "return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)",
    ),
    "keys and values have changed places": swap("q, k, v = (", "q, v, k = ("),
}  # fmt: skip
