"""Word vectors from counts against plain loops, scipy, sklearn, and cases worked by hand."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics.pairwise import cosine_similarity
from unrolled_book import vectors

V = 7
TEXTS = st.lists(
    hnp.arrays(np.int64, st.integers(0, 13), elements=st.integers(-1, V - 1)), max_size=5
)
TABLES = hnp.arrays(np.int64, (5, 3), elements=st.integers(0, 4))
# The words around cheese, bread, goat and sheep.
LECTURE = np.array([[14, 7, 5, 1], [7, 12, 0, 0], [5, 0, 8, 12], [1, 0, 12, 2]])


def counted(texts, window):
    """Every pair of positions, one after the other."""
    pairs = Counter()
    for text in texts:
        for i, word in enumerate(text):
            for j, context in enumerate(text):
                if i != j and abs(i - j) <= window and word >= 0 and context >= 0:
                    pairs[word, context] += 1
    table = np.zeros((V, V), dtype=np.int64)
    for pair, n in pairs.items():
        table[pair] = n
    return table


def pmi_of(counts, w, c, alpha, k):
    """The definition, one number at a time."""
    smoothed = [sum(column) ** alpha if sum(column) else 0 for column in counts.T.tolist()]
    expected = counts[w].sum() * smoothed[c] / sum(smoothed)
    return log(counts[w, c] / expected) - log(k)


# --- counts -----------------------------------------------------------------------------------


def test_counts_by_hand():
    """a b a c with a window of 2: the two a see each other."""
    counts = vectors.cooccurrences([0, 1, 0, 2], 3, 2).toarray()
    np.testing.assert_array_equal(counts, [[2, 2, 1], [2, 0, 1], [1, 1, 0]])
    assert counts.dtype == np.int64


@given(TEXTS, st.integers(1, 15))
def test_counts_are_those_of_the_plain_loop(texts, window):
    found = vectors.cooccurrences(texts, V, window)
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), counted(texts, window))


def test_no_window_reaches_into_the_next_text():
    texts = [[0, 1], [2, 3]]
    assert vectors.cooccurrences(texts, 4, 3).toarray()[1, 2] == 0
    assert vectors.cooccurrences([0, 1, 2, 3], 4, 3).toarray()[1, 2] == 1


def test_a_word_that_is_not_counted_keeps_its_position():
    assert vectors.cooccurrences([0, -1, 1], 2, 1).nnz == 0
    assert vectors.cooccurrences([0, -1, 1], 2, 2).toarray()[0, 1] == 1


@pytest.mark.parametrize("texts", [[], [[]], np.array([], dtype=int), [3]])
def test_nothing_to_count_gives_an_empty_table(texts):
    assert vectors.cooccurrences(texts, V, 2).shape == (V, V)
    assert vectors.cooccurrences(texts, V, 2).nnz == 0


def test_unusable_texts_are_refused():
    with pytest.raises(ValueError, match="holds the id 7, expected -1 … 6"):
        vectors.cooccurrences([0, 7], V, 1)
    with pytest.raises(ValueError, match="integers with ndim=1, got float64"):
        vectors.cooccurrences(np.ones(3), V, 1)
    with pytest.raises(ValueError, match="window must be at least 1"):
        vectors.cooccurrences([0], V, 0)


# --- mutual information -----------------------------------------------------------------------


def test_pmi_by_hand():
    """#(0, 0) = 2 of 8 pairs, in a row of 2 and a column of 4: twice what chance gives."""
    counts = [[2, 0], [2, 4]]
    table = vectors.pmi(counts, smoothing=1).toarray()
    np.testing.assert_allclose(table, [[log(2), 0], [log(2 / 3), log(4 / 3)]])
    positive = vectors.ppmi(counts, smoothing=1)
    np.testing.assert_allclose(positive.toarray(), [[log(2), 0], [0, log(4 / 3)]])
    assert positive.nnz == 2


@given(TABLES, st.sampled_from([0, 0.5, 0.75, 1]), st.sampled_from([0.5, 1, 5]))
def test_pmi_is_that_of_the_plain_loop(counts, alpha, k):
    found = vectors.pmi(counts, smoothing=alpha, negatives=k).todok()
    positive = vectors.ppmi(counts, smoothing=alpha, negatives=k).toarray()
    assert set(found.keys()) == set(zip(*np.nonzero(counts), strict=True))
    expected = np.zeros(counts.shape)
    for w, c in zip(*np.nonzero(counts), strict=True):
        expected[w, c] = pmi_of(counts, w, c, alpha, k)
        assert found[w, c] == pytest.approx(expected[w, c], abs=1e-12)
    np.testing.assert_allclose(positive, np.maximum(expected, 0), atol=1e-12)


