r"""Two models by hand

Two models read the same four tokens. Model A gives them the probabilities 1/2, 1/8, 1/4, 1/4,
model B the probabilities 1/4, 1/4, 1/4, 1/2.

1. How many bits does model A pay for the whole text, and model B?
2. What are their perplexities?
3. A third model agrees with model B on the first three tokens, and gives the last one the
   probability 1/1024. What is its perplexity?

Fill in the dictionary. Powers of two are enough; no computer is needed.
"""

kind, level, points = "paper", 1, 2

# %% solution
perplexity_by_hand = {
    "bits_A": 8,
    "bits_B": 7,
    "perplexity_A": 4.0,
    "perplexity_B": 3.3636,
    "perplexity_C": 16.0,
}

# %% explanation
explanation = r"""
Model A pays $1 + 3 + 2 + 2 = 8$ bits, two for each token: $2^2 = 4$. Model B pays
$2 + 2 + 2 + 1 = 7$ bits, and $2^{7/4} \approx 3.364$. The third model pays $6 + 10 = 16$ bits, four
for each token: $2^4 = 16$. One bad surprise has multiplied the perplexity by almost five, because
it enters the *product*. With a probability of 0 there, the perplexity would be infinite.
"""

# %% oracle
oracle_tolerance = 1e-4  # the solution is given to five digits


def oracle():
    """One over the geometric mean, by the fourth root of a product of fractions."""
    from fractions import Fraction

    texts = {"A": (2, 8, 4, 4), "B": (4, 4, 4, 2), "C": (4, 4, 4, 1024)}
    found = {}
    for name, one_over_p in texts.items():
        product = Fraction(1)
        for k in one_over_p:
            product *= k
        if name != "C":
            found[f"bits_{name}"] = product.numerator.bit_length() - 1
        found[f"perplexity_{name}"] = float(product) ** 0.25
    return found


# %% wrong
wrong = {
    "the perplexity of A is the plain mean of 1/p; it is the geometric mean": {"perplexity_A": 4.5},
    "the perplexity of B is the plain mean of 1/p; it is the geometric mean": {"perplexity_B": 3.5},
    "the perplexity of C is the plain mean of 1/p; it is the geometric mean": {
        "perplexity_C": 259.0
    },
    "two to the power of all bits of A is one over the probability of the text; first divide by "
    "the number of tokens": {"perplexity_A": 256.0},
    "two to the power of all bits of B is one over the probability of the text; first divide by "
    "the number of tokens": {"perplexity_B": 128.0},
    "these are bits per token of A, and the whole text was asked for": {"bits_A": 2},
    "these are bits per token of B, and the whole text was asked for": {"bits_B": 1.75},
    "the bits of B were raised to the power of e; for bits the base is two": {
        "perplexity_B": 5.7546
    },
    "1/1024 is ten bits; here it was counted as nine": {"perplexity_C": 2.0**3.75},
}
