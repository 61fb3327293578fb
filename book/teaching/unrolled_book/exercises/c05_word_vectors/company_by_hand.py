r"""Company by hand

With pencil and paper, to three digits where a value is not whole.

- `window`: in the snippet "the cat saw the dog and the cat ran", how often does *dog* stand in a
  window of $m = 3$ around *cat*, over both occurrences of *cat*?
- `cosine`: two words have the counts $(3, 4, 0)$ and $(0, 4, 3)$. What is their cosine?
- `pmi`: in a table with the sum 400, the row of $w$ has the sum 40, the column of $c$ the sum 50,
  and the two met 10 times. What is $\mathrm{PMI}(w, c)$ in nats, with $\alpha = 1$?
- `ppmi`: in the same table, $w$ and another context with the column sum 100 met 5 times. What is
  their PPMI?
- `product`: at skip-gram's optimum with $k = 2$ negatives, drawn in proportion to the contexts'
  counts, what is $e_w \cdot u_c$ for the pair of `pmi`?
- `numbers`: a vocabulary of 10,000 words, vectors of 50 numbers. How many numbers do the two tables
  of skip-gram hold?
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-3

# %% solution
company_by_hand = {
    "window": 2,
    "cosine": 0.64,
    "pmi": 0.693147,
    "ppmi": 0,
    "product": 0,
    "numbers": 1_000_000,
}

# %% explanation
explanation = r"""
The words are at the positions the 1, cat 2, saw 3, the 4, dog 5, and 6, the 7, cat 8, ran 9: *dog*
stands 3 positions from both.

The product is 16 and both lengths are 5, so the cosine is $16 / 25$.

By chance $w$ and $c$ would meet $40 \cdot 50 / 400 = 5$ times. They met 10 times: $\ln 2$. The
other context would be met 10 times by chance and was met 5 times: PMI is $\ln \frac12 < 0$, and
its positive part is 0.

Skip-gram's product is $\mathrm{PMI} - \ln k = \ln 2 - \ln 2 = 0$: the unit that tells true contexts
from drawn ones is undecided, since the pair is seen exactly as often as it is drawn.

Words and contexts have a table of $10{,}000 \cdot 50$ each.
"""


# %% oracle
def oracle():
    """By counting positions, by numpy, and by a search for the balance of pull and push."""
    import numpy as np

    text = "the cat saw the dog and the cat ran".split()
    pairs = [(a, b) for a in range(9) for b in range(9) if 0 < abs(a - b) <= 3]
    a, b = np.array([3, 4, 0]), np.array([0, 4, 3])
    x = np.linspace(-3, 3, 60001)
    sigma = 1 / (1 + np.exp(-x))
    balance = np.abs(10 * (1 - sigma) - 2 * 40 * (50 / 400) * sigma)
    return {
        "window": sum(text[i] == "cat" and text[j] == "dog" for i, j in pairs),
        "cosine": np.cos(np.arccos(a @ b / np.sqrt((a @ a) * (b @ b)))),
        "pmi": np.log(10 / 400) - np.log(40 / 400) - np.log(50 / 400),
        "ppmi": max(0.0, np.log(5 * 400 / (40 * 100))),
        "product": round(float(x[balance.argmin()]), 6),
        "numbers": np.zeros((10_000, 50)).size + np.zeros((10_000, 50)).size,
    }


# %% wrong
wrong = {
    "dog was counted for one of the two cats only": {"window": 1},
    "these are the positions of the first cat's window, not how often dog is in it": {"window": 4},
    "the product was not divided by the lengths": {"cosine": 16},
    "divided by one length; there are two": {"cosine": 3.2},
    "this is the ratio; PMI is its logarithm": {"pmi": 2},
    "this is the logarithm to base two; a nat is the unit of ln": {"pmi": 1},
    "this is ln #(w, c), which no chance has divided": {"pmi": 2.3026},
    "this is the PMI; its positive part is never negative": {"ppmi": -0.6931},
    "ln k has to be subtracted": {"product": 0.6931},
    "ln k was added": {"product": 1.3863},
    "skip-gram has a second table, for the contexts": {"numbers": 500_000},
}
