"""Parentheses, the copy task and tagging: the data of the chapters on recurrence."""

from collections import Counter
from itertools import pairwise, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled_book.tasks import tagging
from unrolled_book.tasks.parentheses import KINDS, balanced, corrupt, is_balanced
from unrolled_book.tasks.symbols import adversarial, copy_task, parentheses

from lib.tests.comparing import refuses

modest = settings(max_examples=25, deadline=None)
rngs = st.builds(np.random.default_rng, st.integers(0, 2**32 - 1))


def reduces_to_nothing(symbols: tuple[int, ...], n_colours: int) -> bool:
    """An oracle: take away neighbours that match until none is left."""
    for i, (a, b) in enumerate(pairwise(symbols)):
        if a < n_colours and a + b == 2 * n_colours - 1:
            return reduces_to_nothing(symbols[:i] + symbols[i + 2 :], n_colours)
    return not symbols


def depth(symbols, n_colours: int = 5) -> np.ndarray:
    return np.where(np.asarray(symbols) < n_colours, 1, -1).cumsum()


def neighbours_clash(symbols, n_colours: int = 5) -> bool:
    return any(a < n_colours <= b and a + b != 2 * n_colours - 1 for a, b in pairwise(symbols))


def strings(data, label: int) -> list[list[int]]:
    return [s.tolist() for s, y in zip(data.sequences, data.labels, strict=True) if y == label]


def kind_of(kind: str, n: int = 400, **settings):
    return parentheses(np.random.default_rng(11), n, negatives=[kind], **settings)


@pytest.mark.parametrize(("n_colours", "longest"), [(1, 10), (2, 6), (3, 4)])
def test_the_stack_agrees_with_taking_away_matching_neighbours(n_colours, longest):
    """For every string up to a length; and of n pairs' shuffles one in n + 1 is balanced."""
    for length in range(longest + 1):
        every = list(product(range(2 * n_colours), repeat=length))
        right = [s for s in every if is_balanced(s, n_colours)]
        assert right == [s for s in every if reduces_to_nothing(s, n_colours)]
        pairs, half = divmod(length, 2)
        catalan = comb(length, pairs) // (pairs + 1)
        assert len(right) == (0 if half else catalan * n_colours**pairs)


def test_every_shape_and_every_colour_is_equally_likely():
    for pairs, n_colours, different in [(4, 1, 14), (2, 3, 18)]:
        rng = np.random.default_rng(7)
        drawn = balanced(rng, 300 * different, pairs=pairs, n_colours=n_colours)
        counts = Counter(map(tuple, drawn.tolist()))
        assert len(counts) == different
        assert max(abs(n - 300) for n in counts.values()) < 86  # five standard deviations


@pytest.mark.parametrize("kind", KINDS)
@modest
@given(rngs, st.integers(1, 8), st.integers(1, 5))
def test_a_corrupted_string_is_never_balanced_and_as_long(kind, rng, pairs, n_colours):
    drawn = balanced(rng, 3, pairs=pairs, n_colours=n_colours)
    assert (drawn.shape, drawn.dtype) == ((3, 2 * pairs), np.int64)
    assert all(is_balanced(s, n_colours) for s in drawn)
    right = drawn[0]
    before = right.copy()
    wrong = corrupt(rng, right, kind, n_colours)
    assert np.array_equal(right, before)
    if wrong is None:
        assert kind in ("recolour", "swap", "deep")
        return
    assert not is_balanced(wrong, n_colours)
    assert len(wrong) == len(right)
    assert np.array_equal(np.sort(wrong), np.sort(right)) == (kind not in ("unbalance", "recolour"))
    n_changed = (wrong != right).sum()
    assert kind == "shuffle" or n_changed == (1 if kind in ("unbalance", "recolour") else 2)


def test_what_is_enough_for_each_kind():
    """The claims of the module's docstring."""
    wrong = {kind: strings(kind_of(kind, pairs=(3, 12)), 0) for kind in KINDS}
    assert all(depth(s)[-1] != 0 for s in wrong["unbalance"])
    assert all(any(s.count(i) != s.count(9 - i) for i in range(5)) for s in wrong["recolour"])
    for kind in ("recolour", "swap", "deep"):  # depth does not tell
        assert all(depth(s).min() == 0 == depth(s)[-1] for s in wrong[kind])
    assert all(depth(s).min() < 0 for s in wrong["invert"])
    assert not any(neighbours_clash(s) for kind in ("deep", "invert") for s in wrong[kind])
    for pairs, least, most in [(2, 1, 1), (15, 0.77, 0.82)]:
        swapped = strings(kind_of("swap", 3000, pairs=pairs), 0)
        assert least <= np.mean([neighbours_clash(s) for s in swapped]) <= most


