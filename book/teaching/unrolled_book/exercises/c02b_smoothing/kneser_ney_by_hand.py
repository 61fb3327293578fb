r"""Kneser–Ney by hand

A corpus has six lines of two words: three times *your highness*, and once each *my lord*, *the
lord*, *the king*. Count bigrams within lines, without an end symbol. The discount is $D = 3/4$.

Work out, with pencil and paper, the continuation probabilities $P_{\mathrm{cont}}(\text{highness})$
and $P_{\mathrm{cont}}(\text{lord})$, and with them the interpolated Kneser–Ney probabilities
$P(\text{highness} \mid \text{your})$, $P(\text{lord} \mid \text{the})$ and
$P(\text{highness} \mid \text{the})$. Here
$P_{\mathrm{cont}}(w) = N_{1+}(\bullet\,w) / N_{1+}(\bullet\,\bullet)$; it is not discounted
again.
"""

from fractions import Fraction

kind, level, points = "paper", 2, 3

# %% solution
kneser_ney_by_hand = {
    "cont(highness)": Fraction(1, 4),
    "cont(lord)": Fraction(1, 2),
    "highness | your": Fraction(13, 16),
    "lord | the": Fraction(1, 2),
    "highness | the": Fraction(3, 16),
}

# %% explanation
explanation = r"""
There are four different bigrams: *your highness*, *my lord*, *the lord*, *the king*. One of them
ends in *highness* and two in *lord*, so $P_{\mathrm{cont}}$ is $\tfrac14$ and $\tfrac24$. After
*your* one word was seen, three times:

$$
P(\text{highness} \mid \text{your})
= \frac{3 - \tfrac34}{3} + \frac{\tfrac34 \cdot 1}{3} \cdot \frac14
= \frac{12}{16} + \frac1{16} = \frac{13}{16}.
$$

After *the* two words were seen, once each, so the discounts free $\tfrac34 \cdot 2 / 2 = \tfrac34$:

$$
P(\text{lord} \mid \text{the}) = \frac{1 - \tfrac34}{2} + \frac34 \cdot \frac12 = \frac12,
$$

$$
P(\text{highness} \mid \text{the}) = 0 + \frac34 \cdot \frac14 = \frac3{16}.
$$

Counted by occurrences, *highness* is three of the six second words and would get $\tfrac34 \cdot
\tfrac12 = \tfrac38$ after *the*: twice as much, though it never followed anything but *your*.
"""


# %% oracle
def oracle():
    """Each different bigram pays 3/4 into its context's pot; all different bigrams share a pot."""
    lines = ["your highness"] * 3 + ["my lord", "the lord", "the king"]
    bigrams = [tuple(line.split()) for line in lines]
    ends = [w for _, w in dict.fromkeys(bigrams)]

    def p(w, u):
        after = [second for first, second in bigrams if first == u]
        pot = sum(Fraction(3, 4) for _ in dict.fromkeys(after))
        mass = after.count(w) - (Fraction(3, 4) if w in after else 0)
        return (mass + sum(pot / len(ends) for end in ends if end == w)) / len(after)

    answer = {f"cont({w})": Fraction(ends.count(w), len(ends)) for w in ("highness", "lord")}
    asked = [("highness", "your"), ("lord", "the"), ("highness", "the")]
    return answer | {f"{w} | {u}": p(w, u) for w, u in asked}


# %% wrong
wrong = {
    "raw counts stand where continuation counts belong: highness is frequent, but in one context": {
        "cont(highness)": "1/2", "cont(lord)": "1/3",
        "highness | your": "7/8", "lord | the": "3/8", "highness | the": "3/8",
    },
    "γ forgets how many different words followed: the discount was taken once from each of them": {
        "lord | the": "5/16", "highness | the": "3/32",
    },
    "γ was divided twice by the number of successors": {
        "highness | your": "37/48", "lord | the": "5/16", "highness | the": "3/32",
    },
    "the seen words got no part of the lower distribution; interpolation adds it to all": {
        "highness | your": "3/4", "lord | the": "1/8",
    },
    "the count was not discounted, so the sum over the words exceeds one": {
        "highness | your": "17/16", "lord | the": "7/8",
    },
    "successors were counted, not predecessors: what matters is in how many contexts a word ends": {
        "cont(highness)": 0, "cont(lord)": 0,
        "highness | your": "3/4", "lord | the": "1/8", "highness | the": 0,
    },
    "this is maximum likelihood; nothing was discounted": {
        "cont(highness)": "1/2", "cont(lord)": "1/3", "highness | your": 1, "highness | the": 0,
    },
    "continuation counts were divided by the 6 occurrences of bigrams, not by the 4 bigrams": {
        "cont(highness)": "1/6", "cont(lord)": "1/3",
        "highness | your": "19/24", "lord | the": "3/8", "highness | the": "1/8",
    },
}  # fmt: skip
