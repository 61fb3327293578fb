"""The tokenisers of characters, words and WordPiece, and what all four have in common.

Of WordPiece the criterion is worked by hand, and the longest match is that of tokenizers.
"""

import math
from collections import Counter

import numpy as np
import pytest
from comparing import refuses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers
from unrolled.data import corpora
from unrolled.data.bpe import BPETokenizer
from unrolled.data.tokens import END, START, UNKNOWN, CharTokenizer, WordTokenizer, words
from unrolled.data.wordpiece import UNKNOWN as UNK
from unrolled.data.wordpiece import WordPieceTokenizer, bert_words, characters, join, pair_scores

modest = settings(max_examples=60, deadline=None)
verse = st.text(alphabet="abcAB '.,-\n", max_size=200)
every_kind = pytest.mark.parametrize(
    "kind", [CharTokenizer, WordTokenizer, WordPieceTokenizer, BPETokenizer]
)


@every_kind
def test_all_offer_one_interface_and_decode_ids_only(kind):
    tokenizer = kind.train("a cat, a cat")
    assert tokenizer.vocab_size == len(tokenizer.vocab) == len(set(tokenizer.vocab))
    for text in ("a cat", ""):
        ids = tokenizer.encode(text)
        assert (ids.dtype, ids.ndim) == (np.int64, 1)
        assert tokenizer.decode(ids) == text
    assert tokenizer.decode([]) == ""
    for wrong in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=rf"ids holds the id {wrong}, expected 0 … "):
            tokenizer.decode([0, 1, wrong])
    for wrong, given_ids in (("float64 (2,)", [0.0, 1.0]), ("int64 (1, 2)", [[0, 1]])):
        with pytest.raises(ValueError, match="ids must be integers with ndim=1, got") as error:
            tokenizer.decode(given_ids)
        assert wrong in str(error.value)


@modest
@given(st.text(max_size=200))
def test_characters_come_back_exactly(text):
    tokenizer = CharTokenizer.train(text)
    ids = tokenizer.encode(text)
    assert tokenizer.vocab == tuple(sorted(set(text)))
    assert [tokenizer.vocab[i] for i in ids] == list(text)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("stranger", ["\x00", "c", "\uffff", "😀", "\U0010ffff"])
def test_an_unknown_character_is_named_with_its_position(stranger):
    with pytest.raises(ValueError, match="at position 3 is not among the 3 characters") as error:
        CharTokenizer.train("banana").encode("nab" + stranger + "x")
    assert f"character {stranger!r} at" in str(error.value)


def test_words_by_hand():
    assert words("O, that's the cat's--'Tis o'er, 2 l.") == (
        "o , that's the cat's - - ' tis o'er , 2 l .".split()
    )
    tokenizer = WordTokenizer.train("The cat. The dog.\n\na cat, the end")
    assert tokenizer.vocab == (UNKNOWN, START, END, "the", ".", "cat")
    assert tokenizer.encode("The bad cat.").tolist() == [3, 0, 5, 4]
    assert tokenizer.decode([3, 0, 5, 4]) == "the <unk> cat ."
    cased = WordTokenizer.train("Now now NOW now Now", lowercase=False)
    assert cased.vocab[3:] == ("Now", "now")
    assert cased.encode("NOW Now").tolist() == [0, 3]


@modest
@given(verse, st.integers(1, 3), st.integers(3, 9))
def test_the_vocabulary_is_the_frequent_words_in_falling_order(text, min_count, max_size):
    counts = Counter(words(text))
    frequent = [word for word, n in counts.items() if n >= min_count]
    expected = sorted(frequent, key=lambda word: (-counts[word], word))
    vocab = WordTokenizer.train(text, min_count).vocab
    assert vocab == (UNKNOWN, START, END, *expected)
    assert WordTokenizer.train(text, min_count, max_size=max_size).vocab == vocab[:max_size]


@modest
@given(verse)
def test_words_lose_nothing_but_case_and_space_and_lines_get_an_end_each(text):
    tokenizer = WordTokenizer.train(text, min_count=1)
    ids, lines = tokenizer.encode(text), tokenizer.encode_lines(text)
    assert (ids >= 3).all()
    spaced = tokenizer.decode(ids)
    assert "".join(spaced.split()) == "".join(text.lower().split())
    assert np.array_equal(tokenizer.encode(spaced), ids)
    assert all(line.dtype == np.int64 and len(line) > 1 for line in lines)
    expected = [line for line in map(tokenizer.encode, text.split("\n")) if len(line)]
    assert [line.tolist() for line in lines] == [[*x, tokenizer.eos_id] for x in expected]


def test_special_tokens_are_never_read_from_a_text():
    tokenizer = WordTokenizer.train("<s> <s> </s> </s> <unk> <unk>")
    assert not {tokenizer.bos_id, tokenizer.eos_id} & set(tokenizer.encode("<s> </s>").tolist())


