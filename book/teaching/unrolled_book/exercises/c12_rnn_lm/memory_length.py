r"""How far back can a model remember?

You are handed a language model of which you know nothing: a function `model(tokens)` from integers
(B, T) to log-probabilities (B, T, V), as everywhere in the book. Write
`memory_length(model, vocab_size, length, rng)`: the largest $k \le$ `length` such that the
prediction after the last token depends on the $k$-th token from the end, the last token itself
being the first. Use texts of `length` tokens; `rng` is a numpy generator to draw them from.

An n-gram model of order $n$ has a memory of $n - 1$, a unigram model of 0. Mind that a dependence
may be rare: a model may look at an old token only when the last one is of a certain kind, and some
changes of a token may make no difference. Any dependence that shows in at least one of a hundred
random changes should be found. Numbers are to be compared exactly.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 3, 4


# %% solution
def memory_length(model, vocab_size, length, rng):
    """How far back, 0 … length, the last prediction depends on a token."""
    texts = rng.integers(vocab_size, size=(1000, length))
    before = model(texts)[:, -1]  # (1000, V)
    for k in range(length, 0, -1):
        changed = texts.copy()
        changed[:, -k] += rng.integers(1, vocab_size, size=len(texts))
        changed[:, -k] %= vocab_size  # always another token
        if (model(changed)[:, -1] != before).any():
            return k
    return 0


# %% explanation
explanation = r"""
Change one token, leave the rest, and see whether the last prediction moves; begin with the farthest
and stop at the first that matters. One text is not enough: a model that looks back only when the
last token says so answers most texts as if it were short-sighted. A thousand random texts find a
dependence that shows in one of a hundred changes except with probability
$0.99^{1000} \approx 4 \cdot 10^{-5}$.

It must be the whole distribution that is compared, not its most probable token, which can stay the
same while every probability moves. And nothing nearer may be changed together with the $k$-th
token, or the nearer one answers in its place.

`behaviour.check_causal` asks the same question in the other direction: it changes a token and wants
everything *before* it to stay as it was.
"""


# %% use
apart = True  # what it is called with tells the answer


def build(kind, reach, vocab_size, seed):
    """A model that reads `reach` tokens back: all, with a gap, after the token 0 only, faintly…"""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(max(reach, 1), vocab_size))
    direction = rng.normal(size=vocab_size)

    def model(tokens):
        tokens = np.asarray(tokens)
        n_steps = tokens.shape[1]
        score = np.zeros(tokens.shape)
        for back in range(min(reach, n_steps)):
            here = tokens[:, : n_steps - back]
            counted = 1.0 * (here == 0) - (here == 1)
            value = counted if kind == "counts" else weights[back][here]
            if kind == "gap" and 0 < back < reach - 1:
                continue
            if kind == "gated" and back:
                value = value * (tokens[:, back:] == 0)
            score[:, back:] += value
        size = 1e-7 if kind == "faint" else 0.01
        logits = direction * size * score[..., None] + np.arange(vocab_size)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    return model


def use(answer, kind, reach, vocab_size, length, seed):
    return answer(
        build(kind, reach, vocab_size, seed), vocab_size, length, np.random.default_rng(seed)
    )


# %% tests
def show(kind, reach, vocab_size, length, seed):
    return f"memory_length(model, {vocab_size}, {length}, rng)"


def tests(rng):
    yield call("window", 2, 5, 7, int(rng.integers(1000)), visible=True)
    length = [int(rng.integers(7, 10)) for _ in range(11)]
    reach = [int(rng.integers(n - 4, n)) for n in length]  # at least 3
    hidden = [
        ("window", 0, 5, "this model reads nothing at all"),
        ("window", 1, 3, "this model reads the last token only"),
        ("gap", reach[2], 7, "it reads the last token and one farther back, nothing between"),
        ("gated", reach[3], 17, "it looks back only after the token 0"),
        ("gated", reach[4], 11, "it looks back only after the token 0"),
        ("gated", reach[5], 97, "it looks back only after the token 0, one of 97"),
        ("gated", reach[9], 97, "it looks back only after the token 0, one of 97"),
        ("gated", reach[10], 97, "it looks back only after the token 0, one of 97"),
        ("faint", reach[6], 7, "log-probabilities move by 1e-7 and less"),
        ("counts", length[7], 9, "it reads all of the text and counts two tokens"),
        ("counts", max(5, reach[8]), 9, "most changes make no difference to this one"),
    ]
    for i in rng.permutation(11).tolist():
        model, far, vocab_size, hint = hidden[i]
        yield call(model, far, vocab_size, length[i], int(rng.integers(1000)), hint=hint)


# %% oracle
def oracle(kind, reach, vocab_size, length, seed):
    """The model was built with this reach."""
    return min(reach, length)


# %% wrong
wrong = {
    "one text is too few: a dependence that shows only at times is missed": (
        swap("size=(1000, length)", "size=(1, length)")
    ),
    "only the most probable token is compared; the other probabilities move, too": (
        swap("[:, -1]", "[:, -1].argmax(-1)", 2)
    ),
    "this is nearly always `length`: compare the last prediction, change one token at a time": (
        swap("[:, -1]", "", 2)
    ),
    "a dependence that shows in fewer than half of the texts counts, too; here it is ignored": (
        swap(".any()", ".any(-1).mean() > 0.5")
    ),
    "numbers that are nearly equal are taken for equal; compare exactly": (
        swap("(model(changed)[:, -1] != before)", "~np.isclose(model(changed)[:, -1], before)")
    ),
    "this is the nearest token that matters, not the farthest": (
        swap("range(length, 0, -1)", "range(1, length + 1)")
    ),
    "the scan from the last token stops at the first that does not matter; a farther one may": (
        swap("range(length, 0, -1)", "range(1, length + 1)")
        .swap("if (", "if not (")
        .swap("return k", "return k - 1")
        .swap("return 0", "return length")
    ),
    "the last token is the first from the end: the answer is one too small": (
        swap("return k", "return k - 1")
    ),
    "an n-gram's order is one more than its memory": (
        swap("return k", "return k + 1").swap("return 0", "return 1")
    ),
}
