r"""Is English easier to read backwards?

The chain rule is exact in every order. A *model* is an approximation, and nothing says that it
approximates both directions equally well. Write `both_ways(train, test, order)`: train a
Kneser–Ney model on the characters of `train`, once as they stand and once with the text reversed,
and return the pair (forwards, backwards) of bits per character on `test`.

Kneser–Ney is the box of this chapter, opened in chapter 2b. Make the ids with
`CharTokenizer.train(train + test)`, train with
`NGram.fit(ids, order, vocab_size, "kneser-ney")`, score with `model.score(ids)`; no start or end
symbols. When it passes, run it on the small Shakespeare corpus for orders 2 to 6. What did you
predict? What is the difference between the directions, beside the difference between the orders?
"""

import numpy as np
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 3, 4
outputs = ("forwards", "backwards")


# %% solution
def both_ways(train, test, order):
    """Bits per character of test, forwards and backwards."""
    tokenizer = CharTokenizer.train(train + test)
    bits = []
    for step in (1, -1):
        ids = tokenizer.encode(train)[::step]
        model = NGram.fit(ids, order, tokenizer.vocab_size, "kneser-ney")
        log_probs = model.score(tokenizer.encode(test)[::step])
        bits.append(float(-log_probs.mean() / np.log(2)))
    return tuple(bits)


# %% explanation
explanation = r"""
The directions agree to about a thousandth of a bit, while each further character of context is
worth tenths of a bit up to order 5. Counting explains it. Without smoothing the text has
probability $\prod_i \#(x_{i-n+1} \dots x_i) / \#(x_{i-n+1} \dots x_{i-1}\,\bullet)$ forwards;
backwards each n-gram is divided by the count of its *last* $n - 1$ characters in place of its
first. Along a text both products divide by the same list of counts, except at the two ends. What
is left is due to the smoothing. No such argument holds for a neural network.
"""


# %% tests
def tests(rng):
    from unrolled.data import corpora

    text = corpora.load("shakespeare-small").train
    starts = rng.integers(0, len(text) - 6000, size=3)
    for start, order in zip(starts.tolist(), (2, 3, 5), strict=True):
        yield call(text[start : start + 4000], text[start + 4000 : start + 6000], order)
    yield call("die maus aß den käse", "den käse", 2, hint="some letters have two bytes")
    yield call("the cheese ate the mouse", "the mouse ate", 2, visible=True)


# %% oracle
def oracle(train, test, order):
    """Kneser–Ney once more, as a recursion over strings and dictionaries."""
    from collections import Counter, defaultdict
    from math import log2

    def bits(train, test):
        grams = [Counter(train[i : i + n] for i in range(len(train) - n + 1)) for n in orders]
        after, discounts = defaultdict(dict), {}
        for n in orders[1:]:
            counts = grams[n] if n == order else Counter(gram[1:] for gram in grams[n + 1])
            once, twice = (list(counts.values()).count(c) for c in (1, 2))
            discounts[n] = once / (once + 2 * twice) if once and twice else 1 / 2
            for gram, count in counts.items():
                after[gram[:-1]][gram[-1]] = count

        def p(w, context):
            shorter = p(w, context[1:]) if context else 1 / n_characters
            seen, discount = after.get(context, {}), discounts[len(context) + 1]
            kept = seen[w] - discount if w in seen else 0
            return (kept + discount * len(seen) * shorter) / sum(seen.values()) if seen else shorter

        contexts = [test[max(0, i - order + 1) : i] for i in range(len(test))]
        return -sum(log2(p(w, h)) for w, h in zip(test, contexts, strict=True)) / len(test)

    orders, n_characters = range(order + 1), len(set(train + test))
    return bits(train, test), bits(train[::-1], test[::-1])


# %% wrong
wrong = {
    "only the training text is reversed; the test text must be read the same way": (
        swap("(test)[::step]", "(test)")
    ),
    "only the test text is reversed; the model was trained forwards": (
        swap("(train)[::step]", "(train)")
    ),
    "nothing is reversed, so both numbers are the forward one": swap("[::step]", "", 2),
    "these are nats; divide by ln 2": swap(" / np.log(2)", ""),
    "these are bits for the whole text; divide by its characters": swap(".mean()", ".sum()"),
    "the order is one too high: order 3 reads two characters": swap("ids, order", "ids, order + 1"),
    "the model is the modified form; the exercise asks for one discount": (
        swap('"kneser-ney"', '"kneser-ney", modified=True')
    ),
    "the smoothing is additive; the exercise asks for Kneser–Ney": swap("kneser-ney", "additive"),
    "the pair is (backwards, forwards)": swap("(1, -1)", "(-1, 1)"),
    "this scores the training text itself": swap("encode(test)", "encode(train)"),
}
