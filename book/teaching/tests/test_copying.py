"""The copying lines: what they say, that targets follow inputs, and what a copy determines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled_book.tasks import copying


def test_a_batch_by_hand():
    batch = copying.as_batch(["ab c", "d"])
    assert batch.lines == ("ab c=ab c", "d=d")
    n, space, equal, a, b, c, d = 0, 1, 2, 3, 4, 5, 6
    line, short = [a, b, space, c, equal, a, b, space, c], [d, equal, d]
    assert batch.inputs.tolist() == [[n, *line], [n, *short, *6 * [n]]]
    assert batch.targets.tolist() == [[*line, n], [*short, n, *6 * [IGNORE]]]
    assert batch.copied.astype(int).tolist() == [5 * [0] + 5 * [1], [0, 0, 1, 1] + 6 * [0]]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.integers(1, 7), st.integers(1, 4))
def test_what_is_copied_is_what_stood_before(seed, n, n_names):
    rng = np.random.default_rng(seed)
    batch = copying.copy_lines(rng, copying.random_names(rng, 11), n, n_names=n_names)
    assert batch.inputs.shape == batch.targets.shape == batch.copied.shape
    stands = batch.targets != IGNORE
    assert (batch.inputs[:, 1:] == batch.targets[:, :-1])[stands[:, 1:]].all()
    for line, targets, copied in zip(batch.lines, batch.targets, batch.copied, strict=True):
        before, _, after = line.partition("=")
        assert before == after
        assert before.count(" ") == n_names - 1
        assert copying.TOKENIZER.decode(targets[copied]) == before + "\n"
        assert copying.TOKENIZER.decode(targets[(targets != IGNORE) & ~copied]) == before + "="


def test_the_seed_decides_the_lines_and_held_out_names_stand_in_none_of_training():
    train, valid, test = (set(copying.names(split)) for split in ("train", "valid", "test"))
    pool = sorted(valid)
    rngs = map(np.random.default_rng, (5, 5, 6))
    one, two, other = (copying.copy_lines(rng, pool, 13).lines for rng in rngs)
    assert one == two != other
    assert pool == sorted(valid)  # it stays as it was
    assert len(train) == 27_196
    assert train.isdisjoint(test)
    assert max(map(len, train | test)) == 15
    strings = copying.random_names(np.random.default_rng(3), 400, length=(2, 5))
    assert {len(s) for s in strings} == {2, 3, 4, 5}
    assert set("".join(strings)) == set(copying.LETTERS)


def test_impossible_lines_are_refused():
    for pool, message in (([], "the size of the pool"), (["Ann"], "'Ann'"), (["a=b"], "'a=b'")):
        with pytest.raises(ValueError, match=message):
            copying.copy_lines(np.random.default_rng(0), pool, 2, n_names=1)
