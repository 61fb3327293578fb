"""Word vectors from counts against plain loops, numpy, sklearn, and cases worked by hand."""

from math import log

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics.pairwise import cosine_similarity
from unrolled_book import vectors

from lib.tests.comparing import refuses

V = 7
TEXTS = st.lists(
    hnp.arrays(np.int64, st.integers(0, 13), elements=st.integers(-1, V - 1)), max_size=5
)
TABLES = hnp.arrays(np.int64, (5, 3), elements=st.integers(0, 4))


def test_counts_by_hand():
    """a b a c with a window of 2: the two a see each other. No pair is farther apart than 3."""
    counts = vectors.cooccurrences([0, 1, 0, 2], 3, 2)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts.toarray(), [[2, 2, 1], [2, 0, 1], [1, 1, 0]])
    far, near = (vectors.cooccurrences([[0, 1, 2], [3, 0]], 3_001, w) for w in (10**9, 2))
    np.testing.assert_array_equal(far.toarray(), near.toarray())
    for nothing in ([], [[]], np.array([], dtype=int), [3]):
        assert vectors.cooccurrences(nothing, V, 2).shape == (V, V)
        assert vectors.cooccurrences(nothing, V, 2).nnz == 0


@given(TEXTS, st.integers(1, 15))
def test_counts_are_those_of_the_plain_loop(texts, window):
    """Every pair of positions of one text; −1 is not counted but keeps its position."""
    table = np.zeros((V, V), dtype=np.int64)
    for text in texts:
        for i, word in enumerate(text):
            for j, context in enumerate(text):
                if i != j and abs(i - j) <= window and word >= 0 and context >= 0:
                    table[word, context] += 1
    found = vectors.cooccurrences(texts, V, window)
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), table)


@given(TABLES, st.sampled_from([0, 0.5, 0.75, 1]), st.sampled_from([0.5, 1, 5]))
def test_pmi_is_the_definition_one_number_at_a_time(counts, alpha, k):
    given = scipy.sparse.csr_array(counts)
    found = vectors.pmi(given, smoothing=alpha, negatives=k)
    np.testing.assert_array_equal(given.toarray(), counts)  # they stay as they are
    positive = vectors.ppmi(counts, smoothing=alpha, negatives=k)
    pairs = set(zip(*np.nonzero(counts), strict=True))
    assert set(found.todok().keys()) == pairs
    smoothed = [sum(column) ** alpha if sum(column) else 0 for column in counts.T.tolist()]
    expected = np.zeros(counts.shape)
    for w, c in pairs:
        by_chance = counts[w].sum() * smoothed[c] / sum(smoothed)
        expected[w, c] = log(counts[w, c] / by_chance) - log(k)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(positive.toarray(), np.maximum(expected, 0), atol=1e-12)
    assert positive.nnz == np.count_nonzero(positive.toarray())


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1])
def test_svd_is_numpy_s_up_to_signs_and_leaves_no_dust_in_empty_rows_and_directions(power):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(13, 11))
    u, s, _ = np.linalg.svd(table, full_matrices=False)
    found = vectors.svd_vectors(table, 5, power=power)
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :5] * s[:5] ** power), atol=1e-9)
    assert (found[np.abs(found).argmax(axis=0), np.arange(5)] > 0).all()
    again = vectors.svd_vectors(scipy.sparse.csr_array(table), 5, power=power)
    np.testing.assert_array_equal(found, again)

    table = rng.random((307, 211)) * (rng.random((307, 211)) < 0.05)
    table[::3] = 0
    found = vectors.svd_vectors(table, 13, power=power)
    np.testing.assert_array_equal((found == 0).all(axis=1), (table == 0).all(axis=1))

    table = rng.normal(size=(31, 3)) @ rng.normal(size=(3, 17))  # of rank 3
    found = vectors.svd_vectors(table, 7, power=power)
    assert (found[:, 3:] == 0).all()
    assert (np.abs(found[:, :3]).max(axis=0) > 1e-3).all()
    np.testing.assert_array_equal(vectors.svd_vectors(0 * table, 7, power=power), np.zeros((31, 7)))


