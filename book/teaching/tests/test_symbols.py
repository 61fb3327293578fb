"""Parentheses, the copy task and tagging: the data of the chapters on recurrence."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE, pad
from unrolled_book.behaviour import check_causal
from unrolled_book.tasks import tagging
from unrolled_book.tasks.parentheses import (
    COLOURED,
    KINDS,
    RIGHT_COUNTS,
    balanced,
    corrupt,
    is_balanced,
)
from unrolled_book.tasks.symbols import adversarial, copy_task, parentheses

modest = settings(max_examples=40, deadline=None)
each_kind = pytest.mark.parametrize("kind", KINDS)
seeds = st.integers(0, 2**32 - 1)


def reduces_to_nothing(symbols: list[int], n_colours: int) -> bool:
    """A second oracle: take away neighbours that match until none is left."""
    for i, (a, b) in enumerate(pairwise(symbols)):
        if a < n_colours and a + b == 2 * n_colours - 1:
            return reduces_to_nothing(symbols[:i] + symbols[i + 2 :], n_colours)
    return not symbols


def depth(symbols, n_colours: int) -> np.ndarray:
    return np.where(np.asarray(symbols) < n_colours, 1, -1).cumsum()


def neighbours_clash(symbols, n_colours: int) -> bool:
    return any(a < n_colours <= b and a + b != 2 * n_colours - 1 for a, b in pairwise(symbols))


def strings(data, label: int) -> list[list[int]]:
    return [s.tolist() for s, y in zip(data.sequences, data.labels, strict=True) if y == label]


@modest
@given(st.integers(1, 3).flatmap(lambda c: st.tuples(
    st.just(c), st.lists(st.integers(0, 2 * c - 1), max_size=8))))  # fmt: skip
def test_the_stack_agrees_with_taking_away_matching_neighbours(case):
    n_colours, symbols = case
    assert is_balanced(symbols, n_colours) == reduces_to_nothing(symbols, n_colours)


def test_the_stack_counts_the_catalan_numbers():
    for pairs, catalan in [(0, 1), (1, 1), (2, 2), (3, 5), (4, 14), (5, 42)]:
        right = [s for s in product((0, 1), repeat=2 * pairs) if is_balanced(s, 1)]
        assert len(right) == catalan
    assert sum(is_balanced(s, 3) for s in product(range(6), repeat=4)) == 2 * 3**2


def test_balanced_by_hand():
    assert is_balanced([0, 9])
    assert is_balanced([0, 3, 6, 9, 4, 5])
    assert not is_balanced([9, 0])
    assert not is_balanced([0, 3, 9, 6])
    assert not is_balanced([0])
    assert not is_balanced([0, 8])
    with pytest.raises(ValueError, match=r"symbol 10 is not in 0 .. 9"):
        is_balanced([0, 10])
    with pytest.raises(ValueError, match=r"symbol -1 is not in 0 .. 1"):
        is_balanced([-1], 1)


@modest
@given(seeds, st.integers(1, 13), st.integers(1, 11), st.integers(1, 5))
def test_balanced_strings_are_balanced(seed, n, pairs, n_colours):
    drawn = balanced(np.random.default_rng(seed), n, pairs=pairs, n_colours=n_colours)
    assert drawn.shape == (n, 2 * pairs)
    assert drawn.dtype == np.int64
    assert all(is_balanced(s, n_colours) for s in drawn)


def test_every_shape_and_every_colour_is_equally_likely():
    drawn = balanced(np.random.default_rng(7), 14_000, pairs=4, n_colours=1)
    counts = Counter(map(tuple, drawn.tolist()))
    assert len(counts) == 14
    assert max(abs(n - 1000) for n in counts.values()) < 150  # five standard deviations
    coloured = balanced(np.random.default_rng(7), 4500, pairs=2, n_colours=3)
    counts = Counter(map(tuple, coloured.tolist()))
    assert len(counts) == 18
    assert max(abs(n - 250) for n in counts.values()) < 80


def test_balanced_refuses_numbers_below_one():
    for wrong in ({"n": 0}, {"pairs": 0}, {"n_colours": 0}):
        numbers = {"n": 1, "pairs": 1, "n_colours": 1} | wrong
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be at least 1, got 0"):
            balanced(np.random.default_rng(0), **numbers)


@each_kind
@modest
@given(seeds, st.integers(1, 8), st.integers(1, 5))
def test_a_corrupted_string_is_never_balanced_and_as_long(kind, seed, pairs, n_colours):
    rng = np.random.default_rng(seed)
    right = balanced(rng, 1, pairs=pairs, n_colours=n_colours)[0]
    before = right.copy()
    wrong = corrupt(rng, right, kind, n_colours)
    assert np.array_equal(right, before)
    if wrong is None:
        assert kind in COLOURED
        return
    assert not is_balanced(wrong, n_colours)
    assert len(wrong) == len(right)
    same_counts = np.array_equal(np.sort(wrong), np.sort(right))
    assert same_counts == (kind in RIGHT_COUNTS)
    n_changed = (wrong != right).sum()
    if kind in ("unbalance", "recolour"):
        assert n_changed == 1
    elif kind != "shuffle":
        assert n_changed == 2


def kind_of(kind: str, n: int = 400, **settings):
    return parentheses(np.random.default_rng(11), n, negatives=[kind], **settings)


def test_what_is_enough_for_each_kind():
    """The claims of the module's docstring."""
    wrong = {kind: strings(kind_of(kind, pairs=(3, 12)), 0) for kind in KINDS}
    assert all(depth(s, 5)[-1] != 0 for s in wrong["unbalance"])
    for s in wrong["recolour"]:
        assert any(s.count(i) != s.count(9 - i) for i in range(5))
    for kind in ("recolour", "swap", "deep"):  # depth does not tell
        assert all(depth(s, 5).min() == 0 == depth(s, 5)[-1] for s in wrong[kind])
    assert all(depth(s, 5).min() < 0 for s in wrong["invert"])
    assert not any(neighbours_clash(s, 5) for kind in ("deep", "invert") for s in wrong[kind])
    assert any(neighbours_clash(s, 5) for s in wrong["swap"])


