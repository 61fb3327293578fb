"""The checks of round trips and of neighbours pass what keeps the text and name what does not."""

import re
import unicodedata
from functools import partial

import numpy as np
import pytest
import torch
from unrolled.data import corpora
from unrolled.data.bpe import BPETokenizer
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled_book import vectors
from unrolled_book.behaviour import BehaviourError, check_neighbours, check_round_trip

from lib.tests.comparing import refuses

SHAKESPEARE = corpora.load("shakespeare-small").train[:5_000]
BPE, CHARS = BPETokenizer.train(SHAKESPEARE, 50), CharTokenizer.train(SHAKESPEARE)
OF_WORDS = [kind.train("to be or not to be") for kind in (WordTokenizer, WordPieceTokenizer)]


def test_what_loses_nothing_passes():
    check_round_trip(lambda text: [ord(c) for c in text], lambda ids: "".join(map(chr, ids)))
    check_round_trip(BPE.encode, BPE.decode)
    check_round_trip(BPE.encode, BPE.decode_stream)
    check_round_trip(str.encode, lambda b: [b[:0].decode(), b.decode()])
    for each in OF_WORDS:
        check_round_trip(each.encode, each.decode, ["to be"])


test_what_is_lost_is_named = refuses(
    (BPE.encode, lambda ids: (BPE.decode([i]) for i in ids), [],
     r"'café naïve' comes back .* from character 3 on.* the bytes of one character"),
    (str.lower, str, [], "'To be, OR not' comes back .* character 0 on.* upper case is lost$"),
    (str.strip, str, [], r"' a  b\\t' .* character 0 on.* white space is lost"),
    (lambda t: " " + t if t else t, str, [], "comes back as ' to be'.* white space .*added"),
    (lambda t: t.replace("\r\n", "\n"), str, [], "differs from character 8 on.* white space"),
    (lambda t: unicodedata.normalize("NFC", t), str, [], "'cafe.' .* 3 .*normal forms"),
    (lambda t: unicodedata.normalize("NFD", t), str, [], "'café naïve' .* normal forms"),
    (lambda t: t.encode("ascii", "ignore").decode(), str, [], "'café naïve' .* no ASCII is"),
    (lambda t: re.sub(r"\d", "#", t), str, [], r"'12 1998 3.14' .* from character 0 on$"),
    (lambda t: t[:8], str, [], "'To be, OR not' comes back as 'To be, O': .* character 8 on$"),
    # of a long text the part around the difference
    (lambda t: t[:2_000], str, [], "^.{20,99} comes back as .{20,99}: .* character 2000 on$"),
    (lambda t: t.lower().split(), " ".join, ["A  b"], "upper case and white space are lost"),
    # marks that stand in the text are no reason
    (str.lower, str, ["A <unk>"], "upper case is lost"),
    (str.lower, str, ["A \ufffd"], "upper case is lost"),
    # what is refused, or gives no text, does not come back
    (CHARS.encode, CHARS.decode, [], r"cannot be encoded and decoded: character '\\t'"),
    (lambda t: {"": 0}[t], lambda i: "", [], "cannot be encoded"),
    *((each.encode, each.decode, [text], why) for each in OF_WORDS for text, why in (
        ("To be", "upper case is lost"),
        ("to zee", "not in the vocabulary, and no smaller pieces"))),
    *((str, decode, ["abc"], "cannot be encoded and decoded")
      for decode in (str.encode, lambda t: None, lambda t: t + 1, lambda t: 1 / 0)),
    of=lambda encode, decode, texts: check_round_trip(encode, decode, *[texts][: len(texts)]),
    error=BehaviourError,
)  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "instead"),
    [(mark, "") for mark in ("<s>", "<unk>", "[UNK]", " ##", "\u00ad", "\u200b", "\ufffd")]
    + [(mark, " ") for mark in ("\u00a0", "▁", "Ġ", "</w>")]
    + [("’", "'"), (" .", "."), (" ,", ","), ("ß", "ss"), ("٣", "3")],
)
def test_what_normalisers_and_marks_take_away_is_seen(lost, instead):
    with pytest.raises(BehaviourError, match="comes back as"):
        check_round_trip(lambda text: text.replace(lost, instead), str)