@given(hnp.arrays(np.float64, (5, 3), elements=st.floats(-9, 9).map(lambda x: round(x, 3))))
def test_cosines_are_sklearn_s(rows):
    """Among them rows of zeros, which have no direction and cosine 0 with everything."""
    np.testing.assert_allclose(
        vectors.cosines(rows, rows[:2]), cosine_similarity(rows, rows[:2]), atol=1e-9
    )
    assert not vectors.cosines(0 * rows).any()


def test_neighbours_come_nearest_first_ties_by_id_and_the_odd_one_points_elsewhere():
    rows = np.array([[1, 0], [2, 0], [0, 3], [1, 1], [5, 0]])
    ids, scores = vectors.neighbours(rows, [1, 0], 3, exclude=[0])
    assert ids.tolist() == [1, 4, 3]
    np.testing.assert_allclose(scores, [1, 1, 0.5**0.5])
    assert vectors.neighbours(rows, [1, 0], 1, exclude=[])[0].tolist() == [0]
    assert vectors.odd_one_out(rows[:4], [0, 1, 2, 3]) == 2
    assert vectors.odd_one_out(rows, [2, 1, 0]) == 2


@pytest.mark.parametrize("rule", ["add", "multiply"])
@pytest.mark.parametrize("exclude", [True, False])
def test_analogies_are_those_of_the_plain_loop(rule, exclude):
    """So many questions that they are answered in parts."""
    rng = np.random.default_rng(3)
    rows, questions = rng.normal(size=(19, 5)), rng.integers(0, 19, size=(521, 3))
    cos = cosine_similarity(rows)
    near, expected = (1 + cos) / 2, []
    for a, b, c in questions:
        if rule == "add":
            scores = cos[b] - cos[a] + cos[c]
        else:
            scores = near[b] * near[c] / (near[a] + 0.001)
        banned = {a, b, c} if exclude else ()
        expected.append(max(set(range(19)).difference(banned), key=scores.__getitem__))
    found = vectors.analogies(rows, questions, exclude_question=exclude, rule=rule)
    np.testing.assert_array_equal(found, expected)
    none = vectors.analogies(rows, questions[:0], exclude_question=exclude, rule=rule)
    assert none.shape == (0,)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lengths_neither_overflow_nor_vanish(dtype):
    row = np.array([[3, 0, -4]])
    for size in (60, 6_000) if dtype == np.float16 else (1e-25, 1, 1e30):
        found = vectors.unit((row * size).astype(dtype))
        np.testing.assert_allclose(found, row / 5, rtol=1e-6)
        assert found.dtype == np.promote_types(dtype, np.float32)


ROWS = np.eye(4)


test_what_has_no_answer_is_refused = refuses(
    (lambda: vectors.cooccurrences([0, 7], V, 1), "holds the id 7, expected -1 … 6"),
    (lambda: vectors.pmi([[np.inf, 1]]), "finite and not negative"),
    (lambda: vectors.svd_vectors(ROWS, 4), "d must be at least 1 and at most 3"),
    (lambda: vectors.neighbours(ROWS, ROWS[0], 4, exclude=[0, 0]), "at least 1 and at most 3"),
    (lambda: vectors.neighbours(ROWS, ROWS[0], 1, exclude=[5]), "exclude holds the id 5"),
    (lambda: vectors.analogies(ROWS, [[0, 1, 2, 3]], exclude_question=True),
     r"shape \(n, 3\), got \(1, 4\)"),
    (lambda: vectors.analogies(ROWS, [[0, 1, 4]], exclude_question=True), "holds the id 4"),
    (lambda: vectors.analogies(ROWS[:3], [[0, 1, 2]], exclude_question=True),
     "no answer is left among 3 words"),
    (lambda: vectors.odd_one_out(ROWS, [0, 1]), "three or more different ids"),
    (lambda: vectors.odd_one_out(ROWS, [0, 1, 1]), "three or more different ids"),
    (lambda: vectors.cosines(ROWS, ROWS[:, :3]), "differ in width"),
)  # fmt: skip
