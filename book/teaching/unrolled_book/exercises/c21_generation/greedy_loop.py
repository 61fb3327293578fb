r"""Why greedy text must loop

A bigram model looks at the last token only. Greedy choice after token $v$ is then always the same
token, and there are only $V$ of them, so sooner or later a token comes back, and from there on
everything repeats.

Write `greedy_loop(table, start)` for `table` $(V, V)$, whose row $v$ holds the probabilities after
token $v$, and a first token. Return the pair `(lead, loop)`: the list of tokens before the part
that repeats, and the list of tokens that repeat, from the first one that comes again. Both begin
with `start` or continue it: `lead + loop + loop + …` is the greedy text, `start` included. Of
equally likely tokens take the one with the smallest id.

Then think: the book's Transformer looks at the last 128 characters. Must its greedy text loop, too?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2
outputs = ("lead", "loop")


# %% solution
def greedy_loop(table, start):
    """Tokens before the loop and in it, of the greedy text after start."""
    text = [start]
    while True:
        token = int(table[text[-1]].argmax())
        if token in text:
            first = text.index(token)
            return text[:first], text[first:]
        text.append(token)


# %% explanation
explanation = r"""
The next token is a function of the present one. Follow it until a token comes that stands in the
text already: the part from its first occurrence on is the loop. It can be one token long (a token
that is its own likeliest successor), and the lead can be empty.

For a model that reads the last 128 of 70 characters the same argument holds with windows in place
of tokens: the next window is a function of the present one, and there are $70^{128}$ of them. So it
must loop, but the argument alone would let it write for ever. That it does so much sooner comes
from what it has learned. Drawing at random breaks the argument, since the next token is then no
function of the window.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.1, 0.9, 0.0], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]]), 0, visible=True)
    yield call(np.array([[1.0]]), 0, hint="one token")
    yield call(np.array([[0.2, 0.8], [0.3, 0.7]]), 0, hint="token 1 follows itself")
    yield call(np.array([[0.5, 0.5], [1.0, 0.0]]), 0, hint="a tie: the smaller id")
    cycle = np.roll(np.eye(7), 1, axis=1)
    yield call(cycle, 3, hint="all seven tokens in a circle")
    line = np.eye(6)[[1, 2, 3, 4, 5, 4]]
    yield call(line, 0, hint="a long lead, a loop of two")
    yield call(np.roll(np.eye(30), 1, axis=1), 0, hint="thirty tokens in a circle")
    near = np.array([[0.0, 0.4999, 0.5001], [1.0, 0, 0], [0, 0, 1]])
    yield call(near, 0, hint="0.5001 against 0.4999")
    for n in (11, 23):
        yield call(rng.dirichlet(np.ones(n), size=n), int(rng.integers(n)), hint="at random")


# %% oracle
def oracle(table, start):
    """Floyd's tortoise and hare."""
    follow = [int(np.flatnonzero(row == row.max())[0]) for row in table]
    slow, fast = follow[start], follow[follow[start]]
    while slow != fast:
        slow, fast = follow[slow], follow[follow[fast]]
    lead, slow = [], start
    while slow != fast:
        lead.append(slow)
        slow, fast = follow[slow], follow[fast]
    loop = [slow]
    while follow[loop[-1]] != slow:
        loop.append(follow[loop[-1]])
    return lead, loop


# %% wrong
def only_own(table, start):
    text = [start]
    while (token := int(table[text[-1]].argmax())) != text[-1] and len(text) < len(table):
        text.append(token)
    return text[:-1], text[-1:]


def from_start(table, start):
    text = [start]
    while (token := int(table[text[-1]].argmax())) not in text:
        text.append(token)
    return [], text


wrong = {
    "the loop need not begin with start: it begins where a token comes again": from_start,
    "a loop may hold several tokens, not only one that follows itself": only_own,
    "the token that comes again belongs to the loop, not to the lead": (
        swap("text[:first], text[first:]", "text[: first + 1], text[first + 1 :]")
    ),
    "lead and loop are exchanged": (
        swap("text[:first], text[first:]", "text[first:], text[:first]")
    ),
    "the token that comes again stands twice in the loop": (
        swap("text[first:]", "text[first:] + [token]")
    ),
    "row v holds what follows v: the columns are looked up instead": (
        swap("table[text[-1]]", "table[:, text[-1]]")
    ),
    "of equally likely tokens the smallest id is taken, not the largest": (
        swap("int(table[text[-1]].argmax())",
             "len(table) - 1 - int(table[text[-1]][::-1].argmax())")
    ),
    "the least likely token is taken": swap("argmax", "argmin"),
    "the first token, start, belongs to the text": (
        swap("return text[:first], text[first:]", "return text[1:first], text[max(first, 1) :]")
    ),
}  # fmt: skip