def test_smoothing_lowers_what_rare_contexts_get():
    counts = np.array([[90, 1], [9, 1]])
    plain = vectors.pmi(counts, smoothing=1).toarray()
    smoothed = vectors.pmi(counts, smoothing=0.75).toarray()
    assert (smoothed[:, 1] < plain[:, 1]).all()
    assert (smoothed[:, 0] > plain[:, 0]).all()


def test_counts_that_are_none_are_refused():
    for wrong in ([[1, -1]], [[np.nan, 1]], [[np.inf, 1]]):
        with pytest.raises(ValueError, match="finite and not negative"):
            vectors.pmi(wrong)
    with pytest.raises(ValueError, match="smoothing must be"):
        vectors.pmi(LECTURE, smoothing=1.5)
    with pytest.raises(ValueError, match="negatives must be above 0"):
        vectors.ppmi(LECTURE, negatives=0)


def test_the_given_counts_stay_as_they_are():
    counts = scipy.sparse.csr_array(LECTURE)
    before = counts.toarray()
    vectors.ppmi(counts)
    np.testing.assert_array_equal(counts.toarray(), before)


# --- singular values --------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_svd_is_numpy_s_up_to_signs(power):
    table = np.random.default_rng(0).normal(size=(13, 11))
    u, s, _ = np.linalg.svd(table, full_matrices=False)
    found = vectors.svd_vectors(table, 5, power=power)
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :5] * s[:5] ** power), atol=1e-9)
    assert (found[np.abs(found).argmax(axis=0), np.arange(5)] > 0).all()
    np.testing.assert_array_equal(found, vectors.svd_vectors(table, 5, power=power))


def test_the_usual_power_is_a_half():
    table = np.random.default_rng(0).normal(size=(13, 11))
    np.testing.assert_array_equal(
        vectors.svd_vectors(table, 5), vectors.svd_vectors(table, 5, power=0.5)
    )


def test_full_power_keeps_the_inner_products_of_a_table_of_low_rank():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(11, 3)) @ rng.normal(size=(3, 7))
    found = vectors.svd_vectors(scipy.sparse.csr_array(table), 3, power=1)
    np.testing.assert_allclose(found @ found.T, table @ table.T, atol=1e-9)


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1])
def test_a_row_of_zeros_has_a_vector_of_exact_zeros(power):
    rng = np.random.default_rng(2)
    table = rng.random((307, 211)) * (rng.random((307, 211)) < 0.05)
    table[::3] = 0
    empty = (table == 0).all(axis=1)
    found = vectors.svd_vectors(table, 13, power=power)
    np.testing.assert_array_equal((found == 0).all(axis=1), empty)


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1])
def test_directions_beyond_the_rank_are_zero(power):
    rng = np.random.default_rng(3)
    table = rng.normal(size=(31, 3)) @ rng.normal(size=(3, 17))
    found = vectors.svd_vectors(table, 7, power=power)
    assert (found[:, 3:] == 0).all()
    assert (np.abs(found[:, :3]).max(axis=0) > 1e-3).all()
    np.testing.assert_array_equal(vectors.svd_vectors(0 * table, 7, power=power), np.zeros((31, 7)))


def test_svd_needs_room():
    with pytest.raises(ValueError, match="d must be at least 1 and at most 3"):
        vectors.svd_vectors(LECTURE, 4)


# --- asking vectors ---------------------------------------------------------------------------


def test_the_cosines_of_the_lecture():
    found = vectors.cosines(LECTURE)[np.triu_indices(4, 1)]
    expected = [0.7958, 0.4855, 0.3782, 0.1650, 0.0413, 0.6709]
    np.testing.assert_allclose(found, expected, atol=5e-5)


@given(hnp.arrays(np.float64, (5, 3), elements=st.floats(-9, 9).map(lambda x: round(x, 3))))
def test_cosines_are_sklearn_s(rows):
    np.testing.assert_allclose(
        vectors.cosines(rows, rows[:2]), cosine_similarity(rows, rows[:2]), atol=1e-9
    )


def test_neighbours_come_nearest_first_and_ties_by_id():
    rows = np.array([[1, 0], [2, 0], [0, 3], [1, 1], [5, 0]])
    ids, scores = vectors.neighbours(rows, [1, 0], 3, exclude=[0])
    assert ids.tolist() == [1, 4, 3]
    np.testing.assert_allclose(scores, [1, 1, 0.5**0.5])
    assert vectors.neighbours(rows, [1, 0], 1, exclude=[])[0].tolist() == [0]
    with pytest.raises(ValueError, match="n must be at least 1 and at most 4"):
        vectors.neighbours(rows, [1, 0], 5, exclude=[0, 0])
    with pytest.raises(ValueError, match="exclude holds the id 5"):
        vectors.neighbours(rows, [1, 0], 1, exclude=[5])