test_an_impossible_vocabulary_is_refused = refuses(
    (lambda: CharTokenizer("aba"), "'a' occurs more often"),
    (lambda: WordTokenizer([UNKNOWN, START, END, "a", "a"]), "'a' occurs more often"),
    (lambda: WordPieceTokenizer(["[UNK]", "a", "a"]), "'a' occurs more often"),
    (lambda: WordTokenizer(["a"]), r"starts with <unk>, <s>, </s>, got \('a',\)"),
    (lambda: WordTokenizer.train("a", 1, max_size=2), "max_size must be at least 3, got 2"),
    (lambda: WordPieceTokenizer(["a"]), r"vocabulary of 1 tokens lacks \[UNK\]"),
)


def test_the_published_counts_of_the_word_vocabulary():
    """lower case, at least twice in the training text: about 14,600 words of 24,200 seen."""
    text = corpora.load("shakespeare").train
    assert len(set(words(text))) == 24_184
    assert WordTokenizer.train(text).vocab_size == 3 + 14_612


# the five words of the Hugging Face course
FIVE = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
letters = st.text("abc", min_size=1, max_size=12)
vocabularies = st.sets(
    st.builds(str.__add__, st.sampled_from(["", "##"]), st.text("abc", min_size=1, max_size=4))
).map(lambda tokens: (UNK, *sorted(tokens)))


def five(*merges: tuple[str, str]) -> dict[tuple[str, ...], int]:
    counts = {characters(word): n for word, n in FIVE.items()}
    for pair in merges:
        counts = {join(tokens, pair): n for tokens, n in counts.items()}
    return counts


def best(counts, criterion="ratio"):
    scores = pair_scores(counts, criterion)
    return max(scores, key=scores.get)


def test_the_ratio_by_hand_and_the_third_merge_is_not_the_one_that_the_course_prints():
    scores = pair_scores(five())
    assert scores["##g", "##s"] == 5 / (20 * 5)
    assert scores["##u", "##g"] == 20 / (36 * 20)
    assert scores["h", "##u"] == 15 / (15 * 36)
    assert best(five()) == ("##g", "##s")
    merged = five(("##g", "##s"), ("h", "##u"))
    assert pair_scores(merged)["hu", "##g"] == pytest.approx(2 / 45)
    assert pair_scores(merged)["hu", "##gs"] == pytest.approx(1 / 15)
    assert best(merged) == ("hu", "##gs")


def likelihood(counts):
    """Of the text, in nats, if each token is drawn with its relative frequency."""
    single = Counter()
    for tokens, n in counts.items():
        for token in tokens:
            single[token] += n
    return sum(n * math.log(n / single.total()) for n in single.values())


@settings(max_examples=100, deadline=None)
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


def test_a_pair_is_joined_from_left_to_right():
    assert characters("baaa") == ("b", "##a", "##a", "##a")
    assert join(characters("baaa"), ("##a", "##a")) == ("b", "##aa", "##a")
    assert join(("h", "##u", "##g"), ("h", "##u")) == ("hu", "##g")
    assert characters("") == join((), ("a", "##b")) == ()


def test_training_wordpiece_by_hand():
    text = " ".join(word for word, n in FIVE.items() for _ in range(n))
    first = (UNK, "##g", "##n", "##s", "##u", "b", "h", "p")
    tokenizer = WordPieceTokenizer.train(text, 2)  # then five pairs with ##u tie at 1/36
    assert tokenizer.vocab == (*first, "##gs", "pu")
    assert WordPieceTokenizer.train(text, 0).vocab == first
    assert WordPieceTokenizer.train(text, 99).vocab_size == len(first) + 9  # nothing is left
    assert WordPieceTokenizer.train("", 3).vocab == (UNK,)


@settings(max_examples=200, deadline=None)
@given(vocabularies, st.lists(letters, max_size=6))
def test_wordpieces_are_those_of_tokenizers(vocab, some_words):
    ids = {token: i for i, token in enumerate(vocab)}
    theirs = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=1000)
    ours = WordPieceTokenizer(vocab)
    expected = [token.id for word in some_words for token in theirs.tokenize(word)]
    assert ours.encode(" ".join(some_words)).tolist() == expected
    glue = decoders.WordPiece(prefix="##", cleanup=False)
    assert ours.decode(expected) == glue.decode([vocab[i] for i in expected])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["ratio", "gain"]), st.booleans())
def test_the_words_of_the_training_text_come_back(text, criterion, lowercase):
    tokenizer = WordPieceTokenizer.train(text, 5, criterion=criterion, lowercase=lowercase)
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(words(text, lowercase=lowercase))


EUROPEAN = st.characters(max_codepoint=0x52F, exclude_categories=["Cn"])  # long in Unicode
BERT_CHARS = st.one_of(EUROPEAN, st.sampled_from("aÉ’…ß中文\uf900\t\u200b\u2028#.$"))


@settings(max_examples=300, deadline=None)
@given(st.text(BERT_CHARS, max_size=30), st.booleans())
@example("Zoë's 中文 café…\x00 naïve\u2028ΑΣ", True)
def test_the_words_of_bert_are_those_of_tokenizers(text, lowercase):
    norm = normalizers.BertNormalizer(lowercase=lowercase).normalize_str(text)
    cut = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(norm)
    assert bert_words(text, lowercase=lowercase) == [word for word, _ in cut]
