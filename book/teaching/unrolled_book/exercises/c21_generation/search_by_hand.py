r"""A search by hand

A model writes with the letters a, b and the stop `.`. $P$ of the next token depends on the last
letter only, but the third token is always the stop:

| after | a | b | . |
|:--|--:|--:|--:|
| start | 0.4 | 0.32 | 0.28 |
| a | 0.4 | 0.3 | 0.3 |
| b | 0.1 | 0.1 | 0.8 |

With pencil and paper:

- `greedy`: the probability of the text that greedy choice writes;
- `two_beams`: the probability of the best text that a beam search with two beams finds, scored by
  probability (a finished text leaves its place to the next-best open beginning);
- `mode`: the probability of the likeliest text of all;
- `score_aa`, `score_b`: the scores $\ln P(x) / n^{\alpha}$ with $\alpha = 1$ of the texts `aa.` and
  `b.`, where $n$ counts the stop;
- `alpha`: from which $\alpha$ on does `b.` score higher than the empty text `.`? Give four digits,
  or write logarithms as they are, `math.log(0.5)`.
"""

import math

kind, level, points = "paper", 1, 3
tolerance = 1e-4


# %% solution
search_by_hand = {
    "greedy": 0.16,
    "two_beams": 0.256,
    "mode": 0.28,
    "score_aa": math.log(0.16) / 3,
    "score_b": math.log(0.256) / 2,
    "alpha": math.log(math.log(0.256) / math.log(0.28)) / math.log(2),
}

# %% explanation
explanation = r"""
Greedy takes a (0.4), a again (0.4), then the stop: $0.4 \cdot 0.4 \cdot 1 = 0.16$.

Two beams keep a (0.4) and b (0.32); the stop, with 0.28, is third and is dropped. Their extensions
are aa (0.16), ab (0.12), a. (0.12), ba (0.032), bb (0.032) and b. (0.256). The best of them, `b.`,
is finished, and no open beginning has more. The likeliest text of all is the one that was dropped,
the empty one with 0.28. Three beams would have found it.

With $\alpha = 1$ the scores are $\ln 0.16 / 3 = -0.611$ and $\ln 0.256 / 2 = -0.681$: now the
longer text is ahead, although it is less likely.

For the last, $\ln 0.256 / 2^\alpha > \ln 0.28$. Both logarithms are negative; dividing by the
second gives $2^\alpha > \ln 0.256 / \ln 0.28 = 1.070$, so $\alpha > \log_2 1.070 = 0.098$. A small
exponent is enough to lose the mode.
"""


# %% oracle
def oracle():
    """All texts listed, the beams step by step, and α by halving an interval."""
    table = {"": (0.4, 0.32, 0.28), "a": (0.4, 0.3, 0.3), "b": (0.1, 0.1, 0.8)}

    def grown(texts):
        found = {}
        for text, P in texts.items():
            rows = table[text[-1:]] if len(text) < 2 else (0, 0, 1)
            found |= {text + c: P * x for c, x in zip("ab.", rows, strict=True) if x}
        return found

    def search(n_beams):
        beams, done = {"": 1.0}, {}
        while beams:
            best = sorted(grown(beams).items(), key=lambda pair: -pair[1])
            done |= dict(pair for pair in best[:n_beams] if pair[0][-1] == ".")
            beams = dict([pair for pair in best if pair[0][-1] != "."][:n_beams])
        return done

    P = search(100)
    low, high = -5.0, 5.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        ahead = math.log(P["b."]) / 2**middle > math.log(P["."])
        low, high = (low, middle) if ahead else (middle, high)
    return {
        "greedy": max(search(1).values()),
        "two_beams": max(search(2).values()),
        "mode": max(P.values()),
        "score_aa": math.log(P["aa."]) / 3,
        "score_b": math.log(P["b."]) / 2,
        "alpha": low,
    }


# %% wrong
wrong = {
    "greedy looks one token ahead only: it takes a, not the b that leads to a better text": {
        "greedy": 0.256
    },
    "the third token is the stop with probability 1; it does not multiply by 0.3": {
        "greedy": 0.048
    },
    "two beams keep b as well, whose stop has 0.8; they do not stay with the greedy text": {
        "two_beams": 0.16
    },
    "after one step the stop is third and two beams have dropped it": {"two_beams": 0.28},
    "the likeliest text is looked for among all, the empty one included": {"mode": 0.256},
    "n counts the stop: aa. has three tokens and b. has two": {
        "score_aa": math.log(0.16) / 2,
        "score_b": math.log(0.256),
    },
    "the score divides ln P by the length, it does not multiply": {
        "score_aa": math.log(0.16) * 3,
        "score_b": math.log(0.256) * 2,
    },
    "the logarithm is the natural one": {
        "score_aa": math.log2(0.16) / 3,
        "score_b": math.log2(0.256) / 2,
    },
    "the quotient of the logarithms is the wrong way round": {
        "alpha": math.log2(math.log(0.28) / math.log(0.256))
    },
    "2^α is the quotient; α is its logarithm to base 2": {
        "alpha": math.log(0.256) / math.log(0.28)
    },
}
