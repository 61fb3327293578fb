"""The copying lines: what they say, that targets follow inputs, and what a copy determines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled_book.tasks import copying
from unrolled_book.tasks.copying import TOKENIZER, as_batch, copy_lines, names, random_names


def test_a_batch_by_hand():
    batch = as_batch(["ab c", "d"])
    assert batch.lines == ("ab c=ab c", "d=d")
    n, space, equal, a, b, c, d = 0, 1, 2, 3, 4, 5, 6
    first = [a, b, space, c]
    assert batch.inputs.tolist() == [
        [n, *first, equal, *first],
        [n, d, equal, d, n, n, n, n, n, n],
    ]
    assert batch.targets.tolist() == [
        [*first, equal, *first, n],
        [d, equal, d, n] + 6 * [IGNORE],
    ]
    assert batch.copied.astype(int).tolist() == [5 * [0] + 5 * [1], [0, 0, 1, 1] + 6 * [0]]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.integers(1, 7), st.integers(1, 4))
def test_what_is_copied_is_what_stood_before(seed, n, n_names):
    rng = np.random.default_rng(seed)
    batch = copy_lines(rng, random_names(rng, 11), n, n_names=n_names)
    assert batch.inputs.shape == batch.targets.shape == batch.copied.shape
    stands = batch.targets != IGNORE
    assert (batch.inputs[:, 1:] == batch.targets[:, :-1])[stands[:, 1:]].all()
    for line, targets, copied in zip(batch.lines, batch.targets, batch.copied, strict=True):
        before, _, after = line.partition("=")
        assert before == after
        assert before.count(" ") == n_names - 1
        assert TOKENIZER.decode(targets[copied]) == before + "\n"
        assert TOKENIZER.decode(targets[(targets != IGNORE) & ~copied]) == before + "="


def test_the_same_seed_gives_the_same_lines_and_the_pool_stays_as_it_was():
    pool = list(names("valid"))
    one, two = (copy_lines(np.random.default_rng(5), pool, 13) for _ in range(2))
    assert one.lines == two.lines
    assert pool == list(names("valid"))
    assert one.lines != copy_lines(np.random.default_rng(6), pool, 13).lines


def test_held_out_names_stand_in_no_line_of_training():
    train, test = set(names("train")), set(names("test"))
    assert len(train) == 27_196
    assert train.isdisjoint(test)
    assert copying.TOKENIZER.vocab_size == 29
    assert max(map(len, train | test)) == 15


def test_random_names_use_every_letter_and_keep_the_lengths():
    strings = random_names(np.random.default_rng(3), 400, length=(2, 5))
    assert {len(s) for s in strings} == {2, 3, 4, 5}
    assert set("".join(strings)) == set(copying.LETTERS)


@pytest.mark.parametrize(
    ("pool", "options", "message"),
    [
        ([], {"n": 3}, "the size of the pool must be at least 1"),
        (["ann"], {"n": 0}, "n must be at least 1, got 0"),
        (["ann"], {"n": 2, "n_names": 0}, "n_names must be at least 1, got 0"),
        (["Ann"], {"n": 2, "n_names": 1}, "got 'Ann'"),
        (["a=b"], {"n": 2, "n_names": 1}, "got 'a=b'"),
    ],
)
def test_impossible_lines_are_refused(pool, options, message):
    with pytest.raises(ValueError, match=message):
        copy_lines(np.random.default_rng(0), pool, **options)
