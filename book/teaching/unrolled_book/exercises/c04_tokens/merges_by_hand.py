r"""Two merges by hand

A text has four different words: *abab* 4 times, *abc* 3 times, *bc* 5 times and *cab* 2 times.
Learn byte-pair encoding from it, beginning with single letters. All neighbours count, so *abab*
holds the pair a, b twice.

1. How often does the most frequent pair occur, and which token does it make?
2. After this merge, what is the next token, and how often does its pair occur?
3. How many tokens does the whole text have at first, and after the two merges?

Write a new token as its letters, such as "xy". Pairs never cross from one word to the next.
"""

kind, level, points = "paper", 1, 2

# %% solution
merges_by_hand = {
    "first_token": "ab",
    "first_count": 13,
    "second_token": "bc",
    "second_count": 5,
    "tokens_at_first": 41,
    "tokens_after_two": 23,
}


# %% explanation
explanation = r"""
The pair a, b occurs twice in each *abab*, once in *abc* and once in *cab*: $2 \cdot 4 + 3 + 2 =
13$. Before the merge b, c occurs $3 + 5 = 8$ times. But in *abc* the b is now inside of *ab*, so
only the five of *bc* remain; ab, ab and ab, c have 4 and 3, and c, ab has 2. At first the text has
$4 \cdot 4 + 3 \cdot 3 + 2 \cdot 5 + 3 \cdot 2 = 41$ letters. Every occurrence that is joined makes
it one token shorter: $41 - 13 - 5 = 23$.
"""


# %% oracle
def oracle():
    """The trainer of the library, on the same words."""
    from itertools import pairwise

    from unrolled.data.bpe import BPETokenizer, learn_merges

    words = {b"abab": 4, b"abc": 3, b"bc": 5, b"cab": 2}
    merges = learn_merges(words, 2)
    cut = [
        sum(n * len(BPETokenizer(merges[:k]).encode_bytes(w)) for w, n in words.items())
        for k in range(3)
    ]
    assert all(len(pair) == 2 for pair in pairwise(cut))
    first, second = (a + b for a, b in merges)
    return {
        "first_token": first.decode(),
        "first_count": cut[0] - cut[1],
        "second_token": second.decode(),
        "second_count": cut[1] - cut[2],
        "tokens_at_first": cut[0],
        "tokens_after_two": cut[2],
    }


# %% wrong
wrong = {
    "in abab the pair a, b counts once; it stands there twice": {"first_count": 9},
    "a different word counts once, however often it occurs": {"first_count": 4},
    "the pair b, c keeps its old count, although abc has no single b any more": {"second_count": 8},
    "ab, ab occurs in abab only, 4 times, and b, c in bc 5 times": {
        "second_token": "abab",
        "second_count": 4,
    },
    "these are the tokens after the first merge only": {"tokens_after_two": 28},
    "the letters of the different words are counted, each word once": {"tokens_at_first": 12},
    "the pair c, ab is the rarest, not the most frequent": {"second_token": "cab"},
}