def test_neighbours_give_most_swaps_away():
    for pairs, least, most in [(2, 1, 1), (15, 0.77, 0.82)]:
        wrong = strings(kind_of("swap", 6000, pairs=pairs), 0)
        assert least <= np.mean([neighbours_clash(s, 5) for s in wrong]) <= most


def test_of_all_shuffles_one_in_n_plus_one_keeps_its_depth():
    for n in (1, 3, 5):
        kept = sum(is_balanced(s, 1) for s in product((0, 1), repeat=2 * n))
        assert kept * (n + 1) == comb(2 * n, n)


def test_recolouring_reaches_every_other_colour():
    rng = np.random.default_rng(0)
    seen = {tuple(corrupt(rng, np.array([1, 4]), "recolour", 3).tolist()) for _ in range(200)}
    assert seen == {(0, 4), (2, 4), (1, 3), (1, 5)}


def test_corruptions_by_hand():
    rng = np.random.default_rng(0)
    assert corrupt(rng, np.array([0, 0, 1, 1]), "invert", 1).tolist() == [1, 0, 1, 0]
    assert corrupt(rng, np.array([0, 1, 2, 3]), "swap", 2).tolist() == [0, 1, 3, 2]
    assert corrupt(rng, np.array([0, 1, 0, 3, 2, 3]), "deep", 2).tolist() == [0, 1, 0, 3, 3, 2]
    for kind, string in [("swap", [0, 0, 3, 3]), ("deep", [0, 3, 1, 2]), ("deep", [0, 1, 2, 3])]:
        assert corrupt(rng, np.array(string), kind, 2) is None
    twice = {tuple(corrupt(rng, np.array([0, 1, 0, 1]), "invert", 1).tolist()) for _ in range(50)}
    assert twice == {(1, 0, 0, 1), (0, 1, 1, 0)}
    with pytest.raises(ValueError, match=r"one of unbalance, .*, got 'flip'"):
        corrupt(rng, np.array([0, 1]), "flip", 1)


