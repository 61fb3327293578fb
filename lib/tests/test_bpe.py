"""Byte-level byte-pair encoding, beside a naive trainer, tokenizers, and GPT-2's own encoder."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter
from itertools import accumulate, islice, pairwise

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers
from unrolled.data import bpe, bpe_merges, corpora
from unrolled.data.bpe import BYTES, BPETokenizer, learn_merges
from unrolled.data.bpe_files import (
    load_gpt2,
    load_json,
    save_gpt2,
    save_json,
    spell,
    unspell,
)

modest = settings(max_examples=60, deadline=None)
END = "<|endoftext|>"
MANY_SCRIPTS = (
    "naïve café — “don’t” 12 ½ × 3² Ωμέγα нет привет 漢字かな 한국어 हिन्दी العربية "
    "👩‍👩‍👧 😀😀 e\u0301\n\n\t  I'll we've DON'T\r\n"
)
TEXT = corpora.load("shakespeare-small").train[:100_000] + 20 * MANY_SCRIPTS

# Only what Unicode held when Python's tables were made: of newer characters the two libraries that
# match the pattern may disagree whether they are letters. And a lone surrogate has no UTF-8.
characters = st.characters(exclude_categories=("Cn", "Cs"))
SPELT = sorted(BYTES, key=spell)
any_text = st.text(characters, max_size=80)
bits_of_text = st.builds(
    lambda at, n: TEXT[at : at + n], st.integers(0, len(TEXT)), st.integers(0, 40)
)
mixed_text = st.lists(st.one_of(any_text, bits_of_text), max_size=4).map("".join)
many_texts = st.lists(mixed_text, min_size=20, max_size=40)
few_letters = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=40).map(b"".join)
some_pieces = st.dictionaries(few_letters, st.integers(1, 3), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def trained() -> BPETokenizer:
    return BPETokenizer.train(TEXT, 1500, [END, "<|end|>"])


@pytest.fixture(scope="module")
def without_pattern() -> BPETokenizer:
    return BPETokenizer.train(TEXT[-20_000:], 300, pattern="none")


def naive(pieces: dict[bytes, int], n_merges: int, min_count: int, tie) -> list[bpe.Pair]:
    """Everything counted again at every merge; of equal counts the pair with the greatest tie."""
    segmented = [([bytes([byte]) for byte in piece], n) for piece, n in pieces.items()]
    merges = []
    for _ in range(n_merges):
        counts = Counter()
        for tokens, n in segmented:
            for pair in pairwise(tokens):
                counts[pair] += n
        best = max(counts, key=lambda pair: (counts[pair], tie(pair, merges)), default=None)
        if best is None or counts[best] < min_count:
            break
        merges.append(best)
        segmented = [(joined(tokens, best), n) for tokens, n in segmented]
    return merges


def joined(tokens: list[bytes], pair: bpe.Pair) -> list[bytes]:
    result, at = [], 0
    while at < len(tokens):
        both = tuple(tokens[at : at + 2]) == pair
        result.append(b"".join(pair) if both else tokens[at])
        at += 2 if both else 1
    return result


def smallest_ids(pair: bpe.Pair, merges: list[bpe.Pair]) -> tuple[int, int]:
    """The tie rule of tokenizers, whose bytes are numbered in the order of their spelling."""
    made = {a + b: len(BYTES) + i for i, (a, b) in enumerate(merges)}
    return tuple(-(made[token] if token in made else SPELT.index(token)) for token in pair)


def counted(text: str) -> dict[bytes, int]:
    return {p.encode(): n for p, n in Counter(bpe.PATTERNS["gpt2"].findall(text)).items()}


def in_rust(tokenizer: BPETokenizer) -> tokenizers.Tokenizer:
    """The same vocabulary, merges and special tokens in tokenizers, built by hand."""
    vocab = {t if isinstance(t, str) else spell(t): i for i, t in enumerate(tokenizer.vocab)}
    merges = [(spell(a), spell(b)) for a, b in tokenizer.merges]
    theirs = tokenizers.Tokenizer(models.BPE(vocab, merges))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=tokenizer.pattern == "gpt2"
    )
    theirs.decoder = decoders.ByteLevel()
    return theirs


def same(ours: np.ndarray, theirs: list[int]) -> bool:
    return ours.tolist() == theirs


# ---- training --------------------------------------------------------------------------------


def test_merges_by_hand():
    """The example of Sennrich and of CS336: ties go to the lexicographically greater pair."""
    merges = learn_merges({b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}, 12)
    assert [b" ".join(pair).decode() for pair in merges] == [
        "s t", "e st", "o w", "l ow", "w est", "n e",
        "ne west", "w i", "wi d", "wid est", "low e", "lowe r",
    ]  # fmt: skip


def test_of_equal_counts_the_greater_left_token_decides_then_the_right_one():
    assert learn_merges({b"ab": 1, b"ba": 1}, 1, 1) == [(b"b", b"a")]
    assert learn_merges({b"ab": 1, b"ac": 1}, 1, 1) == [(b"a", b"c")]
    # ab and abc stand before d equally often; abc is the greater, though ab is its beginning
    merges = learn_merges({b"abd": 2, b"ab": 8, b"abc": 6, b"abcd": 2}, 4)
    assert merges == [(b"a", b"b"), (b"ab", b"c"), (b"abc", b"d"), (b"ab", b"d")]


@settings(max_examples=300, deadline=None)
@given(some_pieces, st.integers(0, 40), st.integers(1, 3))
def test_training_is_counting_everything_again_at_every_merge(pieces, n_merges, min_count):
    ours = learn_merges(pieces, n_merges, min_count)
    assert ours == naive(pieces, n_merges, min_count, lambda pair, _: pair)


def test_training_on_a_real_text_is_counting_again():
    pieces = counted(TEXT[-9_000:])
    assert learn_merges(pieces, 150) == naive(pieces, 150, 2, lambda pair, _: pair)


@settings(max_examples=25, deadline=None)
@given(st.lists(bits_of_text, min_size=1, max_size=30).map("".join))
def test_training_differs_from_tokenizers_by_the_tie_rule_alone(text):
    """The naive trainer, which gives our merges with our rule, gives theirs with theirs."""
    theirs = tokenizers.Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + 30, min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    theirs.train_from_iterator([text], trainer)
    merges = json.loads(theirs.to_str())["model"]["merges"]
    got = [(unspell(a), unspell(b)) for a, b in merges]
    assert got == naive(counted(text), 30, 2, smallest_ids)
    assert learn_merges(counted(text), 30) == naive(counted(text), 30, 2, lambda pair, _: pair)


@modest
@given(some_pieces)
def test_learnt_merges_make_each_token_once_and_from_earlier_ones(pieces):
    tokenizer = BPETokenizer(learn_merges(pieces, 60, 1), pattern="none")  # it would refuse others
    assert tokenizer.vocab == (*BYTES, *(a + b for a, b in tokenizer.merges))


def test_rare_pairs_are_left():
    pieces = {b"abab": 1, b"cd": 1}
    assert learn_merges(pieces, 9, 2) == [(b"a", b"b")]
    assert learn_merges(pieces, 9, 3) == []
    assert len(learn_merges(pieces, 9, 1)) == 3
    assert learn_merges({}, 9) == learn_merges({b"a": 9, b"": 2}, 9) == []


def test_fewer_merges_are_the_beginning_of_more():
    pieces = counted(TEXT[:20_000])
    assert learn_merges(pieces, 300)[:100] == learn_merges(pieces, 100)


def test_no_merge_reaches_across_a_piece_or_a_special_token():
    text = f"a{END}b a{END}b " * 9
    tokenizer = BPETokenizer.train(text, 50, [END], pattern="none")
    assert all(b"<" not in token for token in tokenizer.vocab[256:-1])
    assert all(b"ab" not in token for token in tokenizer.vocab[256:-1])
    by_words = BPETokenizer.train("of the of the of the", 50)
    assert max(map(len, by_words.vocab)) == len(b" the")


# ---- encoding and decoding -------------------------------------------------------------------


def test_the_interface_is_that_of_the_other_tokenisers(trained):
    assert trained.vocab_size == len(trained.vocab) == 256 + 1500 + 2
    assert trained.vocab[:256] == BYTES
    assert trained.vocab[-2:] == (END, "<|end|>")
    ids = trained.encode("a cat")
    assert ids.dtype == np.int64
    assert ids.ndim == 1
    assert trained.encode("").tolist() == []
    assert trained.decode([]) == ""


def test_encoding_by_hand():
    tokenizer = BPETokenizer([(b"t", b"h"), (b"th", b"e"), (b" ", b"the")])
    assert tokenizer.encode("the the th é").tolist() == [257, 258, 32, 256, 32, 0xC3, 0xA9]
    assert tokenizer.decode([257, 258, 0xC3]) == "the the\ufffd"
    assert tokenizer.decode_bytes([258, 0xC3]) == b" the\xc3"


@settings(max_examples=150, deadline=None)
@given(few_letters, some_pieces)
def test_encoding_is_applying_the_merges_in_turn(piece, pieces):
    tokenizer = BPETokenizer(learn_merges(pieces, 30, 1), pattern="none")
    tokens = [bytes([byte]) for byte in piece]
    for pair in tokenizer.merges:
        tokens = joined(tokens, pair)
    assert [tokenizer.vocab[i] for i in tokenizer.encode_bytes(piece)] == tokens


@settings(max_examples=40, deadline=None)  # of thirty texts each
@given(many_texts)
def test_ids_are_those_of_tokenizers(trained, texts):
    theirs = in_rust(trained)
    for text in texts:
        assert same(trained.encode(text), theirs.encode(text).ids), text


@modest
@given(many_texts)
def test_ids_without_a_pattern_are_those_of_tokenizers(without_pattern, texts):
    theirs = in_rust(without_pattern)
    for text in texts:
        assert same(without_pattern.encode(text), theirs.encode(text).ids), text


@pytest.fixture(scope="module")
def gpt2_folder(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe") / "gpt2"
    save_gpt2(trained, folder)
    return folder


@settings(max_examples=40, deadline=None)  # of thirty texts each
@given(many_texts)
def test_ids_are_those_of_gpt2s_own_encoder(trained, gpt2_encoder, texts):
    for text in texts:
        assert same(trained.encode(text), gpt2_encoder(text)), text


@pytest.fixture(scope="module")
def gpt2_encoder(gpt2_folder, transformers):
    """OpenAI's program in Python, which transformers keeps in its CLVP; without CLVP's spelling."""
    files = (str(gpt2_folder / name) for name in ("vocab.json", "merges.txt"))
    theirs = transformers.ClvpTokenizer(*files)
    theirs._normalizer = str
    return lambda text: [theirs.encoder[token] for token in theirs._tokenize(text)]


@modest
@given(mixed_text)
def test_a_text_comes_back_exactly(trained, text):
    assert trained.decode(trained.encode(text)) == text
    assert BPETokenizer([]).decode(BPETokenizer([]).encode(text)) == text


@modest
@given(st.binary(max_size=200))
def test_every_byte_string_comes_back_exactly(trained, data):
    ids = trained.encode_bytes(data)
    assert trained.decode_bytes(ids) == data
    assert trained.decode(ids) == data.decode(errors="replace")


@modest
@given(st.lists(st.integers(0, 256 + 1499), max_size=60))
def test_any_ids_decode_to_what_tokenizers_says(trained, ids):
    theirs = in_rust(trained)
    assert trained.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


def test_a_whole_corpus_comes_back_exactly(trained):
    text = corpora.load("shakespeare-small").test
    assert trained.decode(trained.encode(text)) == text
    assert len(trained.encode(text)) < 0.5 * len(text)


def test_gpt2s_pattern_by_hand():
    pieces = bpe.PATTERNS["gpt2"].findall("I'll DON'T don’t  3rd\n x e\u0301")
    assert pieces == [
        "I", "'ll", " DON", "'", "T", " don", "’", "t", " ", " 3", "rd", "\n", " x", " e", "\u0301",
    ]  # fmt: skip


def test_the_cache_is_bounded_and_changes_nothing(trained, monkeypatch):
    monkeypatch.setattr(bpe, "_CACHED_PIECES", 3)
    fresh = BPETokenizer(trained.merges)
    text = TEXT[:3_000] + " " + 50 * "x"
    assert np.array_equal(fresh.encode(text), trained.encode(text))
    assert len(fresh._cache) <= 3
    assert np.array_equal(fresh.encode(text + text), trained.encode(text + text))
    fresh.encode(50 * "x")
    assert 50 * "x" not in fresh._cache


# ---- special tokens --------------------------------------------------------------------------


def test_special_tokens_are_read_from_a_text_only_on_request(trained):
    plain = trained.encode(f"one{END}two")
    assert not set(trained.special_ids.values()) & set(plain.tolist())
    read = trained.encode(f"one{END}two", special=True).tolist()
    one, two = trained.encode("one").tolist(), trained.encode("two").tolist()
    assert read == [*one, trained.special_ids[END], *two]
    assert trained.decode(read) == trained.decode(plain) == f"one{END}two"


def test_of_special_tokens_that_fit_the_longest_is_read():
    tokenizer = BPETokenizer([], ["<a>", "<a><b>", "<b>"])
    assert tokenizer.encode("<a><b><a>", special=True).tolist() == [257, 256]


@modest
@given(st.lists(st.integers(0, 300), max_size=60))
def test_a_text_decoded_id_by_id_is_that_decoded_at_once(trained, ids):
    pieces = list(trained.decode_stream(iter(ids)))
    assert "".join(pieces) == trained.decode(ids)
    assert len(pieces) == len(ids) + 1


def test_a_character_is_given_when_its_last_byte_has_come():
    ids = BPETokenizer([]).encode("aé😀")
    pieces = list(BPETokenizer([]).decode_stream(ids))
    assert pieces == ["a", "", "é", "", "", "", "😀", ""]


@modest
@given(st.lists(st.sampled_from([END, "<|end|>", "<|", "to", " be", "\n"]), max_size=12))
def test_special_tokens_are_read_as_tokenizers_reads_them(trained, parts):
    theirs = in_rust(trained)
    theirs.add_special_tokens(list(trained.special_ids))
    text = "".join(parts)
    assert same(trained.encode(text, special=True), theirs.encode(text).ids)


def test_special_tokens_are_not_counted_in_training(trained):
    text = TEXT[:20_000]
    with_ends = text.replace("\n\n", f"\n\n{END}")
    ours = BPETokenizer.train(with_ends, 200, [END])
    without = [counted(part) for part in with_ends.split(END)]
    assert list(ours.merges) == learn_merges(sum(map(Counter, without), Counter()), 200)


# ---- streams ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(mixed_text, st.sampled_from([END, "<|end|>", " ", "  ", "\n", "'", "ll"]))),
    st.lists(st.integers(0, 7), max_size=200),
    st.booleans(),
)
def test_a_stream_cut_anywhere_gives_the_ids_of_the_whole(trained, texts, lengths, special):
    text = "".join(texts)
    cuts = [0, *(min(at, len(text)) for at in accumulate(lengths)), len(text)]
    chunks = [text[a:b] for a, b in pairwise(cuts)]
    stream = trained.encode_stream(chunks, special=special)
    assert np.array_equal(np.concatenate(list(stream)), trained.encode(text, special=special))


def test_a_stream_without_a_pattern_is_one_piece():
    tokenizer = BPETokenizer.train(TEXT[:5_000], 200, pattern="none")
    stream = tokenizer.encode_stream([TEXT[:101], TEXT[101:990], TEXT[990:2_000]])
    assert np.array_equal(np.concatenate(list(stream)), tokenizer.encode(TEXT[:2_000]))


def test_a_stream_needs_only_the_beginning_of_a_text_to_give_its_first_ids(trained):
    endless = iter(lambda: "to be ", None)
    first = islice(trained.encode_stream(endless), 1000)
    tokens = [trained.vocab[i] for ids in first for i in ids]
    assert Counter(tokens) == {b"to": 1, b" to": 999, b" be": 1000}


# ---- what it costs ---------------------------------------------------------------------------


def lines_run(work) -> int:
    """How many of the two modules' lines `work` runs: as good as a time, the same everywhere."""
    n_lines, files = 0, (bpe.__file__, bpe_merges.__file__)

    def trace(frame, event, arg):
        nonlocal n_lines
        n_lines += event == "line"
        return trace if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return n_lines


