r"""WordPiece cuts a word

Write `longest_match(word, vocab)`. `vocab` is a list of tokens; one that begins with `##` stands
for a piece inside of a word; no word begins so. Take the longest token with which the word begins,
then the longest with which the rest begins (with `##` in front of it), and so on. Return the list
of tokens. If at some point nothing fits, the *whole word* becomes `["[UNK]"]`. An empty word has no
tokens.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def longest_match(word, vocab):
    """The tokens of `word`, each as long as possible, or ["[UNK]"]."""
    tokens, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        fits = [end for end in ends if prefix + word[start:end] in vocab]
        if not fits:
            return ["[UNK]"]
        tokens.append(prefix + word[start : fits[0]])
        start = fits[0]
    return tokens


# %% explanation
explanation = r"""
The ends are tried from the longest, so `fits[0]` is the longest match. The method is greedy and
never goes back: it may end in `[UNK]` although another cut exists. "unable" with un, una, ##able
is such a word: after *una* nothing fits. Byte-pair encoding from bytes cannot fail in this way,
because every byte is a token.
"""


# %% tests
VOCAB = ["a", "b", "ab", "##a", "##b", "##ab", "##ba", "##bab", "c"]


def hidden(rng):
    yield call("", ["a"], hint="an empty word")
    yield call("hugs", ["hug", "##s", "s"], hint="a piece inside of a word needs ##")
    yield call("hugs", ["hug", "s"], hint="a token without ## only begins a word")
    yield call("hug", ["##hug", "h", "##u", "##g"], hint="a token with ## does not begin a word")
    yield call("unable", ["un", "una", "##able"], hint="it never goes back")
    yield call("hugé", ["h", "##u", "##g", "hug"], hint="an unknown letter at the end")
    yield call("aa", ["a", "##a", "aa"], hint="the longest, not the first in the list")
    long = ["under", "understand", "##s", "##stand", "##standing", "##ing"]
    yield call("understanding", long, hint="a token may be as long as you like")
    yield call("understanding", [*long[:1], *long[2:]], hint="a long token inside of a word")
    for _ in range(4):
        letters = ["a", "b", "c"] if rng.integers(2) else ["a", "b"]
        yield call("".join(rng.choice(letters, 9)), VOCAB)
    yield call("bcab", VOCAB, hint="c cannot stand inside of a word")


def tests(rng):
    yield call("untangle", ["unt", "un", "##t", "##ang", "##angle", "##le"], visible=True)
    calls = list(hidden(rng))
    yield from (calls[i] for i in rng.permutation(len(calls)))


# %% oracle
def oracle(word, vocab):
    """A regular expression with the longest alternatives first."""
    import re

    def longest(tokens):
        ordered = sorted(tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, ordered)) or "(?!)")

    first = longest([t for t in vocab if not t.startswith("##")])
    inner = longest([t[2:] for t in vocab if t.startswith("##")])
    tokens, at = [], 0
    while at < len(word):
        match = (inner if at else first).match(word, at)
        if not match:
            return ["[UNK]"]
        tokens.append(("##" if at else "") + match[0])
        at = match.end()
    return tokens


# %% wrong
wrong = {
    "the shortest token that fits is taken, not the longest": swap("fits[0]]", "fits[-1]]").swap(
        "start = fits[0]", "start = fits[-1]"
    ),
    "pieces inside of a word are looked up without ##": swap('"##" if start else ""', '""'),
    "the tokens inside of a word are returned without ##": swap(
        "tokens.append(prefix + word", "tokens.append(word"
    ),
    "only the rest becomes [UNK], not the whole word": swap(
        'return ["[UNK]"]', 'return tokens + ["[UNK]"]'
    ),
    "one letter becomes [UNK] and the search goes on": swap(
        'return ["[UNK]"]',
        'tokens.append("[UNK]")\n            start += 1\n            continue',
    ),
    "an empty word becomes [UNK]": swap("    return tokens", '    return tokens or ["[UNK]"]'),
    "the first token in the list that fits is taken, not the longest": swap(
        "ends = range(len(word), start, -1)",
        "ends = [start + len(t) - len(prefix) for t in vocab]",
    ),
}
