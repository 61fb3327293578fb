r"""How many maps must one look at?

Somebody shows an attention map in which *it* reads *animal* more than anything else, and believes
that the model has understood the pronoun. How often would that happen if no head understood
anything?

Let the map's row have 12 words to choose from, and suppose that each head has its largest weight
on one of them by chance, each equally likely, independently of other heads. One of the 12 is
*animal*.

- `one_head`: the probability that a given head has its largest weight on *animal*;
- `best_of_48`: the probability that at least one of the $6 \cdot 8 = 48$ heads of the encoder of
  2017 has;
- `with_choice`: the same if the reader is content with *animal* or *street*, and invents the story
  afterwards;
- `heads_for_even`: the smallest number of heads for which the chance of at least one on *animal* is
  above one half;
- `two_sentences`: the probability that at least one of 48 heads finds the right noun in *two*
  sentences, its largest weight on the right one of 12 words both times.

**Predict** before you compute, then find them by formula or by simulation, to two digits after the
point.
"""

kind, level, points = "experiment", 2, 3
tolerance = 6e-3


# %% solution
lucky_maps = {
    "one_head": 1 / 12,
    "best_of_48": 0.98465,
    "with_choice": 0.99984,
    "heads_for_even": 8,
    "two_sentences": 0.28430,
}

# %% explanation
explanation = r"""
A head misses with probability $\frac{11}{12}$, all 48 miss with
$(\frac{11}{12})^{48} \approx 0.015$. So at least one hits in 98 cases of a hundred, and two nouns
to choose from leave hardly any doubt. Eight heads are enough for an even chance,
$1 - (\frac{11}{12})^8 \approx 0.50$.

A second sentence changes the picture: $1 - (\frac{143}{144})^{48} \approx 0.28$. A head that is
chosen on one sentence and then tried on *another* has a chance of $\frac1{12}$ again. That is the
same rule as for a model: choose on validation, report on test.

Heads are of course not random. They have habits (the word before, the first word, the same word),
and a habit can hit the noun more often than chance does, without any understanding. That is why
the control of the chapter exchanges the two nouns.
"""


# %% oracle
def oracle():
    """Simulation for the shares, and a walk through the numbers of heads."""
    import numpy as np

    rng = np.random.default_rng(0)
    first, second = rng.integers(12, size=(2, 400_000, 48), dtype=np.int8)
    n, miss = 0, 1.0
    while miss >= 0.5:
        n, miss = n + 1, miss - miss / 12
    return {
        "one_head": float((first == 0).mean()),
        "best_of_48": float((first == 0).any(axis=1).mean()),
        "with_choice": float((first <= 1).any(axis=1).mean()),
        "heads_for_even": n,
        "two_sentences": float(((first == 0) & (second == 0)).any(axis=1).mean()),
    }


oracle_tolerance = 5e-3  # of 400,000 draws


# %% wrong
wrong = {
    "probabilities of 48 heads do not add up to 48/12; what multiplies is the chance to miss": {
        "best_of_48": 4.0, "with_choice": 8.0, "heads_for_even": 6, "two_sentences": 1 / 3
    },
    "this is the chance that all heads miss, not that at least one hits": {
        "best_of_48": 0.01535, "with_choice": 0.00016, "two_sentences": 0.71573
    },
    "two nouns of 12 are a chance of 1/6 for a head; here the first answer was doubled": {
        "with_choice": 1.9693
    },
    "it must be the same head in both sentences; here each sentence may have its own": {
        "two_sentences": 0.96953
    },
    "with 7 heads the chance is still below one half": {"heads_for_even": 7},
    "two heads may choose the same word; and 6 of 12 would be one half, not above it": {
        "heads_for_even": 6
    },
    "there are 6 layers of 8 heads, 48 in all; here one layer of 8 was counted": {
        "best_of_48": 0.50146, "with_choice": 0.76743, "two_sentences": 0.05423
    },
    "the other 11 words: a head hits one of 12, so its chance is 1/12": {
        "one_head": 1 / 11, "best_of_48": 0.98969
    },
}  # fmt: skip
