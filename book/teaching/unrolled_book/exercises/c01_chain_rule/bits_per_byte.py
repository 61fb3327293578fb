r"""From nats to bits per byte

A model has scored a text token by token. Write `bits_per_byte(log_probs, text)`, where `log_probs`
is an array with the natural logarithm of each token's probability (the end symbol's included, when
there is one), and `text` is the string that was scored. Return the bits that the model needs per
byte of the text in UTF-8.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def bits_per_byte(log_probs, text):
    """Code length in bits for each byte of the text in UTF-8."""
    return float(-log_probs.sum() / np.log(2) / len(text.encode("utf-8")))


# %% explanation
explanation = r"""
The code length of the text in nats is $-\sum_i \log P(x_i \mid x_{<i})$; one bit is $\ln 2$ nats.
It is divided by what every reader of the text agrees on, its bytes, and not by the number of
tokens, which depends on the tokeniser. *käse* has four characters and five bytes.
"""


# %% tests
def tests(rng):
    yield call(np.log(np.array([0.5, 0.25, 0.25, 0.5])), "abc", visible=True)
    texts = ["the mouse ate the cheese", "die maus aß den käse", "où est le fromage ?"]
    for text in [*texts, "“the cheese”, 5 € 🧀\n"]:
        n = int(rng.integers(5, 31))
        yield call(np.log(rng.uniform(0.01, 0.9, n)), text)


# %% oracle
def oracle(log_probs, text):
    """The probability of the whole text, and the bytes of each character by its code point."""
    import math

    probability = math.prod(math.exp(log_prob) for log_prob in log_probs.tolist())
    n_bytes = sum(1 + (c > "\x7f") + (c > "\u07ff") + (c > "\uffff") for c in text)
    return math.log2(1 / probability) / n_bytes


# %% wrong
wrong = {
    "this is in nats; one bit is ln 2 nats": swap(" / np.log(2)", ""),
    "the sign is missing: a code length is positive": swap("-log_probs", "log_probs"),
    "this divides by characters; letters such as ä take two bytes": (
        swap('text.encode("utf-8")', "text")
    ),
    "this is bits per token; tokens are not bytes": (
        swap(".sum()", ".mean()").swap(' / len(text.encode("utf-8"))', "")
    ),
    "this multiplies by ln 2 where it must divide": swap("/ np.log(2)", "* np.log(2)"),
    "the log-probabilities are averaged first and then divided again": swap(".sum()", ".mean()"),
    "this divides by 8 as well; the text is measured in bytes, its code in bits": (
        swap("/ len", "/ 8 / len")
    ),
    "this is bits for the whole text": swap(' / len(text.encode("utf-8"))', ""),
    "a second logarithm was taken: the input already holds logarithms": (
        swap("-log_probs.sum() / np.log(2)", "-np.log2(-log_probs).sum()")
    ),
}
