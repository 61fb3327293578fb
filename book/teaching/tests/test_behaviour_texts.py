"""The check of round trips accepts tokenisers that lose nothing and names what others lose."""

from __future__ import annotations

import re
import unicodedata

import pytest
from unrolled.data import corpora
from unrolled.data.bpe import BPETokenizer
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled_book.behaviour import BehaviourError, check_round_trip

TEXT = corpora.load("shakespeare-small").train[:20_000]
BPE = BPETokenizer.train(TEXT, 50)


def points(text):
    return [ord(c) for c in text]


def written(ids):
    return "".join(map(chr, ids))


def test_what_loses_nothing_passes():
    check_round_trip(points, written)
    check_round_trip(BPE.encode, BPE.decode)
    check_round_trip(BPE.encode, BPE.decode_stream)
    check_round_trip(str.encode, lambda b: [b[:0].decode(), b.decode()])


@pytest.mark.parametrize(
    ("encode", "decode", "message"),
    [
        (
            BPE.encode,
            lambda ids: (BPE.decode([i]) for i in ids),
            r"'café naïve' comes back .* from character 3 on.* the bytes of one character",
        ),
        (str.lower, str, "'To be, OR not' comes back .* character 0 on.* upper case is lost$"),
        (str.strip, str, r"' a  b\\t' .* character 0 on.* white space is lost"),
        (lambda t: " " + t if t else t, str, "comes back as ' to be'.* white space .*added"),
        (lambda t: t.replace("\r\n", "\n"), str, r"differs from character 8 on.* white space"),
        (lambda t: unicodedata.normalize("NFC", t), str, "'cafe.' .* character 3 .*normal forms"),
        (lambda t: unicodedata.normalize("NFD", t), str, "'café naïve' .* normal forms"),
        (lambda t: t.encode("ascii", "ignore").decode(), str, "'café naïve' .* no ASCII is"),
        (lambda t: re.sub(r"\d", "#", t), str, r"'12 1998 3.14' .* from character 0 on$"),
        (lambda t: t[:8], str, "'To be, OR not' comes back as 'To be, O': .* character 8 on$"),
    ],
)  # fmt: skip
def test_what_is_lost_is_named(encode, decode, message):
    with pytest.raises(BehaviourError, match=message):
        check_round_trip(encode, decode)


@pytest.mark.parametrize("kind", [WordTokenizer, WordPieceTokenizer])
def test_unknown_words_are_named(kind):
    tokenizer = kind.train("to be or not to be")
    check_round_trip(tokenizer.encode, tokenizer.decode, ["to be"])
    with pytest.raises(BehaviourError, match="upper case is lost"):
        check_round_trip(tokenizer.encode, tokenizer.decode, ["To be"])
    with pytest.raises(BehaviourError, match="not in the vocabulary, and no smaller pieces"):
        check_round_trip(tokenizer.encode, tokenizer.decode, ["to zee"])


def test_case_and_white_space_may_be_lost_together():
    with pytest.raises(BehaviourError, match="upper case and white space are lost"):
        check_round_trip(lambda t: t.lower().split(), " ".join, ["A  b"])


def test_a_text_that_is_refused_does_not_come_back():
    tokenizer = CharTokenizer.train(TEXT)
    with pytest.raises(BehaviourError, match=r"cannot be encoded and decoded: character '\\t'"):
        check_round_trip(tokenizer.encode, tokenizer.decode)
    with pytest.raises(BehaviourError, match="cannot be encoded"):
        check_round_trip(lambda t: {"": 0}[t], lambda i: "")


@pytest.mark.parametrize(
    "lossy",
    [
        lambda t: t[:60],
        lambda t: t[:2_000],
        lambda t: t.replace("\u00a0", " "),
        lambda t: t.replace("’", "'"),
        lambda t: t.replace("▁", " "),
        lambda t: t.replace("Ġ", " "),
        lambda t: t.replace("</w>", " "),
        lambda t: t.replace("<s>", ""),
        lambda t: t.replace("<unk>", ""),
        lambda t: t.replace("[UNK]", ""),
        lambda t: t.replace(" ##", ""),
        lambda t: t.replace(" .", "."),
        lambda t: t.replace(" ,", ","),
        lambda t: t.replace("ß", "ss"),
        lambda t: t.replace("٣", "3"),
        lambda t: t.replace("\u00ad", ""),
        lambda t: t.replace("\u200b", ""),
        lambda t: t.replace("\ufffd", ""),
    ],
)
def test_what_normalisers_and_marks_take_away_is_seen(lossy):
    with pytest.raises(BehaviourError, match="comes back as"):
        check_round_trip(lossy, str)


def test_a_long_text_is_quoted_around_the_difference():
    with pytest.raises(BehaviourError) as raised:
        check_round_trip(lambda t: t[:2_000], str)
    assert "differs from character 2000 on" in str(raised.value)
    assert len(str(raised.value)) < 200


def test_marks_that_stand_in_the_text_are_no_reason():
    for text in ("A <unk>", "A \ufffd"):
        with pytest.raises(BehaviourError, match="upper case is lost"):
            check_round_trip(str.lower, str, [text])


@pytest.mark.parametrize("decode", [str.encode, lambda t: None, lambda t: t + 1, lambda t: 1 / 0])
def test_what_gives_no_text_does_not_come_back(decode):
    with pytest.raises(BehaviourError, match="cannot be encoded and decoded"):
        check_round_trip(str, decode, ["abc"])


def test_texts_are_several():
    with pytest.raises(TypeError, match="a list of texts, got one: 'abc'"):
        check_round_trip(str, str, "abc")
    with pytest.raises(ValueError, match="at least one text"):
        check_round_trip(str, str, [])