def long_words(n: int) -> dict[str, bytes]:
    letters = np.random.default_rng(0).integers(97, 101, n, dtype=np.uint8).tobytes()
    return {"equal bytes": b"a" * n, "random letters": letters, "period 3": (b"abc" * n)[:n]}


@pytest.mark.parametrize("kind", ["equal bytes", "random letters", "period 3"])
def test_the_work_for_one_long_word_grows_as_its_length(kind):
    """Twice the bytes and, where there are so many to learn, twice the merges."""
    training, encoding = [], []
    for n in (2_000, 4_000, 8_000):
        word = long_words(n)[kind]
        training.append(lines_run(lambda word=word: learn_merges({word: 1}, len(word) // 10)))
        tokenizer = BPETokenizer(learn_merges({word: 1}, len(word) // 10), pattern="none")
        encoding.append(lines_run(lambda t=tokenizer, word=word: t.encode_bytes(word)))
    for counts in (training, encoding):
        assert all(after < 2.4 * before for before, after in pairwise(counts)), counts


def test_a_quarter_of_a_million_equal_bytes_are_learnt_and_encoded():
    """A second; what is quadratic within one line, which the count above cannot see: minutes."""
    n = 250_000
    merges = learn_merges({b"a" * n: 1}, 99)
    assert merges == [(b"a" * 2**k, b"a" * 2**k) for k in range(17)]
    ids = BPETokenizer(merges, pattern="none").encode("a" * n)
    assert len(ids) == n.bit_count()


@pytest.mark.parametrize("kind", ["equal bytes", "random letters"])
def test_memory_grows_as_the_length(kind):
    peaks = []
    for n in (10_000, 40_000):
        word = long_words(n)[kind]
        tracemalloc.start()
        BPETokenizer(learn_merges({word: 1}, 300), pattern="none").encode_bytes(word)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]


# ---- files -----------------------------------------------------------------------------------


def test_bytes_are_spelt_as_gpt2_spells_them():
    spelt = [spell(byte) for byte in BYTES]
    assert set(spelt) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sum(char == chr(byte) for byte, char in enumerate(spelt)) == 188
    assert spell(b" the\n") == "ĠtheĊ"
    assert [unspell(char) for char in spelt] == list(BYTES)


FORMS = {"gpt2": (save_gpt2, load_gpt2), "json": (save_json, load_json)}


def identical(a: BPETokenizer, b: BPETokenizer) -> bool:
    names = ("merges", "vocab", "special_ids", "pattern")
    return all(getattr(a, name) == getattr(b, name) for name in names)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_saved_is_loaded(trained, form, tmp_path):
    save, load = FORMS[form]
    other_ids = BPETokenizer(trained.merges, trained.special_ids, vocab=trained.vocab[::-1])
    for tokenizer in (trained, other_ids, BPETokenizer([])):
        save(tokenizer, tmp_path / "it")
        assert identical(load(tmp_path / "it"), tokenizer)
        save(load(tmp_path / "it"), tmp_path / "again")
    text = TEXT[:500] + END
    back = other_ids.encode(text, special=True)
    assert np.array_equal(back, trained.vocab_size - 1 - trained.encode(text, special=True))


def test_the_pattern_none_is_kept_by_the_one_form_and_told_to_the_other(tmp_path):
    tokenizer = BPETokenizer.train("a b a b", 3, pattern="none")
    save_json(tokenizer, tmp_path / "tokenizer.json")
    assert identical(load_json(tmp_path / "tokenizer.json"), tokenizer)
    save_gpt2(tokenizer, tmp_path)
    assert identical(load_gpt2(tmp_path, "none"), tokenizer)


@pytest.mark.parametrize("pattern", ["gpt2", "none"])
def test_tokenizers_reads_our_file(pattern, tmp_path):
    ours = BPETokenizer.train(TEXT[-30_000:], 300, [END], pattern=pattern)
    save_json(ours, tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = MANY_SCRIPTS + END + MANY_SCRIPTS
    assert same(ours.encode(text, special=True), theirs.encode(text).ids)
    assert theirs.decode(theirs.encode(text).ids, skip_special_tokens=False) == text


def test_we_read_the_file_of_tokenizers(tmp_path):
    theirs = tokenizers.Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    theirs.train_from_iterator([TEXT], trainer)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = load_json(tmp_path / "tokenizer.json")
    assert ours.special_ids == {END: 0}
    text = MANY_SCRIPTS + END + TEXT[:2_000]
    assert same(ours.encode(text, special=True), theirs.encode(text).ids)


def test_transformers_reads_our_two_files(trained, gpt2_folder, transformers):
    theirs = transformers.GPT2Tokenizer.from_pretrained(str(gpt2_folder))
    text = MANY_SCRIPTS + END + TEXT[:2_000]
    assert same(trained.encode(text, special=True), theirs(text)["input_ids"])


def test_older_files_write_a_merge_as_one_string(trained, tmp_path):
    path = tmp_path / "tokenizer.json"
    save_json(trained, path)
    content = json.loads(path.read_text("utf8"))
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    path.write_text(json.dumps(content), "utf8")
    assert identical(load_json(path), trained)


def test_a_merge_of_number_signs_is_no_comment(tmp_path):
    tokenizer = BPETokenizer([(b"#", b"#"), (b"##", b"#")])
    save_gpt2(tokenizer, tmp_path)
    assert load_gpt2(tmp_path).merges == tokenizer.merges
    (tmp_path / "merges.txt").write_text("# #\n## #\n", "utf8")
    assert load_gpt2(tmp_path).merges == tokenizer.merges


# ---- errors ----------------------------------------------------------------------------------


def test_a_lone_surrogate_is_refused_with_its_position(trained):
    for use in (BPETokenizer.train, trained.encode, lambda t: list(trained.encode_stream([t]))):
        with pytest.raises(ValueError, match=r"\\ud800' in position 3: surrogates not allowed"):
            use("abc\ud800")


def test_decode_refuses_what_is_no_id(trained):
    for wrong in (-1, trained.vocab_size):
        with pytest.raises(ValueError, match=rf"ids holds the id {wrong}, expected 0 … "):
            trained.decode([0, 1, wrong])
    with pytest.raises(ValueError, match=r"integers with ndim=1, got float64 \(2,\)"):
        trained.decode_bytes([0.0, 1.0])
    with pytest.raises(ValueError, match=r"integers with ndim=1, got int64 \(1, 2\)"):
        trained.decode([[0, 1]])


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ([(b"a", b"b"), (b"ab", b"cd")], r"merge 1 joins b'ab' and b'cd', but none .* makes b'cd'"),
        ([(b"ab", b"c")], r"merge 0 joins b'ab' and b'c', but none before makes b'ab'"),
        ([(b"a", b"b")] * 2, r"merge 1 joins b'a' and b'b', but b'ab' is a token already"),
        ([(b"", b"a")], r"none before makes b''"),
        (
            [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")],
            r"merge 3 joins b'a' and b'bc', but b'abc' is a token already",
        ),
    ],
)
def test_merges_that_cannot_have_been_learnt_are_refused(merges, message):
    with pytest.raises(ValueError, match=message):
        BPETokenizer(merges)


def test_impossible_settings_are_refused():
    for use in (BPETokenizer.train, lambda text, **pattern: BPETokenizer([], **pattern)):
        with pytest.raises(ValueError, match="pattern must be one of gpt2, none, got 'gpt4'"):
            use("a", pattern="gpt4")
    with pytest.raises(ValueError, match="n_merges must be at least 0, got -1"):
        BPETokenizer.train("a", -1)
    with pytest.raises(ValueError, match="min_count must be at least 1, got 0"):
        BPETokenizer.train("a", min_count=0)
    with pytest.raises(TypeError, match=r"n_merges must be an integer, got 2\.0"):
        learn_merges({b"a": 1}, 2.0)


def test_special_tokens_that_could_be_cut_are_refused():
    for make in (
        lambda special: BPETokenizer([], special),
        lambda s: BPETokenizer.train("a", 1, s),
    ):
        for wrong in ("", "<end of text>", "<s>\n"):
            with pytest.raises(ValueError, match="no white space and is not empty, got"):
                make([wrong])
        with pytest.raises(ValueError, match="'<s>' occurs more often"):
            make(["<s>", "<s>"])
        with pytest.raises(TypeError, match=r"\(str\), got bytes"):
            make([b"<s>"])


def test_a_vocabulary_of_other_tokens_is_refused():
    with pytest.raises(ValueError, match=r"b'x' is missing"):
        BPETokenizer([], vocab=[byte for byte in BYTES if byte != b"x"])
    with pytest.raises(ValueError, match=r"b'ab' is none of them"):
        BPETokenizer([], vocab=[*BYTES, b"ab"])
    with pytest.raises(ValueError, match=r"'<s>' is none of them"):
        BPETokenizer([], vocab=[*BYTES, "<s>"])
    with pytest.raises(ValueError, match=r"b'\\x00' occurs more often"):
        BPETokenizer([], vocab=[*BYTES, b"\0"])


@pytest.mark.parametrize("save", [save_gpt2, save_json])
def test_a_special_token_spelt_as_an_ordinary_one_cannot_be_saved(save, tmp_path):
    tokenizer = BPETokenizer([(b" ", b"a")], ["Ġa"])
    assert tokenizer.encode(" aĠa", special=True).tolist() == [256, 257]
    with pytest.raises(ValueError, match=r"special token 'Ġa' \(id 257\) is spelt as an ordinary"):
        save(tokenizer, tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_refused(tmp_path):
    save_gpt2(BPETokenizer([(b"a", b"b")]), tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text("utf8"))
    for line, message in [
        ("a b c", "two tokens with a space between, got 'a b c'"),
        ("a", "two tokens with a space between, got 'a'"),
        ("a 漢", "'漢' in the token '漢' stands for no byte"),
    ]:
        (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{line}\n", "utf8")
        with pytest.raises(ValueError, match=message):
            load_gpt2(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n", "utf8")
    for changed in ({**vocab, "ab": 300}, {**vocab, "ab": 0}):
        (tmp_path / "vocab.json").write_text(json.dumps(changed), "utf8")
        with pytest.raises(ValueError, match=r"ids of 257 tokens must be 0 … 256, each once"):
            load_gpt2(tmp_path)
    del vocab["Ġ"]
    changed = {token: i for i, token in enumerate(vocab)}
    (tmp_path / "vocab.json").write_text(json.dumps(changed), "utf8")
    with pytest.raises(ValueError, match=r"b' ' is missing"):
        load_gpt2(tmp_path)


TEMPLATE = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "pair": []}


@pytest.mark.parametrize("after", [None, {"type": "ByteLevel"}, TEMPLATE, "absent"])
def test_a_file_whose_post_processor_adds_nothing_is_read(after, tmp_path):
    path, ours = tmp_path / "tokenizer.json", BPETokenizer([(b"a", b"b")])
    save_json(ours, path)
    content = json.loads(path.read_text("utf8")) | {"post_processor": after}
    if after == "absent":
        del content["post_processor"]
    path.write_text(json.dumps(content), "utf8")
    assert load_json(path).vocab == ours.vocab


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("model", "type", "Unigram", "its model is 'Unigram'"),
        ("model", "dropout", 0.1, "its model dropout is 0.1"),
        ("model", "end_of_word_suffix", "</w>", "its model end_of_word_suffix is '</w>'"),
        ("model", "continuing_subword_prefix", "##", "its model continuing_subword_prefix is '##'"),
        ("model", "ignore_merges", True, "its model ignore_merges is True"),
        ("model", "byte_fallback", True, "its model byte_fallback is True"),
        (None, "normalizer", {"type": "NFC"}, "its normalizer is {'type': 'NFC'}"),
        (None, "truncation", {"max_length": 9}, "its truncation is {'max_length': 9}"),
        (None, "padding", {"pad_id": 0}, "its padding is {'pad_id': 0}"),
        (None, "pre_tokenizer", None, "its pre_tokenizer is 'null'"),
        ("pre_tokenizer", "type", "Split", "its pre_tokenizer is {'type': 'Split'"),
        ("pre_tokenizer", "add_prefix_space", True, "'add_prefix_space': True"),
        (
            None,
            "post_processor",
            TEMPLATE | {"single": [{"SpecialToken": {"id": "<s>"}}]},
            "is 'TemplateProcessing'",
        ),
        ("added_tokens", "lstrip", True, "its lstrip of <s> is True"),
        ("added_tokens", "single_word", True, "its single_word of <s> is True"),
    ],
)
def test_a_file_that_would_give_other_ids_is_refused(part, name, value, message, tmp_path):
    path = tmp_path / "tokenizer.json"
    save_json(BPETokenizer([], ["<s>"]), path)
    content = json.loads(path.read_text("utf8"))
    place = content if part is None else content[part]
    (place[0] if part == "added_tokens" else place)[name] = value
    path.write_text(json.dumps(content), "utf8")
    with pytest.raises(ValueError, match="is no plain byte-level BPE") as error:
        load_json(path)
    assert message in str(error.value)
