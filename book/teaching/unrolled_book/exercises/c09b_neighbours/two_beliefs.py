r"""Two beliefs, by hand

The weather is *calm* or *wild*, and we see only whether the water is *high* or *low*. High water
has the probability $\tfrac14$ when it is calm and $\tfrac34$ when it is wild. From one day to the
next

$$
A = \begin{pmatrix} \tfrac34 & \tfrac14 \\[2pt] \tfrac12 & \tfrac12 \end{pmatrix} ,
$$

rows: from calm, from wild; columns: to calm, to wild. Before the first day both are equally likely,
$b_1 = (\tfrac12, \tfrac12)$. On day 1 the water is high, on day 2 it is low.

With pencil and paper: the beliefs `b_2` and `b_3` *before* the water of day 2 and of day 3 is seen
(calm first; fractions may be written as they are); `p_2`, the probability of low water on day 2
after what day 1 showed; and `log_p`, the logarithm in nats of the probability of both days, to
three digits.
"""

kind, level, points = "paper", 1, 2


# %% starter
starter = """
two_beliefs = {"b_2": ..., "p_2": ..., "b_3": ..., "log_p": ...}
"""

# %% solution
two_beliefs = {
    "b_2": [9 / 16, 7 / 16],
    "p_2": 17 / 32,
    "b_3": [95 / 136, 41 / 136],
    "log_p": -1.326,
}

# %% explanation
explanation = r"""
*Weigh, divide, move.* High water on day 1: $b_1 \odot e_1 = (\tfrac18, \tfrac38)$ with the sum
$\tfrac12$, so after seeing it the weather is $(\tfrac14, \tfrac34)$. The move:

$$
b_2 = (\tfrac14, \tfrac34)\, A
= (\tfrac{3}{16} + \tfrac{6}{16},\; \tfrac1{16} + \tfrac6{16})
= (\tfrac9{16}, \tfrac7{16}) .
$$

Low water has the probabilities $e_2 = (\tfrac34, \tfrac14)$, so $p_2 = b_2 \cdot e_2 = \tfrac{27 +
7}{64} = \tfrac{17}{32}$. After it the weather is $(\tfrac{27}{34}, \tfrac7{34})$, and one more move
gives $b_3 = (\tfrac{95}{136}, \tfrac{41}{136})$. The two days together have the probability
$\tfrac12 \cdot \tfrac{17}{32} = \tfrac{17}{64}$, and $\ln \tfrac{17}{64} \approx -1.326$.
"""


# %% oracle
def oracle():
    """A sum over all paths of hidden states; the belief is a ratio of two such sums."""
    import itertools
    import math

    A, start = [[0.75, 0.25], [0.5, 0.5]], [0.5, 0.5]
    shows = {"high": [0.25, 0.75], "low": [0.75, 0.25]}

    def probability(seen, last=None):
        total, n = 0.0, len(seen) + (last is not None)
        for path in itertools.product((0, 1), repeat=n):
            if last is not None and path[-1] != last:
                continue
            p = start[path[0]]
            for i, j in itertools.pairwise(path):
                p *= A[i][j]
            for state, water in zip(path, seen, strict=False):
                p *= shows[water][state]
            total += p
        return total

    def belief(seen):
        return [probability(seen, last) / probability(seen) for last in (0, 1)]

    both = probability(["high", "low"])
    return {
        "b_2": belief(["high"]),
        "p_2": both / probability(["high"]),
        "b_3": belief(["high", "low"]),
        "log_p": math.log(both),
    }


oracle_tolerance = 1e-3  # the solution's logarithm is rounded to three digits


# %% wrong
wrong = {
    "these are the beliefs after the water was seen; one move with A is missing": {
        "b_2": [1 / 4, 3 / 4], "b_3": [27 / 34, 7 / 34]
    },
    "A is transposed: its rows say where the weather comes from": {
        "b_2": [3 / 8, 1 / 2], "b_3": [0.5962, 0.5]
    },
    "the products are not divided by their sum, so the beliefs do not add up to 1": {
        "b_2": [9 / 32, 7 / 32], "b_3": [0.1855, 0.0801]
    },
    "high and low are exchanged on both days": {
        "b_2": [11 / 16, 5 / 16], "p_2": 13 / 32, "b_3": [0.6058, 0.3942], "log_p": -1.594
    },
    "the first step moves before the water of day 1 is seen; b_1 holds before it": {
        "b_2": [0.5893, 0.4107], "p_2": 0.5446, "b_3": [0.7029, 0.2971], "log_p": -1.434
    },
    "p_2 uses the belief of day 1; day 1 has shown high water since": {"p_2": 1 / 2},
    "this logarithm is in bits; give nats": {"log_p": -1.913},
    "this logarithm counts the second day only": {"log_p": -0.633},
    "this logarithm counts the first day only": {"log_p": -0.693},
}  # fmt: skip