@modest
@given(
    seeds,
    st.integers(1, 30),
    st.sets(st.sampled_from(KINDS), min_size=1),
    st.booleans(),
    st.integers(2, 5),
    st.integers(3, 5),
    st.integers(0, 4),
)
def test_classes_kinds_and_lengths_are_balanced(seed, half, kinds, coupled, colours, low, more):
    kinds = sorted(kinds)
    data = parentheses(
        np.random.default_rng(seed), 2 * half, pairs=(low, low + more), n_colours=colours,
        negatives=kinds, coupled=coupled,
    )  # fmt: skip
    assert len(data) == len(data.sequences) == len(data.kinds) == 2 * half
    assert data.labels.dtype == np.int64
    assert data.labels.sum() == half
    for symbols, label, kind in zip(data.sequences, data.labels, data.kinds, strict=True):
        assert is_balanced(symbols, colours) == bool(label) == (kind == "balanced")
        assert low <= len(symbols) / 2 <= low + more
        assert symbols.dtype == np.int64
    counts = Counter(k for k in data.kinds if k != "balanced")
    dealt = [counts[kind] for kind in kinds]
    assert max(dealt) - min(dealt) <= 1
    assert sorted(map(len, strings(data, 0))) == sorted(map(len, strings(data, 1)))


def test_every_number_of_pairs_comes_and_the_order_is_mixed():
    data = kind_of("swap", 2000, pairs=(2, 6))
    counts = Counter(len(s) // 2 for s in data.sequences)
    assert sorted(counts) == [2, 3, 4, 5, 6]
    assert min(counts.values()) > 300
    assert 0.4 < (np.diff(data.labels) != 0).mean() < 0.6
    assert {len(s) for s in kind_of("swap", 20, pairs=7).sequences} == {14}


def test_the_number_of_pairs_is_uniform_in_the_smallest_set_as_well():
    rng = np.random.default_rng(4)
    sets = (parentheses(rng, 2, pairs=(2, 6)) for _ in range(500))
    counts = Counter(len(data.sequences[0]) // 2 for data in sets)
    assert max(abs(counts[pairs] - 100) for pairs in (2, 3, 4, 5, 6)) < 45  # five deviations


def test_the_number_of_colours_does_not_give_the_label_away():
    for label in (0, 1):  # of two pairs a fifth would else have one colour
        assert all(len(set(s)) == 4 for s in strings(kind_of("swap", pairs=2), label))


def test_coupled_strings_hold_the_same_symbols():
    coupled = kind_of("swap", pairs=(4, 9), coupled=True)
    right, wrong = ([sorted(s) for s in strings(coupled, label)] for label in (1, 0))
    assert sorted(right) == sorted(wrong)
    free = kind_of("swap", pairs=(4, 9))
    assert sorted(map(sorted, strings(free, 0))) != sorted(map(sorted, strings(free, 1)))


@modest
@given(seeds, st.integers(1, 5))
def test_adversarial_strings_have_right_counts_in_both_classes(seed, n_colours):
    data = adversarial(np.random.default_rng(seed), 40, n_colours=n_colours, pairs=(3, 6))
    assert data.labels.sum() == 20
    for s, label in zip(data.sequences, data.labels, strict=True):
        assert is_balanced(s, n_colours) == bool(label)
        counts = np.bincount(s, minlength=2 * n_colours)
        assert np.array_equal(counts[:n_colours], counts[::-1][:n_colours])
    assert sorted(map(sorted, strings(data, 0))) == sorted(map(sorted, strings(data, 1)))
    expected = {"balanced", "shuffle", "invert"} | ({"swap", "deep"} if n_colours > 1 else set())
    assert set(data.kinds) == expected


def test_the_seed_decides_the_set_and_another_gives_another():
    def draw(seed):
        data = parentheses(np.random.default_rng(seed), 20, negatives=KINDS, pairs=(3, 9))
        return [s.tolist() for s in data.sequences], data.labels.tolist(), data.kinds

    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 7}, "an even n, got 7"),
        ({"n": 0}, "n must be at least 2, got 0"),
        ({"pairs": 0}, "smallest number of pairs must be at least 1, got 0"),
        ({"pairs": (5, 4)}, "largest number of pairs must be at least 5, got 4"),
        ({"n_colours": 0}, "n_colours must be at least 1, got 0"),
        ({"negatives": ["swap", "flip"]}, "one of unbalance, .*, got 'flip'"),
        ({"negatives": []}, r"got \[\]"),
        ({"pairs": (1, 9)}, "'swap' needs 2 or more pairs and 2 or more colours, got low=1"),
        ({"n_colours": 1}, "'swap' needs 2 .* n_colours=1"),
        ({"pairs": 2, "negatives": ["deep"]}, "'deep' needs 3 or more pairs"),
        ({"n_colours": 1, "negatives": ["recolour"]}, "'recolour' needs 1 or more pairs and 2"),
    ],
)
def test_impossible_settings_are_refused_with_their_numbers(settings, message):
    with pytest.raises(ValueError, match=message):
        parentheses(np.random.default_rng(0), **({"n": 4} | settings))