def test_corruptions_by_hand():
    """Every string that a corruption can give, or None where it is impossible."""
    for string, kind, n_colours, wrong in [
        ([0, 0, 1, 1], "invert", 1, {(1, 0, 1, 0)}),
        ([0, 1, 0, 1], "invert", 1, {(1, 0, 0, 1), (0, 1, 1, 0)}),
        ([1, 4], "recolour", 3, {(0, 4), (2, 4), (1, 3), (1, 5)}),
        ([0, 1, 2, 3], "swap", 2, {(0, 1, 3, 2)}), ([0, 0, 3, 3], "swap", 2, None),
        ([0, 1, 0, 3, 2, 3], "deep", 2, {(0, 1, 0, 3, 3, 2)}), ([0, 3, 1, 2], "deep", 2, None),
        ([0, 1, 2, 3], "deep", 2, None),
    ]:  # fmt: skip
        rng = np.random.default_rng(0)
        drawn = [corrupt(rng, np.array(string), kind, n_colours) for _ in range(99)]
        assert (set(map(tuple, drawn)) if wrong else drawn[0]) == wrong, (string, kind)


@modest
@given(
    rngs, st.integers(1, 30), st.sets(st.sampled_from(KINDS), min_size=1), st.booleans(),
    st.integers(2, 5), st.integers(3, 5), st.integers(0, 4),
)  # fmt: skip
def test_classes_kinds_and_lengths_are_balanced(rng, half, kinds, coupled, colours, low, more):
    options = {"n_colours": colours, "negatives": sorted(kinds), "coupled": coupled}
    data = parentheses(rng, 2 * half, pairs=(low, low + more), **options)
    assert len(data) == len(data.sequences) == len(data.kinds) == 2 * half
    assert data.labels.dtype == np.int64
    assert data.labels.sum() == half
    for symbols, label, kind in zip(data.sequences, data.labels, data.kinds, strict=True):
        assert is_balanced(symbols, colours) == bool(label) == (kind == "balanced")
        assert low <= len(symbols) / 2 <= low + more
        assert symbols.dtype == np.int64
    dealt = [Counter(data.kinds)[kind] for kind in kinds]
    assert max(dealt) - min(dealt) <= 1
    assert sorted(map(len, strings(data, 0))) == sorted(map(len, strings(data, 1)))