def answered(rows, a, b, c, rule, excluded):
    """One question, one word at a time."""
    cos = cosine_similarity(rows)
    best, winner = -np.inf, None
    for x in range(len(rows)):
        if x in excluded:
            continue
        if rule == "add":
            score = cos[x, b] - cos[x, a] + cos[x, c]
        else:
            near = (1 + cos[x]) / 2
            score = near[b] * near[c] / (near[a] + 0.001)
        if score > best:
            best, winner = score, x
    return winner


@pytest.mark.parametrize("rule", ["add", "multiply"])
@pytest.mark.parametrize("exclude", [True, False])
def test_analogies_are_those_of_the_plain_loop(rule, exclude):
    rng = np.random.default_rng(3)
    rows, questions = rng.normal(size=(29, 5)), rng.integers(0, 29, size=(301, 3))
    found = vectors.analogies(rows, questions, exclude_question=exclude, rule=rule)
    expected = [answered(rows, *q, rule, set(q) if exclude else ()) for q in questions]
    np.testing.assert_array_equal(found, expected)


def test_3cosadd_is_the_neighbour_of_the_sum_of_unit_vectors():
    rows = np.random.default_rng(4).normal(size=(19, 3))
    a, b, c = vectors.unit(rows[[2, 3, 5]])
    nearest, _ = vectors.neighbours(rows, b - a + c, 1, exclude=[2, 3, 5])
    assert vectors.analogies(rows, [[2, 3, 5]], exclude_question=True).tolist() == nearest.tolist()


def test_analogies_refuse_what_they_cannot_answer():
    with pytest.raises(ValueError, match=r"shape \(n, 3\), got \(1, 4\)"):
        vectors.analogies(LECTURE, [[0, 1, 2, 3]], exclude_question=True)
    with pytest.raises(ValueError, match="one of add, multiply, got 'times'"):
        vectors.analogies(LECTURE, [[0, 1, 2]], exclude_question=True, rule="times")
    with pytest.raises(ValueError, match="holds the id 4"):
        vectors.analogies(LECTURE, [[0, 1, 4]], exclude_question=True)
    empty = vectors.analogies(LECTURE, np.empty((0, 3), dtype=int), exclude_question=True)
    assert empty.shape == (0,)


def test_the_odd_one_out_is_the_one_that_points_elsewhere():
    rows = np.array([[1.0, 0.1], [9, 0], [0, 1], [1, -0.1]])
    assert vectors.odd_one_out(rows, [0, 1, 2, 3]) == 2
    assert vectors.odd_one_out(rows, [3, 2, 0]) == 2
    for wrong in ([0, 1], [0, 1, 1]):
        with pytest.raises(ValueError, match="three or more different ids"):
            vectors.odd_one_out(rows, wrong)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lengths_neither_overflow_nor_vanish(dtype):
    row = np.array([[3, 0, -4]])
    for size in (60, 6_000) if dtype == np.float16 else (1e-25, 1, 1e30):
        found = vectors.unit((row * size).astype(dtype))
        np.testing.assert_allclose(found, row / 5, rtol=1e-6)
        assert found.dtype == np.promote_types(dtype, np.float32)


def test_a_window_far_beyond_the_text_costs_nothing():
    found = vectors.cooccurrences([[0, 1, 2], [3, 0]], 3_001, 10**9)
    np.testing.assert_array_equal(
        found.toarray(), vectors.cooccurrences([[0, 1, 2], [3, 0]], 3_001, 2).toarray()
    )


def test_no_answer_left_and_no_numbers_are_errors():
    rows = np.eye(3)
    with pytest.raises(ValueError, match="no answer is left among 3 words"):
        vectors.analogies(rows, [[0, 1, 2]], exclude_question=True)
    with pytest.raises(ValueError, match="must be finite"):
        vectors.neighbours(rows * np.nan, rows[0], 1, exclude=[])


def test_zeros_have_no_direction():
    rows = np.array([[0.0, 0], [1, 0]])
    np.testing.assert_array_equal(vectors.cosines(rows), [[0, 0], [0, 1]])
    assert vectors.unit(np.ones(4, dtype=np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match=r"vectors needs numbers \(V, D\), got float64 \(3,\)"):
        vectors.cosines(np.ones(3))
    with pytest.raises(ValueError, match="differ in width"):
        vectors.cosines(rows, np.ones((2, 3)))
