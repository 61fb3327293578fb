r"""Positions, by hand

With pencil and paper; give three digits where the answer is no fraction.

- `length_squared`: $PE(p) \cdot PE(p)$ for $d = 512$.
- `omega_3`: the frequency $\omega_3$ for $d = 8$ and base 10 000.
- `bucket_8`, `bucket_16`, `bucket_100`: T5's causal buckets of these distances, with 8
  buckets, so 4 exact ones, and 32 instead of 128.
- `third_slope`: the slope of the third of *three* heads in ALiBi. Three is no power of two: the
  authors' code takes the slopes of two heads, and then every other one of four, from the first on.
- `weight_ratio`: a head has slope $\frac14$; two keys fit the query equally well, one lies 2
  positions back and one 6. How many times larger is the weight of the nearer one?
- `turned`: one pair, $q = (1, 0)$, $k = (0, 1)$, $\omega = \pi/6$. The rotary score, without
  $\sqrt{d_k}$, of a query at position 5 with a key at position 2.
"""

kind, level, points = "paper", 1, 3


# %% starter
starter = """
positions_by_hand = {
    "length_squared": ...,
    "omega_3": ...,
    "bucket_8": ...,
    "bucket_16": ...,
    "bucket_100": ...,
    "third_slope": ...,
    "weight_ratio": ...,
    "turned": ...,
}
"""

# %% solution
positions_by_hand = {
    "length_squared": 256,
    "omega_3": 0.001,
    "bucket_8": 5,
    "bucket_16": 6,
    "bucket_100": 7,
    "third_slope": 1 / 4,
    "weight_ratio": 2.71828,
    "turned": 1,
}

# %% explanation
explanation = r"""
Each of the $d/2$ pairs gives $\sin^2 + \cos^2 = 1$. The frequency is $10000^{-6/8} = 10^{-3}$.

The four logarithmic buckets lie between 4 and 32, a factor of eight: $8/4 = 2$ is a third of the
way ($\ln 2 / \ln 8$), so $4 + \lfloor 4/3 \rfloor = 5$; $16/4 = 4$ is two thirds, $4 + \lfloor
8/3 \rfloor = 6$; and 100 is beyond the end, in the last bucket.

Three heads get the two slopes of $H = 2$, $2^{-4}$ and $2^{-8}$, and then the first of $H = 4$,
$2^{-2}$. The heads of ALiBi are not sorted when their number is no power of two.

The biases are $-\frac24$ and $-\frac64$, so the weights differ by the factor $e^{6/4 - 2/4} = e$.

As complex numbers $q = 1$ and $k = \mathrm i$; $\mathrm{Re}(q \bar k\, e^{\mathrm i (5 - 2)
\pi/6}) = \mathrm{Re}(-\mathrm i \cdot \mathrm i) = 1$. Unturned the two are perpendicular; three
steps of 30° have brought the query onto the key.
"""


# %% oracle
def oracle():
    """The library's tables and its attention."""
    import torch
    from unrolled.models.attention import attend
    from unrolled.models.positions import RelativeBias, alibi_slopes, sinusoidal

    row = sinusoidal(7, 512)[6].double()
    pair = sinusoidal(2, 8)[1, 6:].double()  # (sin ω, cos ω) at position 1
    buckets = RelativeBias(1, n_buckets=8, max_distance=32).bucket(torch.tensor([8, 16, 100]))
    bias = torch.tensor([[-6 / 4, 0.0, 0.0, 0.0, -2 / 4]])
    same = torch.zeros(5, 1)
    _, weights = attend(same[:1], same, same, bias=bias, return_weights=True)
    angles = torch.tensor([5 / 6, 2 / 6 + 1 / 2]) * torch.pi  # of q at 5, and of k at 2
    q, k = torch.stack([angles.cos(), angles.sin()], -1)
    return {
        "length_squared": (row @ row).item(),
        "omega_3": torch.atan2(pair[0], pair[1]).item(),
        "bucket_8": buckets[0].item(),
        "bucket_16": buckets[1].item(),
        "bucket_100": buckets[2].item(),
        "third_slope": alibi_slopes(3)[2].item(),
        "weight_ratio": (weights[0, 4] / weights[0, 0]).item(),
        "turned": (q @ k).item(),
    }


oracle_tolerance = 1e-5  # the library's tables are float32


# %% wrong
wrong = {
    "there are d/2 pairs, each of length 1; here all d entries were counted as 1": {
        "length_squared": 512
    },
    "the exponent is −2i/d = −6/8; here it is −i/d = −3/8": {"omega_3": 0.0316},
    "a distance of 8 does not have a bucket of its own: only 0 to 3 do": {
        "bucket_8": 8, "bucket_16": 16
    },
    "the share is ln(r/4)/ln(32/4), logarithms on both sides; here it is linear": {
        "bucket_8": 4, "bucket_16": 5
    },
    "no distance is without a bucket: what lies beyond the end is in the last one": {
        "bucket_100": 8
    },
    "three is no power of two: 2 to the power −8h/H does not hold for it": {"third_slope": "1/256"},
    "the third slope comes from four heads, the next power, not from eight": {
        "third_slope": "1/2"
    },
    "the biases go through an exponential: e to the difference, not their ratio": {
        "weight_ratio": 3
    },
    "the nearer key gets more, not less": {"weight_ratio": 0.367879},
    "the angle is (m − n)ω with the conjugate of k; here the sign is lost": {"turned": -1},
    "q and k are perpendicular only before they are turned": {"turned": 0},
}  # fmt: skip
