"""The character and word tokenisers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data import corpora
from unrolled.data.tokens import END, START, UNKNOWN, CharTokenizer, WordTokenizer, words

modest = settings(max_examples=60, deadline=None)
any_text = st.text(max_size=200)
verse = st.text(alphabet="abcAB '.,-\n", max_size=200)


@pytest.fixture(scope="module")
def plays() -> corpora.Corpus:
    return corpora.load("shakespeare-small")


@pytest.mark.parametrize("kind", [CharTokenizer, WordTokenizer])
def test_both_offer_one_interface(kind):
    tokenizer = kind.train("a cat, a cat")
    assert tokenizer.vocab_size == len(tokenizer.vocab) == len(set(tokenizer.vocab))
    ids = tokenizer.encode("a cat")
    assert ids.dtype == np.int64
    assert ids.ndim == 1


@modest
@given(any_text)
def test_characters_come_back_exactly(text):
    tokenizer = CharTokenizer.train(text)
    ids = tokenizer.encode(text)
    assert tokenizer.vocab == tuple(sorted(set(text)))
    assert [tokenizer.vocab[i] for i in ids] == list(text)
    assert tokenizer.decode(ids) == text


def test_characters_of_a_whole_corpus_come_back_exactly(plays):
    tokenizer = CharTokenizer.train(plays.train)
    assert tokenizer.decode(tokenizer.encode(plays.test)) == plays.test


def test_characters_by_hand():
    tokenizer = CharTokenizer.train("banana\n")
    assert tokenizer.vocab == ("\n", "a", "b", "n")
    assert tokenizer.encode("nab").tolist() == [3, 1, 2]
    assert tokenizer.decode([2, 1, 3]) == "ban"
    assert tokenizer.decode([]) == tokenizer.decode(tokenizer.encode("")) == ""


@pytest.mark.parametrize("stranger", ["\x00", "c", "é", "\uffff", "😀", "\U0010ffff"])
def test_an_unknown_character_is_named_with_its_position(stranger):
    with pytest.raises(ValueError, match="at position 3 is not among the 3 characters") as error:
        CharTokenizer.train("banana").encode("nab" + stranger + "x")
    assert f"character {stranger!r} at" in str(error.value)


@pytest.mark.parametrize("kind", [CharTokenizer, WordTokenizer])
def test_decode_refuses_what_is_no_id(kind):
    tokenizer = kind.train("banana banana")
    for wrong in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=rf"ids holds the id {wrong}, expected 0 … "):
            tokenizer.decode([0, 1, wrong])
    with pytest.raises(ValueError, match=r"integers with ndim=1, got float64 \(2,\)"):
        tokenizer.decode([0.0, 1.0])
    with pytest.raises(ValueError, match=r"integers with ndim=1, got int64 \(1, 2\)"):
        tokenizer.decode([[0, 1]])


@pytest.mark.parametrize("kind", [CharTokenizer, WordTokenizer])
def test_a_vocabulary_holds_no_token_twice(kind):
    with pytest.raises(ValueError, match="'a' occurs more often"):
        kind([UNKNOWN, START, END, "a", "a"] if kind is WordTokenizer else "aba")


def test_words_by_hand():
    assert words("O, that's the cat's--'Tis o'er, 2 l.") == (
        "o , that's the cat's - - ' tis o'er , 2 l .".split()
    )
    assert words("Now NOW", lowercase=False) == ["Now", "NOW"]
    tokenizer = WordTokenizer.train("The cat. The dog.\n\na cat, the end")
    assert tokenizer.vocab == (UNKNOWN, START, END, "the", ".", "cat")
    assert tokenizer.encode("The bad cat.").tolist() == [3, 0, 5, 4]
    assert tokenizer.decode([3, 0, 5, 4]) == "the <unk> cat ."


@modest
@given(verse, st.integers(1, 3))
def test_the_vocabulary_is_the_frequent_words_in_falling_order(text, min_count):
    counts = Counter(words(text))
    vocab = WordTokenizer.train(text, min_count).vocab
    assert vocab[:3] == (UNKNOWN, START, END)
    assert set(vocab[3:]) == {word for word, n in counts.items() if n >= min_count}
    order = [(-counts[word], word) for word in vocab[3:]]
    assert order == sorted(order)


@modest
@given(verse)
def test_no_sign_is_lost_by_the_words(text):
    tokenizer = WordTokenizer.train(text, min_count=1)
    ids = tokenizer.encode(text)
    assert (ids >= 3).all()
    assert "".join(tokenizer.decode(ids).split()) == "".join(text.lower().split())


@modest
@given(verse)
def test_encoding_and_decoding_words_settles(text):
    tokenizer = WordTokenizer.train(text, min_count=1)
    once = tokenizer.encode(text)
    spaced = tokenizer.decode(once)
    assert np.array_equal(tokenizer.encode(spaced), once)


@modest
@given(verse, st.integers(3, 9))
def test_a_limit_keeps_the_most_frequent(text, max_size):
    full = WordTokenizer.train(text, 1)
    capped = WordTokenizer.train(text, 1, max_size=max_size)
    assert capped.vocab == full.vocab[:max_size]


@modest
@given(verse)
def test_lines_are_the_text_cut_with_an_end_each(text):
    tokenizer = WordTokenizer.train(text, 1)
    lines = tokenizer.encode_lines(text)
    assert all(line.dtype == np.int64 and line[-1] == tokenizer.eos_id for line in lines)
    assert all((line[:-1] > tokenizer.eos_id).all() and len(line) > 1 for line in lines)
    joined = np.concatenate([np.zeros(0, np.int64), *(line[:-1] for line in lines)])
    assert np.array_equal(joined, tokenizer.encode(text))


def test_special_tokens_are_never_read_from_a_text():
    tokenizer = WordTokenizer.train("<s> <s> </s> </s> <unk> <unk>")
    assert not {tokenizer.bos_id, tokenizer.eos_id} & set(tokenizer.encode("<s> </s>").tolist())


def test_case_is_kept_on_request():
    tokenizer = WordTokenizer.train("Now now NOW now Now", lowercase=False)
    assert tokenizer.vocab[3:] == ("Now", "now")
    assert tokenizer.encode("NOW Now").tolist() == [0, 3]


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="min_count must be at least 1, got 0"):
        WordTokenizer.train("a", 0)
    with pytest.raises(TypeError, match="min_count must be an integer, got nan"):
        WordTokenizer.train("a", float("nan"))
    with pytest.raises(ValueError, match="max_size must be at least 3, got 2"):
        WordTokenizer.train("a", 1, max_size=2)
    with pytest.raises(ValueError, match=r"starts with <unk>, <s>, </s>, got \('a',\)"):
        WordTokenizer(["a"])


def test_the_published_counts_of_the_word_vocabulary():
    """lower case, at least twice in the training text: about 14,600 words of 24,200 seen."""
    text = corpora.load("shakespeare").train
    assert len(set(words(text))) == 24_184
    assert WordTokenizer.train(text).vocab_size == 3 + 14_612