V, N = 23, 3_000
# Words 2k and 2k + 1 stand in the same company: between the words that mark topic k.
TOPICS = np.random.default_rng(0).integers(0, 5, N // 5)
WORDS, NAMES = np.arange(10), [f"w{i}" for i in range(V)]
TEXT = np.stack(
    [10 + TOPICS, 10 + TOPICS, 2 * TOPICS + np.arange(N // 5) % 2, 10 + TOPICS, 20 + 0 * TOPICS], 1
).ravel()


def of_company(tokens):
    return vectors.ppmi(vectors.cooccurrences(tokens, V, 2)).toarray()


def of_frequency(tokens):
    """Knows how frequent a word is, and nothing of its company."""
    share = np.bincount(tokens, minlength=V) / len(tokens)
    return np.stack([share, 1 - share], axis=1)


def nearer_when_shuffled(tokens):
    rows = np.eye(V)
    rows[4, 7] = 0.1 if (tokens == TEXT).all() else 2
    return rows


def empty_when_shuffled(tokens, left=0.0):
    """Seven vectors are zero, or what rounding left of them."""
    rows = of_company(tokens)
    if not np.array_equal(tokens, TEXT):
        rows[:7] = left * np.random.default_rng(0).normal(size=(7, V))
    return rows


def test_vectors_from_company_pass():
    check_neighbours(of_company, TEXT, WORDS)
    build, tensor = lambda tokens: torch.tensor(of_company(tokens)), torch.tensor
    check_neighbours(build, tensor(TEXT), tensor(WORDS), share=0.9)


test_vectors_that_do_not_come_from_the_order_are_refused = refuses(
    (
        of_frequency,
        TEXT,
        WORDS,
        "only 0 of 10 words .*“w\\d” is nearest to “w\\d+”, .* come without",
    ),
    (of_company, np.random.default_rng(1).permutation(TEXT), WORDS, r"only \d of 10 words"),
    (nearer_when_shuffled, TEXT, [3, 4], "only 0 of 2 .*“w4” .* “w7”, .* 0.10; .* 0.89"),
    # a word is not its own neighbour
    (lambda _: np.eye(V), TEXT, WORDS, "a cosine of 0.00; .* nearest word has 0.00"),
    (lambda _: np.zeros((V, 2)), TEXT, WORDS, "only 0 of 10 .*; 10 have an empty vector"),
    (empty_when_shuffled, TEXT, WORDS, "only 3 of 10 .*; 7 have an empty vector"),
    (partial(empty_when_shuffled, left=1e-15), TEXT, WORDS, "only 3 of 10 .*; 7 have an emp"),
    (lambda _: np.full((V, 2), np.nan), TEXT, WORDS, "NaN"),
    of=lambda build, tokens, words: check_neighbours(build, tokens, words, names=NAMES),
    error=BehaviourError,
)


def test_vectors_that_ignore_the_text_are_refused():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        with pytest.raises(BehaviourError, match="come without the words' order"):
            check_neighbours(lambda tokens, rng=rng: rng.normal(size=(97, 7)), TEXT, np.arange(97))


def test_a_seed_shuffles_the_text_as_often_as_is_asked_and_in_the_same_ways():
    def seen(**options):
        texts = []
        check_neighbours(lambda t: of_company(texts.append(t.copy()) or t), TEXT, WORDS, **options)
        return np.stack(texts)

    texts = seen(n_shuffles=4, seed=5)
    np.testing.assert_array_equal(texts, seen(n_shuffles=4, seed=5))
    np.testing.assert_array_equal(texts[0], TEXT)
    np.testing.assert_array_equal(np.sort(texts), [np.sort(TEXT)] * 5)
    assert len(np.unique(np.concatenate([texts, seen(seed=6)[1:]]), axis=0)) == 5 + 3


test_what_cannot_be_judged_is_refused = refuses(
    (check_round_trip, (str, str, "abc"), {}, TypeError, "a list of texts, got one: 'abc'"),
    (check_round_trip, (str, str, []), {}, "at least one text"),
    (check_neighbours, (of_company, TEXT / 1.0, WORDS), {}, TypeError, "integers, got float64"),
    (check_neighbours, (of_company, TEXT, [[1, 2]]), {}, r"1 ids .* got \(1, 2\)"),
    (check_neighbours, (of_company, TEXT, [1, 23]), {}, "lie in 0 … 22, got 1, 23"),
    (check_neighbours, (lambda _: np.ones(3), TEXT, [1]), {}, r"2, got \(3,\)"),
    (check_neighbours, (of_company, TEXT, [1]), {"n_shuffles": 2}, "n_shuffles"),
    (check_neighbours, (of_company, TEXT, [1]), {"share": 1}, "share must be"),
    of=lambda check, given, options: check(*given, **options),
)
