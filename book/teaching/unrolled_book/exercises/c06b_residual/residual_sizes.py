r"""What residual layers do to the size

With pencil and paper. A residual layer computes $h' = h + b$ with a branch $b$ that depends on $h$
and on the layer's weights. Its mean square is

$$
\mathbb{E}[h'^2] = \mathbb{E}[h^2] + 2\, \mathbb{E}[h b] + \mathbb{E}[b^2] .
$$

- `coin`: let $h = 2$ always, and $b$ be 0 or 1, each with probability $\frac12$ (like a ReLU's
  outputs, $b$ is never negative). What is the middle term, $2\, \mathbb{E}[h b]$?
- `coin_after`: what is $\mathbb{E}[h'^2]$ there?
- `signed_after`: the same $h$, but $b$ is $-1$ or 1, each with probability $\frac12$. What is
  $\mathbb{E}[h'^2]$?
- `equal`: 6 layers whose branches end in a linear map, so that the middle term is 0. Each branch
  has the mean square of its input, as with He's start. By which factor do the 6 layers multiply the
  mean square?
- `quarter`: 4 such layers, but each branch has only a quarter of its input's mean square. By which
  factor do the 4 layers multiply it?
- `divide`: 100 such layers begin with He's start. By which number must the *weights* of each
  branch's last matrix be divided, so that a branch has $\frac{1}{100}$ of its input's mean square?
"""

kind, level, points = "paper", 2, 3
tolerance = 1e-4

# %% solution
residual_sizes = {
    "coin": 2,
    "coin_after": 13 / 2,
    "signed_after": 5,
    "equal": 64,
    "quarter": 625 / 256,
    "divide": 10,
}

# %% explanation
explanation = r"""
With $h = 2$ the middle term is $2 \cdot 2 \cdot \mathbb{E}[b] = 4 \cdot \frac12 = 2$. So
$\mathbb{E}[h'^2] = 4 + 2 + \frac12 = 6\frac12$; indeed $h'$ is 2 or 3, and $\frac12 (4 + 9) =
6\frac12$. With the signed branch $\mathbb{E}[b] = 0$ and the middle term is gone: $h'$ is 1 or 3,
and $\frac12 (1 + 9) = 5 = 4 + 1$. A branch that is never negative adds more than its own mean
square.

Without the middle term a layer multiplies the mean square by $1 + c$, where $c$ is the branch's
share of it: $(1 + 1)^6 = 64$ and $(1 + \frac14)^4 = \frac{625}{256} = 2.44$.

The mean square of the branch goes with the *square* of its last matrix, so the weights are divided
by $\sqrt{100} = 10$ (their variance by 100). Then 100 layers multiply by $(1 +
\frac{1}{100})^{100}$, which is below $e = 2.72$.
"""


# %% oracle
def oracle():
    """By listing the coin's sides, and by multiplying layer by layer."""
    import itertools
    from fractions import Fraction

    def mean(of, branch):
        return Fraction(sum(of(2, b) for b in branch), len(branch))

    def layers(n, share):
        size = Fraction(1)
        for _ in itertools.repeat(None, n):
            size += share * size
        return size

    divide = next(k for k in range(1, 1000) if Fraction(1, k) ** 2 == Fraction(1, 100))
    return {
        "coin": float(mean(lambda h, b: 2 * h * b, (0, 1))),
        "coin_after": float(mean(lambda h, b: (h + b) ** 2, (0, 1))),
        "signed_after": float(mean(lambda h, b: (h + b) ** 2, (-1, 1))),
        "equal": float(layers(6, Fraction(1))),
        "quarter": float(layers(4, Fraction(1, 4))),
        "divide": divide,
    }


# %% wrong
wrong = {
    "the factor 2 of the middle term is missing": {"coin": 1},
    "the mean of b is ½, not 1": {"coin": 4},
    "the middle term is missing: b and h are both positive here": {"coin_after": 4.5},
    "the mean of h′ was squared; asked is the mean of the square": {"coin_after": 6.25},
    "b² is 1 on both sides of the coin": {"signed_after": 4.5},
    "a sign does not turn the mean square around: b² is added, not taken away": {"signed_after": 3},
    "each layer doubles what the layer before left; it does not add one": {"equal": 7},
    "the middle term is 0 here: each layer doubles, it does not multiply by four": {"equal": 4096},
    "four quarters were added; each layer multiplies what is there": {"quarter": 2},
    "the share is one of the mean square, which goes with the square of the weights": {
        "divide": 100
    },
}
