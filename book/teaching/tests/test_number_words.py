"""Number words: spelled as people spell them, cut without loss, split without leakage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled_book.tasks import number_words as nw

ANY = st.integers(1, 12).flatmap(lambda d: st.integers(10 ** (d - 1), 10**d - 1))
SPELLED = """
1 | eins | one | un
16 | sechzehn | sixteen | seize
81 | einundachtzig | eighty-one | quatre-vingt-un
101 | einhunderteins | one hundred and one | cent un
1000 | eintausend | one thousand | mille
1100 | eintausendeinhundert | one thousand, one hundred | mille cent
1001001 | eine Million eintausendeins | one million, one thousand and one | un million mille un
280000000017 | zweihundertachtzig Milliarden siebzehn\
 | two hundred and eighty billion and seventeen\
 | deux cent quatre-vingts milliards dix-sept
300021080 | dreihundert Millionen einundzwanzigtausendachtzig\
 | three hundred million, twenty-one thousand and eighty\
 | trois cents millions vingt et un mille quatre-vingts
"""


@pytest.mark.parametrize("line", SPELLED.strip().split("\n"))
def test_known_numbers_are_spelled_as_the_languages_do(line):
    n, *spelled = line.split(" | ")
    assert [nw.words(int(n), language) for language in nw.LANGUAGES] == spelled


@given(ANY, ANY)
def test_tokens_lose_nothing_and_come_back_from_their_ids(n, other):
    assert "".join(nw.tokens(n, "de")) == nw.words(n, "de").replace(" ", "")
    assert set(nw.tokens(n, "de")) <= set(nw.MORPHEMES)
    for language in ("en", "fr"):
        plain = nw.words(n, language).replace("-", " ").replace(",", "")
        assert " ".join(nw.tokens(n, language)) == plain
    for language in nw.LANGUAGES:
        ids = nw.encode(n, language)
        assert ids.dtype == np.int64
        assert nw.decode(ids, language) == nw.tokens(n, language)
        assert nw.decode([nw.START, *ids, nw.END, 5, 6], language) == nw.tokens(n, language)
        assert (nw.tokens(n, language) == nw.tokens(other, language)) == (n == other)


def test_cutting_takes_the_longest_piece_that_fits_and_refuses_what_has_none():
    assert nw.morphemes("sechsundsiebzig") == ("sechs", "und", "siebzig")
    assert nw.morphemes("sechzehn") == ("sech", "zehn")
    assert nw.morphemes("eintausendeins") == ("ein", "tausend", "eins")
    assert nw.morphemes("") == ()
    with pytest.raises(ValueError, match="no morpheme begins 'x'"):
        nw.morphemes("dreix")
    with pytest.raises(ValueError, match="at most 999999999999"):
        nw.words(10**12, "de")


@pytest.mark.parametrize(("language", "size"), [("de", 34), ("en", 35), ("fr", 33)])
def test_a_vocabulary_holds_each_token_once_behind_three_marks(language, size):
    known = nw.vocabulary(language)
    assert (known[nw.PAD], known[nw.START], known[nw.END]) == ("<pad>", "<s>", "</s>")
    assert len(known) == len(set(known)) == size
    used = {t for n in range(1, 1000) for k in range(4) for t in nw.tokens(n * 1000**k, language)}
    assert used | set(nw.tokens(1001, language)) == set(known[3:])


@pytest.mark.parametrize(
    ("by", "sizes"), [("number", [32_475, 1_801, 1_844]), ("length", [20_120, 8_000, 8_000])]
)
def test_no_number_stands_in_two_splits_and_none_is_lost(by, sizes):
    parts = {split: nw.numbers(split, by=by) for split in nw.SPLITS}
    assert [len(part) for part in parts.values()] == sizes
    assert len(set().union(*parts.values())) == sum(sizes)
    assert set(range(1, 1000)) < set().union(*parts.values())
    for split, part in parts.items():
        assert list(part) == sorted(part)
        if by == "length":
            assert {len(str(n)) for n in part} == set(nw.LENGTHS[split])
        else:
            assert all(nw.split_of(n) == split for n in part)
    assert {len(str(n)) for n in nw.numbers("test", digits=[6, 9])} == {6, 9}
    assert len(nw.numbers("test", digits=[9])) > 100
    assert nw.numbers("train", by="length", digits=[12]) == ()


def test_pairs_are_padded_and_shifted_by_one():
    batch = nw.pairs([21, 3])
    de, en = nw.vocabulary("de"), nw.vocabulary("en")
    source = [[de[i] for i in row] for row in batch.source]
    assert source == [["ein", "und", "zwanzig"], ["drei", "<pad>", "<pad>"]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, False, False]]
    inputs = [[en[i] for i in row] for row in batch.inputs]
    assert inputs == [["<s>", "twenty", "one"], ["<s>", "three", "<pad>"]]
    assert [en[i] for i in batch.targets[0]] == ["twenty", "one", "</s>"]
    assert [en[i] for i in batch.targets[1, :2]] == ["three", "</s>"]
    assert batch.targets[1, 2] == IGNORE
    back = nw.pairs([21], "en", "fr")
    assert nw.decode(back.source[0], "en") == ("twenty", "one")
    assert nw.decode(back.targets[0], "fr") == ("vingt", "et", "un")
