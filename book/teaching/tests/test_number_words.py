"""Number words: spelled as people spell them, cut without loss, split without leakage."""

from __future__ import annotations

import bz2
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled_book.tasks import number_words
from unrolled_book.tasks.number_words import (
    END,
    LANGUAGES,
    LENGTHS,
    MORPHEMES,
    PAD,
    SPLITS,
    START,
    decode,
    encode,
    morphemes,
    numbers,
    pairs,
    split_of,
    tokens,
    vocabulary,
    words,
)

ANY = st.integers(1, 12).flatmap(lambda d: st.integers(10 ** (d - 1), 10**d - 1))


@pytest.mark.parametrize(
    ("n", "spelled"),
    [
        (1, ("eins", "one", "un")),
        (16, ("sechzehn", "sixteen", "seize")),
        (81, ("einundachtzig", "eighty-one", "quatre-vingt-un")),
        (101, ("einhunderteins", "one hundred and one", "cent un")),
        (1_000, ("eintausend", "one thousand", "mille")),
        (1_100, ("eintausendeinhundert", "one thousand, one hundred", "mille cent")),
        (
            1_001_001,
            (
                "eine Million eintausendeins",
                "one million, one thousand and one",
                "un million mille un",
            ),
        ),
        (
            280_000_000_017,
            (
                "zweihundertachtzig Milliarden siebzehn",
                "two hundred and eighty billion and seventeen",
                "deux cent quatre-vingts milliards dix-sept",
            ),
        ),
        (
            300_021_080,
            (
                "dreihundert Millionen einundzwanzigtausendachtzig",
                "three hundred million, twenty-one thousand and eighty",
                "trois cents millions vingt et un mille quatre-vingts",
            ),
        ),
    ],
)
def test_known_numbers_are_spelled_as_the_languages_do(n, spelled):
    assert tuple(words(n, language) for language in LANGUAGES) == spelled


@given(ANY)
def test_german_pieces_joined_again_are_the_word(n):
    assert "".join(tokens(n, "de")) == words(n, "de").replace(" ", "")
    assert set(tokens(n, "de")) <= set(MORPHEMES)


@given(ANY)
def test_tokens_lose_nothing_but_spaces_hyphens_and_commas(n):
    for language in ("en", "fr"):
        plain = words(n, language).replace("-", " ").replace(",", "")
        assert " ".join(tokens(n, language)) == plain


def test_cutting_takes_the_longest_piece_that_fits():
    assert morphemes("sechsundsiebzig") == ("sechs", "und", "siebzig")
    assert morphemes("sechzehn") == ("sech", "zehn")
    assert morphemes("eintausendeins") == ("ein", "tausend", "eins")
    assert morphemes("") == ()
    with pytest.raises(ValueError, match="no morpheme begins 'x'"):
        morphemes("dreix")


def test_units_and_tens_change_places():
    assert tokens(45, "de") == ("fünf", "und", "vierzig")
    assert tokens(45, "en") == ("forty", "five")


def test_vocabularies_hold_each_token_once_behind_three_marks():
    sizes = {language: len(vocabulary(language)) for language in LANGUAGES}
    assert sizes == {"de": 34, "en": 35, "fr": 33}
    for language in LANGUAGES:
        known = vocabulary(language)
        assert (known[PAD], known[START], known[END]) == ("<pad>", "<s>", "</s>")
        assert len(set(known)) == len(known)
        used = {
            t
            for d in range(13)
            for n in range(1, 1000)
            for t in tokens(n * 10 ** max(0, d - 3), language)
        }
        assert used == set(known[3:])


@given(ANY, st.sampled_from(LANGUAGES))
def test_decoding_gives_the_tokens_back_and_stops_at_the_end_mark(n, language):
    ids = encode(n, language)
    assert ids.dtype == np.int64
    assert decode(ids, language) == tokens(n, language)
    assert decode([START, *ids, END, 5, 6], language) == tokens(n, language)


@given(st.lists(ANY, min_size=1, max_size=4))
def test_different_numbers_have_different_words(found):
    for language in LANGUAGES:
        assert len({tokens(n, language) for n in found}) == len(set(found))


@pytest.mark.parametrize("by", ["number", "length"])
def test_no_number_stands_in_two_splits_and_none_is_lost(by):
    parts = [numbers(split, by=by) for split in SPLITS]
    together = [n for part in parts for n in part]
    assert len(together) == len(set(together)) == 36_120
    assert set(range(1, 1000)) < set(together)
    assert all(list(part) == sorted(part) for part in parts)


def test_the_splits_have_the_stated_sizes():
    assert [len(numbers(split)) for split in SPLITS] == [32_475, 1_801, 1_844]
    assert [len(numbers(split, by="length")) for split in SPLITS] == [20_120, 8_000, 8_000]


def test_a_numbers_split_hangs_on_nothing_but_the_number():
    first = hashlib.sha256(b"271828").digest()[0]
    assert split_of(271828) == ("valid" if first < 13 else "test" if first < 26 else "train")
    assert all(split_of(n) == split for split in SPLITS for n in numbers(split))


def test_held_out_lengths_are_not_trained_on():
    for split in SPLITS:
        assert {len(str(n)) for n in numbers(split, by="length")} == set(LENGTHS[split])


def test_digits_choose_the_lengths():
    assert {len(str(n)) for n in numbers("test", digits=[6, 9])} == {6, 9}
    assert len(numbers("test", digits=[9])) > 100
    assert numbers("train", by="length", digits=[12]) == ()


def test_pairs_are_padded_and_shifted_by_one():
    batch = pairs([21, 3])
    de, en = vocabulary("de"), vocabulary("en")
    assert [[de[i] for i in row] for row in batch.source] == [
        ["ein", "und", "zwanzig"],
        ["drei", "<pad>", "<pad>"],
    ]
    assert batch.source_mask.tolist() == [[True, True, True], [True, False, False]]
    assert [[en[i] for i in row] for row in batch.inputs] == [
        ["<s>", "twenty", "one"],
        ["<s>", "three", "<pad>"],
    ]
    assert [en[i] for i in batch.targets[0]] == ["twenty", "one", "</s>"]
    assert [en[i] for i in batch.targets[1, :2]] == ["three", "</s>"]
    assert batch.targets[1, 2] == IGNORE
    back = pairs([21], "en", "fr")
    assert decode(back.source[0], "en") == ("twenty", "one")
    assert decode(back.targets[0], "fr") == ("vingt", "et", "un")


def test_the_checksum_is_that_of_the_unpacked_file():
    data = bz2.decompress(number_words.TEXT.read_bytes())
    assert hashlib.sha256(data).hexdigest() == number_words.SHA256


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: words(0, "de"), ValueError, "at least 1"),
        (lambda: words(10**12, "de"), ValueError, "at most 999999999999"),
        (lambda: words(2.0, "de"), TypeError, "integer"),
        (lambda: words(2, "it"), ValueError, "one of de, en, fr, got 'it'"),
        (lambda: vocabulary("it"), ValueError, "one of de, en, fr"),
        (lambda: numbers("dev"), ValueError, "one of train, valid, test"),
        (lambda: numbers("train", by="digits"), ValueError, "one of number, length"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
