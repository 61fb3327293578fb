r"""What a line costs

Write `bits_of_line(lines, line)`. `lines` is a list of lines, each a list of words, from which a
bigram model is counted, by relative frequency and within lines only. `line` is a new list of words.
Return $-\log_2 P(\text{line})$ under that model, a `float`.

Put the start `"<s>"` before and the end `"</s>"` behind every line, also the new one: the start is
only a context, the end is predicted like a word. If the model calls one of the steps impossible,
the answer is `float("inf")`. `line` may be empty, or as long as a play.
"""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def bits_of_line(lines, line):
    """−log₂ P(line) under the bigram model of lines, in bits."""
    after = defaultdict(Counter)
    for known in lines:
        for u, w in pairwise(["<s>", *known, "</s>"]):
            after[u][w] += 1
    total = 0.0
    for u, w in pairwise(["<s>", *line, "</s>"]):
        if not after[u][w]:
            return float("inf")
        total -= np.log2(after[u][w] / after[u].total())
    return float(total)


# %% explanation
explanation = r"""
A line of $n$ words has $n + 1$ factors: one for each word and one for the end. Their logarithms are
added, because the product of some hundreds of factors is 0 in floating point. A step that was never
seen has probability 0 and costs infinitely many bits, and so does the line: that is what the model
says, and to skip the step would be to score a different text. (Count the steps from the end to the
start instead, $P(u \mid w)$, and each line costs what it did: the counts $\#(u\,\bullet)$ and
$\#(\bullet\,u)$ of a word are equal where every line has both marks.)
"""


# %% tests
def tests(rng):
    farm = ["old cows eat corn", "old cows sleep", "cows eat hay"]
    yield call([line.split() for line in farm], "cows eat corn".split(), visible=True)
    for n_lines, n_words in [(5, 3), (11, 4), (7, 2)]:
        draw = [rng.integers(n_words, size=rng.integers(2, 9)) for _ in range(n_lines)]
        lines = [["abcdefg"[k] for k in numbers] for numbers in draw]
        yield call(lines, [lines[0][0], *lines[0][:2], lines[0][-1]])
        yield call(lines, lines[1][: len(lines[1]) // 2 + 1])
        yield call(lines, lines[-1])
    yield call([["a", "b"], ["b", "a"]], ["a", "a"], hint="a never followed a")
    yield call([["a", "b"], ["b"]], ["b", "b"], hint="the step from b to b was never seen")
    yield call([["a"], ["a", "a"], []], [], hint="the line is empty: one factor, for its end")
    long = [["a", "b"][k] for k in rng.integers(2, size=1_500)]
    yield call([long, ["a"]], long, hint="1,501 factors: their product is too small")
    yield call([["a"]], ["c"], hint="c is a new word")
    yield call([["a"], ["a"], ["b"]], ["a"], hint="a line may come twice")
    yield call([["a", "cow"], ["cows", "b"]], ["a", "cow"], hint="a word that begins another")


# %% oracle
def oracle(lines, line):
    """Write the model out as a table of fractions, then multiply exactly."""
    from fractions import Fraction
    from math import inf, log2

    stream = [("<s>", *known, "</s>") for known in lines]
    pairs = [(text[i], text[i + 1]) for text in stream for i in range(len(text) - 1)]
    text, factor = ("<s>", *line, "</s>"), {}
    for i in range(len(text) - 1):
        u, w = text[i], text[i + 1]
        n_u = sum(1 for first, _ in pairs if first == u)
        factor[i] = Fraction(pairs.count((u, w)), n_u or 1)
    if not all(factor.values()):
        return inf
    return sum(log2(p.denominator) - log2(p.numerator) for p in factor.values())


# %% wrong
wrong = {
    "the end was not predicted; it is a step like any other": swap(
        'in pairwise(["<s>", *line, "</s>"]', 'in pairwise(["<s>", *line]'
    ),
    "the first word was not predicted; the start is its context": swap(
        'in pairwise(["<s>", *line, "</s>"]', 'in pairwise([*line, "</s>"]'
    ),
    "these are nats; bits take the logarithm to base two": swap("np.log2", "np.log"),
    "impossible steps were left out; the line as a whole is impossible": swap(
        'return float("inf")', "continue"
    ),
    "an impossible line costs infinitely many bits, not none": swap(
        'return float("inf")', "return 0.0"
    ),
    "this is the mean over the steps; the line costs their sum": swap(
        "float(total)", "float(total) / (len(line) + 1)"
    ),
    "this is log₂ P, a negative number; the cost is −log₂ P": swap("total -=", "total +="),
    "this is the probability, not its −log₂": swap("float(total)", "2 ** -float(total)"),
    "the pairs were divided by all pairs; each context has its own total": swap(
        "after[u].total()", "sum(seen.total() for seen in after.values())"
    ),
    "the word's frequency was taken, whatever stands before it": swap(
        "after[u][w] / after[u].total()",
        "sum(s[w] for s in after.values()) / sum(s.total() for s in after.values())",
    ),
    "one was added to every count; this is not relative frequency": swap(
        "after[u][w] / after[u].total()",
        "(after[u][w] + 1) / (after[u].total() + len({v for s in after.values() for v in s}))",
    ),
    "the factors were multiplied before the logarithm, and the product of many is 0": (
        swap("total = 0.0", "total = 1.0")
        .swap(
            "total -= np.log2(after[u][w] / after[u].total())",
            "total *= after[u][w] / after[u].total()",
        )
        .swap("float(total)", '-np.log2(total) if total else float("inf")')
    ),
}
