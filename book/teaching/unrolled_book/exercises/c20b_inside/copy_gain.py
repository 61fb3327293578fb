r"""How much does a model gain by looking back?

You are handed a language model of which you know nothing: a function `model(tokens)` from integers
(B, T) to log-probabilities (B, T, V). Does it copy? Measure it: write `copy_gain(model, vocab_size,
length, rng)`, the bits per token that a text of `length` tokens gets cheaper because it has been
read once before.

Mind what else could make it cheaper. Late positions may be easier than early ones whatever was
read, so the text must stand at the same positions both times: read after itself, and, for
comparison, after another text of `length` tokens. All $2 \cdot$ `length` tokens are to be different
from each other, so that nothing but the repetition can be copied (`vocab_size` is large enough).
The first token of the text is not counted: nothing before it says that a repetition begins. Use a
few dozen pairs of texts, drawn by the numpy generator `rng`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 3, 4


# %% solution
def copy_gain(model, vocab_size, length, rng):
    """Bits per token by which a text gets cheaper after itself."""
    pairs = [rng.permutation(vocab_size)[: 2 * length] for _ in range(50)]
    other, text = np.split(np.stack(pairs), 2, axis=1)

    def bits(before):
        both = np.concatenate([before, text], axis=1)
        log_probs = model(both)[:, length:-1]  # after the text's first token
        found = np.take_along_axis(log_probs, text[:, 1:, None], axis=-1)
        return -found.mean() / np.log(2)

    return bits(other) - bits(text)


# %% explanation
explanation = r"""
The obvious experiment, a text twice and the second half's cost against the first half's, mixes two
things: whether the model copies and whether late positions are easier for it. A model trained on
real text is better at late positions, since it knows more by then. Here the same tokens stand at
the same positions both times; only what was read before differs.

The text's first token is predicted from the last token before it, and a model that copies cannot
know yet that it should. With it, the mean would be diluted, the more so the shorter the text.
"""


# %% use
apart = True  # what it is called with tells the answer


def build(kind, vocab_size, setting, seed):
    """A model: one that copies, counts tokens, reads one token, or is better at late positions."""
    V, rng = vocab_size, np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(V), size=V)

    def model(tokens):
        tokens = np.asarray(tokens)
        p = np.full((*tokens.shape, V), 1 / V)
        for b, row in enumerate(tokens):
            for t in range(len(row)):
                past = row[: t + 1]
                if kind == "bigram":
                    p[b, t] = table[row[t]]
                elif kind == "late":
                    sharp = table[row[t]] ** (1 + t / 3)
                    p[b, t] = sharp / sharp.sum()
                elif kind == "cache":
                    counts = np.bincount(past, minlength=V) + setting
                    p[b, t] = counts / counts.sum()
                elif kind in ("copies", "forgets"):
                    reach = 5 if kind == "forgets" else len(past)
                    recent = past[-reach - 1 :]
                    found = np.flatnonzero(recent[:-1] == row[t])
                    if len(found):
                        p[b, t] *= 1 - setting
                        p[b, t, recent[found[-1] + 1]] += setting
        return np.log(p)

    return model


def use(answer, kind, vocab_size, length, setting, seed):
    model = build(kind, vocab_size, setting, seed)
    return answer(model, vocab_size, length, np.random.default_rng(seed))


# %% tests
def show(kind, vocab_size, length, setting, seed):
    return f"copy_gain(model, {vocab_size}, {length}, rng)"


def tests(rng):
    yield call("copies", 17, 6, 0.9, int(rng.integers(1000)), visible=True)
    hidden = [
        ("copies", 23, 0.3, 0.6, "it copies half-heartedly"),
        ("bigram", 19, 0.0, 0.0, "it reads one token and never copies"),
        ("late", 23, 0.0, 0.0, "it is better at late positions and never copies"),
        ("forgets", 27, 0.7, 0.9, "it copies, but looks back too short a way"),
        ("cache", 19, 0.2, 0.5, "it knows what was said, not in which order"),
    ]
    for i in rng.permutation(len(hidden)).tolist():
        model, vocab_size, least, most, hint = hidden[i]
        vocab_size += int(rng.integers(6))
        setting, length = float(rng.uniform(least, most)), int(rng.integers(6, 10))
        yield call(model, vocab_size, length, setting, int(rng.integers(1000)), hint=hint)


# %% oracle
def oracle(kind, vocab_size, length, setting, seed):
    """In closed form: all tokens are different, so every token's gain is the same."""
    if kind == "copies":
        return float(np.log2(setting * vocab_size + 1 - setting))
    if kind == "cache":
        return float(np.log2((1 + setting) / setting))
    return 0.0


# %% wrong
wrong = {
    "the second half is compared with the first; late positions may be easier anyway": swap(
        "    return bits(other) - bits(text)",
        "    once = np.take_along_axis(model(text)[:, :-1], text[:, 1:, None], axis=-1)\n"
        "    return -once.mean() / np.log(2) - bits(text)",
    ),
    "the text's first token is counted, which no model can foresee": (
        swap("length:-1]", "length - 1 : -1]").swap("text[:, 1:, None]", "text[..., None]")
    ),
    "the tokens are not all different, so that more than the repetition is copied": swap(
        "rng.permutation(vocab_size)[: 2 * length]", "rng.integers(vocab_size, size=2 * length)"
    ),
    "the other text holds the same tokens in another order": (
        swap("bits(other)", "bits(text[:, ::-1])")
    ),
    "this is in nats; give bits instead": swap(" / np.log(2)", ""),
    "the gain is what the other text costs more, not less": (
        swap("bits(other) - bits(text)", "bits(text) - bits(other)")
    ),
    "this is a difference of perplexities, or of probabilities, not of bits": (
        swap("-found.mean() / np.log(2)", "1 / np.exp(found).mean()")
    ),
}
