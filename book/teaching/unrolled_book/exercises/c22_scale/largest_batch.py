r"""The largest batch that fits

A device has `memory` bytes. Training in 32 bits keeps for each of `N` parameters the weight, its
gradient, and what the optimiser keeps: nothing for `"sgd"`, one number for `"momentum"`, two for
`"adamw"`. Besides, each text of the batch needs `text` bytes of activations.

Write `largest_batch(memory, N, text, optimiser)`: how many texts fit into one step, 0 if not
even one does. All sizes are whole numbers of bytes.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def largest_batch(memory, N, text, optimiser):
    """How many texts fit into one training step."""
    kept = {"sgd": 0, "momentum": 1, "adamw": 2}[optimiser]
    state = 4 * N * (2 + kept)
    return max(0, (memory - state) // text)


# %% explanation
explanation = r"""
Weight and gradient are $4 + 4$ bytes for each parameter, Adam's two means another 8: together
16. What is left is shared out among whole texts, hence the `//`. Where the state alone is larger
than the memory, the rest is negative and no text fits, so the answer is 0.
"""


# %% tests
def tests(rng):
    yield call(100, 5, 7, "adamw", visible=True)
    yield call(80 * 2**30, 1_557_611_200, 5 * 2**30, "adamw", hint="GPT-2 XL")
    yield call(80 * 2**30, 1_557_611_200, 5 * 2**30, "sgd", hint="GPT-2 XL without Adam")
    N, text, n = rng.integers((3, 5, 1), (50, 50, 6)).tolist()
    yield call(12 * N + n * text + 2, N, text, "momentum", hint="momentum")
    yield call(16 * N + n * text, N, text, "adamw", hint="room for whole texts, nothing left")
    yield call(16 * N + n * text - 1, N, text, "adamw", hint="a byte short of one more text")
    yield call(16 * N, N, text, "adamw", hint="the state fits exactly")
    yield call(10 * N, N, text, "adamw", hint="the state does not fit")
    yield call(int(rng.integers(2000, 5000)), N, text, "momentum", hint="at random")


# %% oracle
def oracle(memory, N, text, optimiser):
    """By halving an interval."""
    numbers = ["weight", "gradient", *{"sgd": "", "momentum": "m", "adamw": "mv"}[optimiser]]
    low, high = 0, 2**63
    while high - low > 1:
        middle = (low + high) // 2
        fits = sum(4 * N for _ in numbers) + middle * text <= memory
        low, high = (middle, high) if fits else (low, middle)
    return low


# %% wrong
wrong = {
    "a number of 32 bits has four bytes": swap("4 * N", "N"),
    "the gradients are kept, too, one for each parameter": swap("(2 + kept)", "(1 + kept)"),
    "Adam keeps two numbers for each parameter": swap('"adamw": 2', '"adamw": 1'),
    "momentum keeps one number, plain gradient descent none": swap(
        '"sgd": 0, "momentum": 1', '"sgd": 1, "momentum": 2'
    ),
    "the answer is 0, not negative, where the state does not fit": swap(
        "max(0, (memory - state) // text)", "(memory - state) // text"
    ),
    "at least one text is promised even where none fits": swap("max(0,", "max(1,"),
    "only whole texts fit": swap("// text", "/ text"),
    "the state takes its share of the memory first": swap("(memory - state)", "memory"),
    "the state is there once, not once for each text": swap(
        "(memory - state) // text", "memory // (text + state)"
    ),
    "a number that is a whole quotient counts: rounding up asks for memory that is not there": swap(
        "(memory - state) // text)", "-((state - memory) // text))"
    ),
}
