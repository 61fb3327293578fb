r"""Two paths, by hand

With pencil and paper. An embedding has variance 1. Every sub-layer adds something independent of
what is there, with standard deviation $s$; $s = 1$ unless another is given. A block has two
sub-layers. *Left* is the size of the embedding in the vector at the top, after pre-LN's last norm.

- `left_post` and `left_pre`: what is left after 4 blocks, for either place of the norm;
- `newest_post`: the size that the last sub-layer's output has in the vector at the top of a post-LN
  stack;
- `blocks`: the smallest number of post-LN blocks that leave less than a hundredth;
- `size`: the $s$ with which 4 blocks of pre-LN leave exactly one half;
- `rate`: the learning rate of the 50th step, if it warms up over 200 steps to 0.01;
- `travel`: how far a weight can move during these 200 steps, if each step of Adam moves it by the
  rate of that step, always in one direction.

Write fractions and roots as they are, `1 / 3` or `2 ** -0.5`.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-4


# %% solution
two_paths = {
    "left_post": 1 / 16,
    "left_pre": 1 / 3,
    "newest_post": 2**-0.5,
    "blocks": 7,
    "size": (3 / 8) ** 0.5,
    "rate": 0.0025,
    "travel": 1.005,
}

# %% explanation
explanation = r"""
Four blocks have eight sub-layers. Each norm of post-LN divides by $\sqrt2$: $(1/\sqrt2)^8 = 1/16$.
In pre-LN the variances add up to $1 + 8 = 9$, and the last norm divides by 3. The last sub-layer of
post-LN is divided once, by the norm behind it: $1/\sqrt2$, whatever the depth. Half of the
variance at the top is always its own.

$2^{-L} < 0.01$ needs $2^L > 100$, so $L = 7$. One half is left in pre-LN if the variance has grown
to 4: $1 + 8 s^2 = 4$.

The rate of the 50th step is $\frac{50}{200}$ of the peak. The rates add up to $0.01 \cdot (1 + 2 +
\dots + 200)/200 = 0.01 \cdot 100.5$: half of what 200 steps without a warm-up could move.
"""


# %% oracle
def oracle():
    """Sub-layers that add orthogonal rows, normalised by numpy; sums and searches by loops."""
    import numpy as np

    def stack(n_blocks, place, s=1.0):
        """The sizes of the embedding and of the last output in the vector at the top."""
        n = 2 * n_blocks
        parts = np.eye(n + 1)  # independent, of size 1 each
        x = parts[0]
        for row in parts[1:]:
            x = x + s * row
            x = x / np.linalg.norm(x) if place == "post" else x
        x = x / np.linalg.norm(x)
        return float(x[0]), float(x[-1])

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if stack(4, "pre", middle)[0] > 0.5 else (low, middle)
    rates = [0.01 * min(1, (t + 1) / 200) for t in range(200)]
    return {
        "left_post": stack(4, "post")[0],
        "left_pre": stack(4, "pre")[0],
        "newest_post": stack(4, "post")[1],
        "blocks": next(n for n in range(1, 100) if stack(n, "post")[0] < 0.01),
        "size": low,
        "rate": rates[49],
        "travel": sum(rates),
    }


# %% wrong
wrong = {
    "a block has two sub-layers, and each of them a norm": {"left_post": 1 / 4},
    "each norm divides by the standard deviation √2, not by the variance 2": {"left_post": 1 / 256},
    "a block has two sub-layers, and both add to the path": {"left_pre": 5**-0.5},
    "the last norm divides by the standard deviation 3, not by the variance 9": {"left_pre": 1 / 9},
    "pre-LN has one more norm after the last block; this is the size before it": {"left_pre": 1.0},
    "the norm behind it divides the last sub-layer's output, too": {"newest_post": 1.0},
    "the last output passes one norm, not two": {"newest_post": 1 / 2},
    "seven sub-layers are not seven blocks: the question is about blocks of two": {"blocks": 14},
    "2⁻⁶ is more than a hundredth": {"blocks": 6},
    "this is s², the variance; s is its root": {"size": 3 / 8},
    "four blocks have eight sub-layers": {"size": (3 / 4) ** 0.5},
    "this leaves a half of the variance; a half of the size is a quarter of the variance": {
        "size": (1 / 8) ** 0.5
    },
    "the 50th step is a quarter of the way up": {"rate": 0.005},
    "this is the distance without a warm-up": {"travel": 2.0},
}
