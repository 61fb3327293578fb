r"""A question with several answers, as sequences

For multiple choice GPT reads one sequence per answer,

$$
\text{start},\ \text{question},\ \text{delim},\ \text{answer}_k,\ \text{extract},
$$

and a linear layer gives each row one number, read at *extract*. Write
`choice_rows(question, answers, special, context_length)`: `question` is an integer array,
`answers` a list of them, and `special` a dictionary with the ids `start`, `delim`, `extract` and
`pad`. Return a dictionary with

- `tokens` (n, T): one row per answer, filled up on the right with `pad`, T the longest row;
- `at` (n,): the position of *extract* in each row.

If the longest row would exceed `context_length`, cut the question, the same piece for all rows, so
that it fits: drop tokens at its *beginning*, since what stands next to the answer matters most.
Answers are never cut; raise `ValueError` if even without any question the longest row is too long.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def choice_rows(question, answers, special, context_length):
    """Rows (n, T) of tokens, one for each answer, and where extract stands."""
    longest = max(len(answer) for answer in answers)
    room = context_length - 3 - longest  # for the question
    if room < 0:
        raise ValueError(f"no room for an answer of {longest} tokens")
    kept = question[max(0, len(question) - room) :]
    start, delim, extract = (special[k] for k in ("start", "delim", "extract"))
    rows = [[start, *kept, delim, *answer, extract] for answer in answers]
    at = np.array([len(row) - 1 for row in rows])
    tokens = np.full((len(rows), at.max() + 1), special["pad"])
    for k, row in enumerate(rows):
        tokens[k, : len(row)] = row
    return {"tokens": tokens, "at": at}


# %% explanation
explanation = r"""
The rows differ in length, so *extract* stands at a different position in each: to read the last
column would be to read padding. With causal attention nothing else is needed: padding stands to the
right of *extract*, and nobody looks there.

The question is cut alike for all answers. Cut to each row's own length, a short answer would be
judged with more of the question than a long one. `question[-room:]` is a trap: for `room = 0` it
keeps everything.
"""


# %% tests
SPECIAL = {"start": 90, "delim": 91, "extract": 92, "pad": 99}


def tests(rng):
    def some(n):
        return rng.integers(50, size=n)

    two = [np.array([7]), np.array([8, 9])]
    yield call(np.array([1, 2, 3]), two, SPECIAL, 20, visible=True)
    yield call(some(4), [some(2), some(2), some(2)], SPECIAL, 9, hint="it fits exactly")
    yield call(some(11), [some(2), some(5)], SPECIAL, 12, hint="the question is too long")
    yield call(some(6), [some(1), some(4), some(3)], SPECIAL, 7, hint="no room for the question")
    yield call(some(3), [some(1), some(5)], SPECIAL, 7, hint="an answer is too long")
    yield call(some(0), [some(2), some(1)], SPECIAL, 9, hint="an empty question")
    yield call(some(6), [some(2), some(1)], SPECIAL, 13, hint="a little room is left")
    other = {"start": 60, "delim": 61, "extract": 62, "pad": 63}
    yield call(some(5), [some(3), some(2)], other, 30, hint="other ids")


# %% oracle
def oracle(question, answers, special, context_length):
    """Lists, one token dropped at a time until everything fits."""
    question, rows = list(map(int, question)), []
    while True:
        rows = [
            [special["start"], *question, special["delim"], *map(int, a), special["extract"]]
            for a in answers
        ]
        widest = max(map(len, rows))
        if widest <= context_length:
            break
        if not question:
            raise ValueError("an answer is too long")
        question.pop(0)
    padded = [row + [special["pad"]] * (widest - len(row)) for row in rows]
    return {"tokens": np.array(padded), "at": np.array([len(row) - 1 for row in rows])}


# %% wrong
wrong = {
    "extract stands at the end of each row's own tokens, not in the last column": (
        swap('"at": at', '"at": np.full(len(at), at.max())')
    ),
    "this is the last token of the answer; extract stands after it": swap(
        '"at": at', '"at": at - 1'
    ),
    "the beginning of the question is dropped, not its end": (
        swap("question[max(0, len(question) - room) :]", "question[:room]")
    ),
    "question[-0:] is the whole question: mind the case without room": (
        swap("question[max(0, len(question) - room) :]", "question[-room:]")
    ),
    "the question is not cut, and the row exceeds the context": (
        swap("question[max(0, len(question) - room) :]", "question")
    ),
    "the question is cut alike for all answers, by the longest": swap(
        "*kept,", "*question[max(0, len(question) + len(answer) + 3 - context_length) :],"
    ),
    "the token that begins a sequence is missing": swap("[start, *kept", "[*kept"),
    "rows are filled up on the right: on the left, padding would be read": (
        swap("tokens[k, : len(row)]", "tokens[k, -len(row) :]").swap(
            '"at": at', '"at": np.full(len(at), at.max())'
        )
    ),
}