def test_strings_of_several_lengths_can_be_padded():
    data = kind_of("swap", 30, pairs=(2, 6))
    padded = pad(data.sequences, 10)
    assert padded.mask.sum(1).tolist() == list(map(len, data.sequences))
    assert (padded.tokens == 10).sum() == (~padded.mask).sum() > 0


# the copy task


@modest
@given(
    seeds, st.integers(1, 40), st.integers(0, 9), st.integers(2, 7), st.integers(1, 3),
    st.integers(1, 4),
)  # fmt: skip
def test_a_copy_is_asked_for_after_the_delay(seed, n, delay, n_symbols, n_distractors, n_copied):
    task = copy_task(
        np.random.default_rng(seed), n, delay=delay, n_symbols=n_symbols,
        n_distractors=n_distractors, n_copied=n_copied,
    )  # fmt: skip
    length = 2 * n_copied + delay
    assert task.tokens.shape == task.targets.shape == (n, length)
    assert task.tokens.dtype == task.targets.dtype == np.int64
    start, middle, end = np.split(task.tokens, [n_copied, n_copied + delay], axis=1)
    assert np.array_equal(start, task.answers)
    assert (end == task.vocab_size - 1).all()
    assert ((middle >= n_symbols) & (middle < n_symbols + n_distractors)).all()
    assert task.vocab_size == n_symbols + n_distractors + 1
    assert (task.targets[:, :-n_copied] == IGNORE).all()
    assert np.array_equal(task.targets[:, -n_copied:], task.answers)
    for column in task.answers.T:
        counts = np.bincount(column, minlength=n_symbols)
        assert counts.max() - counts.min() <= 1


def test_the_copy_task_is_decided_by_the_seed_and_its_distractors_vary():
    a, b, c = (copy_task(np.random.default_rng(s), 70, delay=5) for s in (1, 1, 2))
    assert np.array_equal(a.tokens, b.tokens)
    assert not np.array_equal(a.tokens, c.tokens)
    assert set(a.tokens[:, 1:-1].ravel()) == {7, 8, 9}
    assert a.answers[:, 0].tolist() != sorted(a.answers[:, 0])
    two = copy_task(np.random.default_rng(1), 70, delay=5, n_copied=2).answers
    assert not np.array_equal(two[:, 0], two[:, 1])


def test_a_copier_gets_every_answer_without_looking_ahead():
    task = copy_task(np.random.default_rng(0), 5, delay=3)

    def model(tokens):
        return np.eye(task.vocab_size)[np.repeat(tokens[:, :1], tokens.shape[1], axis=1)]

    check_causal(model, task.tokens)
    assert np.array_equal(model(task.tokens)[:, -1].argmax(axis=-1), task.targets[:, -1])


@pytest.mark.parametrize(
    "wrong", [{"n": 0}, {"delay": -1}, {"n_symbols": 1}, {"n_distractors": 0}, {"n_copied": 0}]
)
def test_an_impossible_copy_task_is_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"{name} must be at least .*, got {value}"):
        copy_task(np.random.default_rng(0), **({"n": 3, "delay": 2} | wrong))


# tagging


@pytest.fixture(scope="module")
def language() -> list:
    return list(tagging.all_sentences())


@pytest.fixture(scope="module")
def parts() -> tuple[tagging.Tagged, tagging.Tagged]:
    return tagging.split(np.random.default_rng(0), 1500, 300)


def tagged(data: tagging.Tagged) -> list:
    """As in `language`: sentences of (word, tag)."""
    texts = (data.text(i).split() for i in range(len(data)))
    return [tuple(tuple(pair.split("/")) for pair in text) for text in texts]


UNIVERSAL = set(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)


def test_the_tags_are_universal_ones_and_each_occurs(language):
    assert set(tagging.TAGS) <= UNIVERSAL
    assert list(tagging.TAGS) == sorted({tag for s in language for _, tag in s})


