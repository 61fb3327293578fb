r"""Replay the merges

Write `replay_merges(word, merges)`. The word is a string, `merges` a list of pairs of strings in
the order in which they were learnt. Begin with single characters; apply each merge in turn,
wherever its pair stands, from left to right. Return the list of tokens. Joined, they are the word
again.

In "aaa" the merge of a and a joins the first two: the third a has lost its partner.

For example:
"""

from unrolled.teaching.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def replay_merges(word, merges):
    """The tokens of `word` after all merges, in their order."""
    tokens = list(word)
    for a, b in merges:
        i = 0
        while i < len(tokens) - 1:
            if tokens[i] == a and tokens[i + 1] == b:
                tokens[i : i + 2] = [a + b]
            i += 1
    return tokens


# %% explanation
explanation = r"""
One pass for each merge, in the order of learning. After a join the index moves on past the new
token, so that a, a in "aaaa" gives aa, aa and not more. The order matters: a merge can only use
tokens that earlier ones have made, and of two merges that compete for a letter, the earlier one
gets it.
"""


# %% tests
PAIRS = [("a", "b"), ("ab", "c"), ("b", "c"), ("a", "a"), ("aa", "aa"), ("c", "ab")]


def tests(rng):
    yield call("cabs", [("a", "b"), ("c", "ab")], visible=True)
    yield call("", [("a", "b")], hint="an empty word has no tokens")
    bcx = [("c", "x"), ("b", "c"), ("a", "bc"), ("a", "b")]
    yield call("abcx", bcx, hint="a merge needs its two parts; it is no word list")
    yield call("a", [("a", "a")], hint="one letter")
    yield call("aaa", [("a", "a")], hint="pairs that overlap: from left to right")
    yield call("aaaaa", [("a", "a"), ("aa", "aa")], hint="pairs that overlap")
    yield call("abc", [("b", "c"), ("a", "b")], hint="the merge learnt first gets the letter")
    yield call("abcab", [], hint="without merges, characters")
    yield call("xaaab", [("a", "a"), ("a", "b"), ("aa", "ab")], hint="merges of merges")
    for _ in range(4):
        word = "".join(rng.choice(list("aabbc"), 14))
        order = rng.permutation(len(PAIRS))
        yield call(word, [PAIRS[i] for i in order], hint="merges in another order")


# %% oracle
def oracle(word, merges):
    """Each token is written between bars, and a merge replaces a text."""
    text = "".join(f"|{letter}|" for letter in word)
    for a, b in merges:
        text = text.replace(f"|{a}||{b}|", f"|{a + b}|")
    return [token for token in text.split("|") if token]


# %% wrong
def one_pass(word, merges):
    tokens = []
    for letter in word:
        tokens.append(letter)
        while len(tokens) > 1 and tuple(tokens[-2:]) in {tuple(pair) for pair in merges}:
            tokens[-2:] = ["".join(tokens[-2:])]
    return tokens


def longest_first(word, merges):
    vocab = set(word) | {a + b for a, b in merges}
    tokens, i = [], 0
    while i < len(word):
        j = max(j for j in range(i + 1, len(word) + 1) if word[i:j] in vocab)
        tokens.append(word[i:j])
        i = j
    return tokens


wrong = {
    "the merges are applied as the letters come, not in the order of learning": one_pass,
    "the longest token is taken from the left: that is WordPiece": longest_first,
    "the merges are applied in reverse order": swap("in merges:", "in merges[::-1]:"),
    "each merge joins its pair once only": swap(
        "tokens[i : i + 2] = [a + b]", "tokens[i : i + 2] = [a + b]\n                break"
    ),
    "the last pair of a word is never looked at": swap("len(tokens) - 1:", "len(tokens) - 2:"),
    "the pair is joined in either order of its parts": swap(
        "if tokens[i] == a and tokens[i + 1] == b:\n                tokens[i : i + 2] = [a + b]",
        "if {tokens[i], tokens[i + 1]} == {a, b}:\n"
        '                tokens[i : i + 2] = ["".join(tokens[i : i + 2])]',
    ),
    "the merges are ignored: these are the characters": lambda word, merges: list(word),
}
