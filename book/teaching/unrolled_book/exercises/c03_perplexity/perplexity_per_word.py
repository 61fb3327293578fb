r"""From subwords to words

A paper reports a perplexity of 20 per subword for a text of 1,200,000 subwords, 1,000,000 words and
5,500,000 bytes. You want to compare it with a perplexity per word, and with the book's bits per
byte. Write `perplexity_per_word(perplexity, n_tokens, n_words, n_bytes)`. Return the pair
(perplexity per word, bits per byte). All of the text was paid for.

First guess: is the perplexity per word nearer to 24, to 36 or to 200?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2
outputs = ("the perplexity per word", "the bits per byte")


# %% solution
def perplexity_per_word(perplexity, n_tokens, n_words, n_bytes):
    """(perplexity per word, bits per byte) from a perplexity per token."""
    bits = n_tokens * float(np.log2(perplexity))
    return 2 ** (bits / n_words), bits / n_bytes


# %% explanation
explanation = r"""
Go back to what all units share, the bits of the whole text. The ratio of tokens to words then
stands in the exponent: $20^{1.2} \approx 36.4$. Multiplying by 1.2 gives 24,
which is wrong. The same bits over bytes are 0.943 bits per byte.
"""


# %% tests
def tests(rng):
    yield call(20.0, 1_200_000, 1_000_000, 5_500_000, visible=True)
    for _ in range(3):
        n_words = int(rng.integers(1_000, 9_000))
        n_tokens = int(n_words * rng.uniform(1.1, 4))
        yield call(float(rng.uniform(3, 60)), n_tokens, n_words, int(n_words * rng.uniform(4, 7)))
    yield call(4.0, 5_000, 1_000, 5_000, hint="tokens are characters here")


# %% oracle
def oracle(perplexity, n_tokens, n_words, n_bytes):
    """By powers, without a logarithm of base two."""
    per_word = perplexity ** (n_tokens / n_words)
    return per_word, float(np.log(perplexity ** (n_tokens / n_bytes)) / np.log(2))


# %% wrong
wrong = {
    "the ratio of tokens to words multiplies the perplexity; it belongs into the exponent": swap(
        "2 ** (bits / n_words)", "perplexity * n_tokens / n_words"
    ),
    "the ratio in the exponent is upside down: a word is dearer than a subword": swap(
        "2 ** (bits / n_words)", "perplexity ** (n_words / n_tokens)"
    ),
    "the perplexity per word is left as it was per token": swap(
        "2 ** (bits / n_words)", "perplexity"
    ),
    "these are bits per word, not yet the perplexity": swap(
        "2 ** (bits / n_words)", "bits / n_words"
    ),
    "the base of the exponential does not fit bits": swap(
        "2 ** (bits / n_words)", "np.exp(bits / n_words)"
    ),
    "these are bits per token, where bits per byte are asked for": swap(
        "bits / n_bytes", "bits / n_tokens"
    ),
    "these are nats per byte; one bit is ln 2 nats": swap(
        "bits / n_bytes", "bits * np.log(2) / n_bytes"
    ),
    "these are bits per bit: the text is measured in bytes, its code in bits": swap(
        "bits / n_bytes", "bits / n_bytes / 8"
    ),
    "the perplexity itself is divided by the bytes; take the logarithm first": swap(
        "bits / n_bytes", "perplexity * n_tokens / n_bytes"
    ),
}
