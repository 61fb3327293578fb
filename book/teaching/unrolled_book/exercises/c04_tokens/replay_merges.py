r"""Replay the merges

Write `replay_merges(word, merges)`. The word is a string, `merges` a list of pairs of strings in
the order in which they were learnt. Begin with single characters; apply each merge in turn,
wherever its pair stands, from left to right. Return the list of tokens. Joined, they are the word
again.

In "aaa" the merge of a and a joins the first two: the third a has lost its partner.
"""

from unrolled_book.exercises.engine import call, swap

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
def learnt(words, n_merges):
    """The merges of a real training, as pairs of strings."""
    from unrolled.data.bpe_merges import learn_merges

    merges = learn_merges({word.encode(): n for word, n in words.items()}, n_merges)
    return [(a.decode(), b.decode()) for a, b in merges]


def tests(rng):
    yield call("cabs", [("a", "b"), ("c", "ab")], visible=True)
    yield call("", [("a", "b")], hint="an empty word has no tokens")
    abcx = learnt({"cx": 20, "bc": 10, "abc": 9, "ab": 5}, 4)  # c x, b c, a bc, a b
    yield call("abcx", abcx, hint="a merge needs its two parts; it is no word list")
    yield call("a", [("a", "a")], hint="one letter")
    yield call("aaa", [("a", "a")], hint="pairs that overlap: from left to right")
    yield call("aaaaa", [("a", "a"), ("aa", "aa")], hint="pairs that overlap")
    yield call("abc", [("b", "c"), ("a", "b")], hint="the merge learnt first gets the letter")
    yield call("baab", [("a", "b")], hint="b, a is another pair than a, b")
    yield call("abcab", [], hint="without merges, characters")
    aabb = learnt({"aa": 9, "ab": 7, "aaab": 4}, 3)  # a a, a b, aa ab
    yield call("xaaab", aabb, hint="merges of merges")
    for _ in range(4):
        drawn = ["".join(rng.choice(list("aabbc"), 6)) for _ in range(15)]
        word = "".join(rng.choice(list("aabbc"), 14))
        yield call(word, learnt({w: drawn.count(w) for w in drawn}, 8), hint="learnt merges")


# %% oracle
def oracle(word, merges):
    """The library's way: again and again the pair whose merge was learnt first."""
    from unrolled.data.bpe import BPETokenizer

    tokenizer = BPETokenizer([(a.encode(), b.encode()) for a, b in merges], pattern="none")
    return [tokenizer.vocab[i].decode() for i in tokenizer.encode(word)]


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
