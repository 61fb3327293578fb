"""WordPiece: its criterion by hand, its longest match beside tokenizers."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models
from unrolled.data import corpora
from unrolled.data.tokens import words
from unrolled.data.wordpiece import (
    UNKNOWN,
    WordPieceTokenizer,
    characters,
    join,
    pair_scores,
)

# the five words of the Hugging Face course
FIVE = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
letters = st.text("abc", min_size=1, max_size=12)
vocabularies = st.sets(
    st.builds(str.__add__, st.sampled_from(["", "##"]), st.text("abc", min_size=1, max_size=4))
).map(lambda tokens: (UNKNOWN, *sorted(tokens)))


def five(*merges: tuple[str, str]) -> dict[tuple[str, ...], int]:
    counts = {characters(word): n for word, n in FIVE.items()}
    for pair in merges:
        counts = {join(tokens, pair): n for tokens, n in counts.items()}
    return counts


def test_the_ratio_by_hand():
    scores = pair_scores(five())
    assert scores["##g", "##s"] == 5 / (20 * 5)
    assert scores["##u", "##g"] == 20 / (36 * 20)
    assert scores["h", "##u"] == 15 / (15 * 36)
    assert max(scores, key=scores.get) == ("##g", "##s")


def test_the_third_merge_is_not_the_one_that_the_course_prints():
    scores = pair_scores(five(("##g", "##s"), ("h", "##u")))
    assert scores["hu", "##g"] == pytest.approx(2 / 45)
    assert scores["hu", "##gs"] == pytest.approx(1 / 15)
    assert max(scores, key=scores.get) == ("hu", "##gs")


def likelihood(counts):
    """Of the text, in nats, if each token is drawn with its relative frequency."""
    single = Counter()
    for tokens, n in counts.items():
        for token in tokens:
            single[token] += n
    return sum(n * math.log(n / single.total()) for n in single.values())


def test_the_gain_by_hand():
    scores = pair_scores({("a", "##b"): 3, ("a", "##c"): 1}, "gain")
    before = 4 * math.log(4 / 8) + 3 * math.log(3 / 8) + 1 * math.log(1 / 8)
    after = 3 * math.log(3 / 5) + 2 * math.log(1 / 5)  # ab three times, a and ##c once
    assert scores["a", "##b"] == pytest.approx(after - before)
    assert scores["a", "##c"] == pytest.approx(6 * math.log(3 / 7) + math.log(1 / 7) - before)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(letters, st.integers(1, 50), min_size=1, max_size=6), st.data())
def test_the_gain_is_the_change_of_the_likelihood(some_words, data):
    counts = {characters(word): n for word, n in some_words.items()}
    for _ in range(4):
        scores = pair_scores(counts, "gain")
        if not scores:
            break
        for pair, gain in scores.items():
            joined = {join(tokens, pair): n for tokens, n in counts.items()}
            assert gain == pytest.approx(likelihood(joined) - likelihood(counts), abs=1e-8)
        pair = data.draw(st.sampled_from(sorted(scores)))
        counts = {join(tokens, pair): n for tokens, n in counts.items()}


def test_the_first_order_of_the_gain_has_a_term_for_the_tokens_left():
    counts = {("t", "##h"): 50, ("t", "##o"): 4_000, ("s", "##h"): 5_000}
    gain = pair_scores(counts, "gain")["t", "##h"]
    apart = math.log(18_100 * 50 / (4_050 * 5_050))
    assert gain == pytest.approx(50 * (apart - 1), rel=0.01)
    assert abs(gain - 50 * apart) > 40


def test_the_ratio_prefers_a_rare_pair_and_the_gain_a_common_one():
    counts = {("z", "##z"): 1, ("t", "##h"): 90, ("t", "##o"): 10, ("s", "##h"): 10}
    ratio, gain = (pair_scores(counts, criterion) for criterion in ("ratio", "gain"))
    assert max(ratio, key=ratio.get) == ("z", "##z")
    assert max(gain, key=gain.get) == ("t", "##h")


def test_a_pair_is_joined_from_left_to_right():
    assert characters("baaa") == ("b", "##a", "##a", "##a")
    assert join(characters("baaa"), ("##a", "##a")) == ("b", "##aa", "##a")
    assert join(("h", "##u", "##g"), ("h", "##u")) == ("hu", "##g")
    assert characters("") == join((), ("a", "##b")) == ()


def test_training_by_hand():
    text = " ".join(word for word, n in FIVE.items() for _ in range(n))
    first = (UNKNOWN, "##g", "##n", "##s", "##u", "b", "h", "p")
    tokenizer = WordPieceTokenizer.train(text, 2)  # then five pairs with ##u tie at 1/36
    assert tokenizer.vocab == (*first, "##gs", "pu")
    assert WordPieceTokenizer.train(text, 0).vocab == first
    assert WordPieceTokenizer.train(text, 99).vocab_size == len(first) + 9  # nothing is left
    assert WordPieceTokenizer.train("", 3).vocab == (UNKNOWN,)


def test_the_longest_token_is_taken_from_the_left():
    tokenizer = WordPieceTokenizer((UNKNOWN, "a", "ab", "##b", "##c", "##bcd", "##cd"))
    tokens = [tokenizer.vocab[i] for i in tokenizer.encode("abcd abc a")]
    assert tokens == ["ab", "##cd", "ab", "##c", "a"]  # never a + ##bcd
    assert tokenizer.decode(tokenizer.encode("abcd abc a")) == "abcd abc a"


def test_a_word_with_an_unknown_part_is_unknown_as_a_whole():
    tokenizer = WordPieceTokenizer((UNKNOWN, "a", "##a"))
    assert tokenizer.encode("aa aab é").tolist() == [1, 2, 0, 0]
    assert tokenizer.decode([1, 2, 0]) == "aa [UNK]"


@settings(max_examples=300, deadline=None)
@given(vocabularies, st.lists(letters, max_size=6))
def test_ids_are_those_of_tokenizers(vocab, some_words):
    ids = {token: i for i, token in enumerate(vocab)}
    theirs = models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=1000)
    ours = WordPieceTokenizer(vocab)
    expected = [token.id for word in some_words for token in theirs.tokenize(word)]
    assert ours.encode(" ".join(some_words)).tolist() == expected
    glue = decoders.WordPiece(prefix="##", cleanup=False)
    assert ours.decode(expected) == glue.decode([vocab[i] for i in expected])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["ratio", "gain"]))
def test_the_words_of_the_training_text_come_back(text, criterion):
    tokenizer = WordPieceTokenizer.train(text, 5, criterion=criterion)
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(words(text))


def test_case_is_kept_on_request():
    tokenizer = WordPieceTokenizer.train("Ab ab", 9, lowercase=False)
    assert tokenizer.decode(tokenizer.encode("Ab ab")) == "Ab ab"
    assert WordPieceTokenizer.train("Ab ab", 9).encode("AB").tolist() == [3]


def test_on_a_real_text_the_ratio_begins_with_a_pair_that_occurs_once():
    text = corpora.load("shakespeare-small").train
    train = WordPieceTokenizer.train
    assert train(text, 1, lowercase=False).vocab[-1] == "AE"
    assert [word for word in words(text, lowercase=False) if word.startswith("AE")] == ["AEacides"]
    assert train(text, 1, criterion="gain", lowercase=False).vocab[-1] == "th"


def test_the_interface_is_that_of_the_other_tokenisers():
    tokenizer = WordPieceTokenizer.train("a cat")
    assert tokenizer.vocab_size == len(tokenizer.vocab) == len(set(tokenizer.vocab))
    ids = tokenizer.encode("a cat")
    assert ids.dtype == np.int64
    assert ids.ndim == 1
    assert tokenizer.decode([]) == tokenizer.decode(tokenizer.encode("")) == ""


def test_errors():
    with pytest.raises(ValueError, match=r"vocabulary of 1 tokens lacks \[UNK\]"):
        WordPieceTokenizer(["a"])
    with pytest.raises(ValueError, match="'a' occurs more often"):
        WordPieceTokenizer([UNKNOWN, "a", "a"])
    with pytest.raises(ValueError, match="criterion must be one of ratio, gain, got 'count'"):
        pair_scores({}, "count")
    with pytest.raises(ValueError, match="n_merges must be at least 0, got -1"):
        WordPieceTokenizer.train("a", -1)
    tokenizer = WordPieceTokenizer([UNKNOWN, "a"])
    with pytest.raises(ValueError, match=r"holds the id 2, expected 0 … 1"):
        tokenizer.decode([2])
