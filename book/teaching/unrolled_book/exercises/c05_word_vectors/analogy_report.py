r"""An honest report of analogies

You are given vectors `(V, D)`, none of them zero, and questions `(n, 4)`: ids of $a$, $b$, $c$ and
the right answer, "$a$ is to $b$ as $c$ is to …", four different words in each.

Write `analogy_report(vectors, questions)` with 3CosAdd: the answer is the word $x$ with the largest
$\cos(x, b) - \cos(x, a) + \cos(x, c)$. Return three shares of the questions, as floats:

1. those answered rightly if the question's three words are excluded as answers;
2. those answered rightly if nothing is excluded;
3. those for which, with nothing excluded, the answer is one of the question's own three words.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("right, excluded", "right, not excluded", "own word")


# %% solution
def analogy_report(vectors, questions):
    """(right if excluded, right if free, own word), shares of n."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    a, b, c = (unit[questions[:, i]] for i in range(3))  # (n, D)
    scores = (b - a + c) @ unit.T  # (n, V)
    free = scores.argmax(axis=1)
    own = (free[:, None] == questions[:, :3]).any(axis=1)
    np.put_along_axis(scores, questions[:, :3], -np.inf, axis=1)
    strict = scores.argmax(axis=1)
    right = questions[:, 3]
    return float(np.mean(strict == right)), float(np.mean(free == right)), float(own.mean())


# %% explanation
explanation = r"""
Since all rows have length 1, the three cosines are one product: $(e_b - e_a + e_c) \cdot e_x$. All
questions at once are a matrix product, `(n, D)` times `(D, V)`.

Three traps. Vectors that were not divided by their lengths give another sum, in which a long
vector counts more. Excluding only $c$ lets $b$ answer. And who reports the first number alone
hides the third: how often the sum had not left its own words.
"""


# %% tests
def _at(*degrees):
    """Unit vectors (V, 2) at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def tests(rng):
    square = np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.1], [-1.0, 1.0], [0.0, -3.0]])
    yield call(square, np.array([[0, 1, 2, 3], [1, 0, 3, 2]]), visible=True)
    for n_words, n in ((9, 20), (23, 30)):
        base = rng.normal(size=(n_words, 4)) * rng.uniform(0.3, 3, (n_words, 1))
        asked = np.array([rng.permutation(n_words)[:4] for _ in range(n)])
        unit = base / np.linalg.norm(base, axis=1, keepdims=True)
        for q in asked[: n // 2]:  # so that some are right
            base[q[3]] = unit[q[1]] - unit[q[0]] + unit[q[2]] + 0.1 * rng.normal(size=4)
        yield call(base, asked)
    # b − a + c is a short vector along a: a itself wins, and what is permitted has a score below 0.
    yield call(_at(0, 40, -40, 100, 170), np.array([[0, 1, 2, 3]]), hint="a may win as well")
    # Here a is opposite to b and c, of which b is the nearer, and what is permitted has a score
    # below −1.
    yield call(_at(180, 10, -13, 150, 200), np.array([[0, 1, 2, 3]]), hint="negative scores")
    yield call(np.eye(5) + 0.1 * np.arange(5), np.array([[0, 1, 2, 3]]), hint="a single question")


# %% oracle
def oracle(vectors, questions):
    """One word at a time."""
    import math

    def cos(x, y):
        dot = sum(p * q for p, q in zip(x, y, strict=True))
        return dot / math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))

    totals = [0, 0, 0]
    for a, b, c, right in questions.tolist():
        scores = [cos(x, vectors[b]) - cos(x, vectors[a]) + cos(x, vectors[c]) for x in vectors]
        free = max(range(len(scores)), key=scores.__getitem__)
        strict = max((x for x in range(len(scores)) if x not in (a, b, c)), key=scores.__getitem__)
        for k, hit in enumerate((strict == right, free == right, free in (a, b, c))):
            totals[k] += hit
    return tuple(total / len(questions) for total in totals)


# %% wrong
wrong = {
    "the vectors were not divided by their lengths": (
        swap("vectors / np.linalg.norm(vectors, axis=1, keepdims=True)", "vectors")
    ),
    "a was added and b subtracted": swap("(b - a + c)", "(a - b + c)"),
    "only c was excluded; b and a are words of the question too": (
        swap("axis(scores, questions[:, :3]", "axis(scores, questions[:, 2:3]")
    ),
    "b and c were excluded; a is a word of the question too": (
        swap("axis(scores, questions[:, :3]", "axis(scores, questions[:, 1:3]")
    ),
    "an excluded word got the score 0, and the permitted ones can be lower": (
        swap("-np.inf", "0")
    ),
    "an excluded word got the score −1, and the permitted ones can be lower": (
        swap("-np.inf", "-1")
    ),
    "only b and c were looked for among the own words": (
        swap("free[:, None] == questions[:, :3]", "free[:, None] == questions[:, 1:3]")
    ),
    "the first two shares are exchanged": (
        swap("np.mean(strict == right)), float(np.mean(free == right))",
             "np.mean(free == right)), float(np.mean(strict == right))")
    ),
    "the own words are a, b and c; here the right answer was counted among them": (
        swap("questions[:, :3]).any", "questions).any")
    ),
    "only c was looked for among the own words": (
        swap("free[:, None] == questions[:, :3]", "free[:, None] == questions[:, 2:3]")
    ),
    "the right answer was excluded as well": (
        swap("np.put_along_axis(scores, questions[:, :3]", "np.put_along_axis(scores, questions")
    ),
}  # fmt: skip