def test_every_sentence_of_the_grammar_has_one_tagging(language):
    assert len(language) == len(set(language)) == 77_936
    assert len({tuple(word for word, _ in s) for s in language}) == 77_936


def test_ambiguous_words_are_those_with_several_tags_in_the_language(language):
    tags: dict[str, set[str]] = {}
    for word, tag in {pair for s in language for pair in s}:
        tags.setdefault(word, set()).add(tag)
    assert tuple(sorted(tags)) == tagging.VOCAB
    several = {word: tuple(sorted(t)) for word, t in tags.items() if len(t) > 1}
    assert (len(tagging.VOCAB), len(several)) == (74, 22)
    assert several["light"] == ("ADJ", "NOUN", "VERB")


def test_time_and_love_at_the_start_are_settled_by_what_comes_after(language):
    first = {s[0] for s in language}
    words = Counter(word for word, _ in first)
    assert {word for word, n in words.items() if n > 1} == {"time", "love"}


def test_an_article_fits_what_follows(language):
    for sentence in language:
        for (word, _), (after, _) in pairwise(sentence):
            assert word not in ("a", "an") or (word == "an") == (after[0] in "aeiou")


def test_the_parts_are_of_the_grammar_and_share_no_sentence(parts, language):
    train, held_out = map(tagged, parts)
    assert (len(train), len(held_out)) == (1500, 300) == (len(set(train)), len(set(held_out)))
    assert set(train).isdisjoint(held_out)
    assert set(train) | set(held_out) <= set(language)
    assert (set(train) | set(held_out)).isdisjoint(tagged(tagging.lecture()))
    for data in parts:
        assert all(a.dtype == np.int64 for a in data.sentences + data.tags)


def test_the_lecture_s_sentences_stay_out_even_when_most_of_the_grammar_is_drawn(language):
    train, _ = tagging.split(np.random.default_rng(3), 20_000, 1)
    assert set(tagged(train)).isdisjoint(tagged(tagging.lecture()))
    assert len(set(language) & set(tagged(tagging.lecture()))) >= 3  # else this would hold anyway


def test_held_out_words_are_known_with_their_tags_but_words_alone_never_do(parts):
    train, held_out = map(tagged, parts)
    counts: dict[str, Counter] = {}
    for word, tag in (pair for s in train for pair in s):
        counts.setdefault(word, Counter())[tag] += 1
    usual = tagging.most_frequent_tags(parts[0])
    assert all(counts[w][usual[w]] == max(counts[w].values()) for w in counts)
    assert set(usual) == set(counts)
    for sentence in held_out:
        assert all(counts[word][tag] for word, tag in sentence)
        assert any(usual[word] != tag for word, tag in sentence)
    assert not all(any(usual[word] != tag for word, tag in s) for s in train)


def test_the_lecture_s_sentences_are_tagged_as_it_says():
    data = tagging.lecture()
    assert data.text(0) == "time/NOUN flies/VERB like/ADP an/DET arrow/NOUN"
    assert data.text(1) == "fruit/NOUN flies/NOUN like/VERB a/DET banana/NOUN"
    assert len(data) == 8
    for i, sentence in enumerate(data.sentences):
        words = [pair.split("/")[0] for pair in data.text(i).split()]
        assert tagging.encode(" ".join(words)).tolist() == sentence.tolist()


def test_words_are_encoded_in_any_case_and_unknown_ones_named():
    assert tagging.encode("Time  FLIES").tolist() == tagging.lecture().sentences[0][:2].tolist()
    assert tagging.encode("").dtype == np.int64
    with pytest.raises(ValueError, match="'cake' is not among the 74 words"):
        tagging.encode("a cake")


def test_the_split_is_decided_by_the_seed():
    def draw(seed):
        return [tagged(part) for part in tagging.split(np.random.default_rng(seed), 300, 20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert str(tagging.lecture()) == "Tagged(8 sentences, 41 words)"


def test_impossible_splits_are_refused():
    for sizes in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match=r"n_\w+ must be at least 1, got 0"):
            tagging.split(np.random.default_rng(0), *sizes)
    with pytest.raises(ValueError, match="no further sentence after 0"):
        tagging.split(np.random.default_rng(0), 1, 5)
