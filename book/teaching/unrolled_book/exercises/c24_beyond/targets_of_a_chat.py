r"""The targets of a chat

A conversation has several turns, each a prompt and an answer, both lists of ids; an answer ends
with its end token. Everything stands in one text: the first prompt, the first answer, the second
prompt, and so on. One pass of the model then learns from all answers at once.

Write `targets_of_a_chat(turns)` for a list of pairs `(prompt, answer)`. Return the pair
`(inputs, targets)` of lists of equal length: the text without its last token, and its targets,
shifted by one. The targets are the answers' tokens, of *every* answer, and −100 everywhere else.
A prompt may be empty in any turn but the first; no answer is.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def targets_of_a_chat(turns):
    """Inputs and targets of a conversation in which only answers count."""
    text, counts = [], []
    for prompt, answer in turns:
        text += [*prompt, *answer]
        counts += [False] * len(prompt) + [True] * len(answer)
    targets = [i if c else -100 for i, c in zip(text, counts, strict=True)]
    return text[:-1], targets[1:]


# %% explanation
explanation = r"""
Mark each token of the text first, and shift afterwards: the target at position $t$ is token $t +
1$, and it counts if *that* token belongs to an answer. So the last token of every prompt has a
target, the first token of the answer. And the end token of an answer is a target, while the
position of the end token itself is not asked for the next prompt.

Masking by position, not by value, matters here: an id that is also used for padding, or that occurs
in prompts and answers, must count in the one and not in the other.
"""


# %% tests
def tests(rng):
    yield call([([1, 2], [3, 9]), ([4], [5, 6, 9])], visible=True)
    yield call([([1, 2, 3], [4, 9])], hint="one turn")
    yield call([([7], [9])], hint="an answer that is its end token alone")
    yield call([([5, 5, 5], [5, 5]), ([5], [5])], hint="all ids are equal")
    yield call([([1], [2, 9]), ([], [3, 9]), ([4, 4], [9])], hint="a turn without a prompt")
    yield call([([0, 2], [0, 0]), ([0], [3, 0])], hint="the id 0 in prompts and answers")
    for n in (2, 4):
        turns = [
            (rng.integers(9, size=rng.integers(1, 5)).tolist(),
             rng.integers(9, size=rng.integers(1, 5)).tolist())
            for _ in range(n)
        ]  # fmt: skip
        yield call(turns, hint="drawn at random")


# %% oracle
def oracle(turns):
    """Answer by answer, from where each begins."""
    text = [i for turn in turns for part in turn for i in part]
    targets, position = [-100] * (len(text) - 1), 0
    for prompt, answer in turns:
        position += len(prompt)
        for i in answer:
            if position:
                targets[position - 1] = i
            position += 1
    return text[:-1], targets


# %% wrong
wrong = {
    "the prompts' tokens are no targets": swap("i if c else -100", "i"),
    "the targets are not shifted: position t has to predict token t + 1": (
        swap("targets[1:]", "targets[:-1]")
    ),
    "only the last answer counts; every answer is a target": (
        swap("counts += [False] * len(prompt) + [True] * len(answer)",
             "counts = [False] * (len(text) - len(answer)) + [True] * len(answer)")
    ),
    "the end tokens are no targets: then nothing asks the model to stop": (
        swap("[True] * len(answer)", "[True] * (len(answer) - 1) + [False]")
    ),
    "the answer's first token is no target; the prompt's last position predicts it": (
        swap("[True] * len(answer)", "[False] + [True] * (len(answer) - 1)")
    ),
    "the prompt's last token is a target; it is no part of the answer": (
        swap("[False] * len(prompt)", "[False] * (len(prompt) - 1) + [True] * bool(prompt)")
    ),
    "prompts count and answers do not: the mask is inverted": swap("if c else", "if not c else"),
    "the inputs keep the last token, for which there is no target": swap("text[:-1]", "text"),
    "what is hidden is written as 0, not as −100": swap("else -100", "else 0"),
}  # fmt: skip
