r"""Two roads to one number

A language has two-word sentences only, with these probabilities:

| | sleeps | sings |
|---|---|---|
| **cat** | 0.15 | 0.05 |
| **bird** | 0.20 | 0.60 |

Give, as numbers, the two factors of the chain rule for *bird sleeps* from left to right,
`first` $= P(x_1 = \text{bird})$ and `then` $= P(x_2 = \text{sleeps} \mid x_1 = \text{bird})$, and
the two from right to left, `last` $= P(x_2 = \text{sleeps})$ and `before`
$= P(x_1 = \text{bird} \mid x_2 = \text{sleeps})$.
"""

kind, level, points = "paper", 1, 2

# %% solution
two_roads = {"first": 0.80, "then": 0.25, "last": 0.35, "before": 4 / 7}

# %% explanation
explanation = r"""
*Bird* starts 0.20 + 0.60 = 0.80 of the sentences, and 0.20 of that 0.80 go on with *sleeps*: a
quarter. *Sleeps* ends 0.15 + 0.20 = 0.35, and 0.20 of that 0.35 began with *bird*: four in seven.
Both products are 0.20, the table's entry. The two conditional probabilities differ because they
divide the same entry by different totals.
"""


# %% oracle
def oracle():
    """A hundred sentences in the table's proportions, counted."""
    table = {"cat sleeps": 15, "cat sings": 5, "bird sleeps": 20, "bird sings": 60}
    texts = [text.split() for text, count in table.items() for _ in range(count)]
    bird = [second for first, second in texts if first == "bird"]
    sleeps = [first for first, second in texts if second == "sleeps"]
    return {
        "first": len(bird) / len(texts),
        "then": bird.count("sleeps") / len(bird),
        "last": len(sleeps) / len(texts),
        "before": sleeps.count("bird") / len(sleeps),
    }


# %% wrong
wrong = {
    "`then` and `before` are joint probabilities; divide by the condition's probability": {
        "then": 0.20,
        "before": 0.20,
    },
    "`then` is divided by the column's total; its condition is the first word, a row": {
        "then": 4 / 7
    },
    "`before` is divided by the row's total; its condition is the second word, a column": {
        "before": 0.25
    },
    "the two conditional probabilities are exchanged": {"then": 4 / 7, "before": 0.25},
    "rows and columns are exchanged throughout": (
        {"first": 0.35, "then": 4 / 7, "last": 0.80, "before": 0.25}
    ),
    "the words are counted as if all four sentences were equally likely": (
        dict.fromkeys(two_roads, 0.5)
    ),
    "these are percentages; write them as numbers between 0 and 1": (
        {name: 100 * p for name, p in two_roads.items()}
    ),
    "these are the factors of *cat sleeps*": {"first": 0.20, "then": 0.75, "before": 3 / 7},
}