def test_pairs_are_uniform_the_order_is_mixed_and_colours_do_not_give_the_label_away():
    rng = np.random.default_rng(4)
    small = [parentheses(rng, 2, pairs=(2, 6)) for _ in range(500)]
    for sequences in ([s for data in small for s in data.sequences],
                      kind_of("swap", 1000, pairs=(2, 6)).sequences):  # fmt: skip
        counts = Counter(len(s) // 2 for s in sequences)
        assert sorted(counts) == [2, 3, 4, 5, 6]
        assert max(abs(n - 200) for n in counts.values()) < 90  # five deviations, couples
    assert 0.4 < (np.diff(kind_of("swap", 1000).labels) != 0).mean() < 0.6
    assert {len(s) for s in kind_of("swap", 20, pairs=7).sequences} == {14}
    free = kind_of("swap", pairs=(4, 9))  # not coupled
    assert sorted(map(sorted, strings(free, 0))) != sorted(map(sorted, strings(free, 1)))
    for s in kind_of("swap", pairs=2).sequences:  # of right ones a fifth would else have one colour
        assert len(set(s.tolist())) == 4


@modest
@given(rngs, st.integers(1, 5))
def test_adversarial_strings_hold_the_same_symbols_in_both_classes(rng, n_colours):
    data = adversarial(rng, 20, n_colours=n_colours, pairs=(3, 6))
    assert data.labels.sum() == 10
    assert all(is_balanced(s, n_colours) for s in strings(data, 1))
    assert not any(is_balanced(s, n_colours) for s in strings(data, 0))
    assert sorted(map(sorted, strings(data, 0))) == sorted(map(sorted, strings(data, 1)))
    expected = {"balanced", "shuffle", "invert"} | ({"swap", "deep"} if n_colours > 1 else set())
    assert set(data.kinds) == expected


def test_the_seed_decides_the_set_and_another_gives_another():
    for draw in (
        lambda rng: parentheses(rng, 20, negatives=KINDS, pairs=(3, 9)),
        lambda rng: copy_task(rng, 70, delay=5),
        lambda rng: [tagged(part) for part in tagging.split(rng, 300, 20)],
    ):
        first, same, other = (str(draw(np.random.default_rng(seed))) for seed in (5, 5, 6))
        assert first == same != other


test_impossible_settings_and_unknown_symbols_and_words_are_refused = refuses(
    (lambda rng: parentheses(rng, 7), "an even n, got 7"),
    *((lambda rng, given=given: parentheses(rng, 4, **given), message) for given, message in (
        ({"pairs": (5, 4)}, "largest number of pairs must be .* 5, got 4"),
        ({"negatives": ["swap", "flip"]}, "one of unbalance, .* got 'flip'"),
        ({"negatives": []}, r"got \[\]"),
        ({"pairs": (1, 9)}, "'swap' needs 2 or more pairs and 2 or"),
        ({"n_colours": 1}, "'swap' needs 2 .* n_colours=1"),
        ({"pairs": 2, "negatives": ["deep"]}, "'deep' needs 3 or"),
        ({"n_colours": 1, "negatives": ["recolour"]}, "needs 1 .* and 2"))),
    (lambda rng: copy_task(rng, 4, delay=2, n_symbols=1), "n_symbols must be at least 2, got 1"),
    (lambda rng: tagging.split(rng, 1, 4), "no further sentence after 0"),
    (lambda _: is_balanced([0, 10]), "symbol 10 is not in 0 .. 9"),
    (lambda _: is_balanced([-1], 1), "symbol -1 is not in 0 .. 1"),
    (lambda _: tagging.encode("a cake"), "'cake' is not among the 74 words"),
    of=lambda call: call(np.random.default_rng(0)),
)  # fmt: skip


@modest
@given(rngs, st.integers(1, 40), st.integers(0, 9), st.integers(2, 7), *[st.integers(1, 4)] * 2)
def test_a_copy_is_asked_for_after_the_delay(rng, n, delay, n_symbols, n_distractors, n_copied):
    options = {"n_symbols": n_symbols, "n_distractors": n_distractors, "n_copied": n_copied}
    task = copy_task(rng, n, delay=delay, **options)
    assert task.tokens.shape == task.targets.shape == (n, 2 * n_copied + delay)
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


def test_distractors_vary_and_the_answers_of_each_position_are_mixed_by_themselves():
    task = copy_task(np.random.default_rng(1), 70, delay=5, n_copied=2)
    assert set(task.tokens[:, 2:-2].ravel()) == {7, 8, 9}
    assert task.answers[:, 0].tolist() != sorted(task.answers[:, 0])
    assert not np.array_equal(task.answers[:, 0], task.answers[:, 1])


@pytest.fixture(scope="module")
def language() -> list:
    return list(tagging.all_sentences())


def tagged(data: tagging.Tagged) -> list:
    """As in `language`: sentences of (word, tag)."""
    texts = (data.text(i).split() for i in range(len(data)))
    return [tuple(tuple(pair.split("/")) for pair in text) for text in texts]


def test_every_sentence_of_the_grammar_has_one_tagging(language):
    """At its start "time" and "love" are ambiguous, which the later words settle."""
    assert len(language) == len(set(language)) == 77_936
    assert len({tuple(word for word, _ in s) for s in language}) == 77_936
    for sentence in language:
        for (word, _), (after, _) in pairwise(sentence):
            assert word not in ("a", "an") or (word == "an") == (after[0] in "aeiou")
    tags: dict[str, set[str]] = {}
    for word, tag in {pair for s in language for pair in s}:
        tags.setdefault(word, set()).add(tag)
    assert tuple(sorted(tags)) == tagging.VOCAB
    assert list(tagging.TAGS) == sorted(set.union(*tags.values()))
    several = {word: tuple(sorted(t)) for word, t in tags.items() if len(t) > 1}
    assert (len(tagging.VOCAB), len(several)) == (74, 22)
    assert several["light"] == ("ADJ", "NOUN", "VERB")
    words = Counter(word for word, _ in {s[0] for s in language})
    assert {word for word, n in words.items() if n > 1} == {"time", "love"}


def test_the_parts_are_of_the_grammar_and_share_no_sentence(language):
    """Held-out words are known with their tags, but words alone never settle a sentence."""
    parts = tagging.split(np.random.default_rng(0), 1500, 300)
    train, held_out = map(tagged, parts)
    assert (len(train), len(held_out)) == (1500, 300) == (len(set(train)), len(set(held_out)))
    assert set(train).isdisjoint(held_out)
    assert set(train) | set(held_out) <= set(language)
    for data in parts:
        assert all(a.dtype == np.int64 for a in data.sentences + data.tags)
    counts: dict[str, Counter] = {}
    for word, tag in (pair for s in train for pair in s):
        counts.setdefault(word, Counter())[tag] += 1
    usual = tagging.most_frequent_tags(parts[0])
    assert set(usual) == set(counts)
    assert all(counts[w][usual[w]] == max(counts[w].values()) for w in counts)
    for sentence in held_out:
        assert all(counts[word][tag] for word, tag in sentence)
        assert any(usual[word] != tag for word, tag in sentence)
    assert not all(any(usual[word] != tag for word, tag in s) for s in train)


def test_the_lectures_sentences_are_tagged_as_it_says_and_stay_out_of_every_part(language):
    data = tagging.lecture()
    assert str(data) == "Tagged(8 sentences, 41 words)"
    assert data.text(0) == "time/NOUN flies/VERB like/ADP an/DET arrow/NOUN"
    assert data.text(1) == "fruit/NOUN flies/NOUN like/VERB a/DET banana/NOUN"
    for sentence, ids in zip(tagged(data), data.sentences, strict=True):
        assert tagging.encode(" ".join(word for word, _ in sentence)).tolist() == ids.tolist()
    assert tagging.encode("Time  FLIES").tolist() == data.sentences[0][:2].tolist()
    assert tagging.encode("").dtype == np.int64
    train, _ = tagging.split(np.random.default_rng(19), 1000, 1)  # which draws one of them
    assert set(tagged(train)).isdisjoint(tagged(data))
    assert len(set(language) & set(tagged(data))) >= 3  # else this would hold anyway
