"""Word vectors from counts, and what is asked of word vectors (chapter 5).

Counts: windowed co-occurrences → positive pointwise mutual information → truncated SVD. The vectors
that predict are in `skipgram`. Words are their ids, 0 … V − 1; vectors are the rows of (V, D).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import svds
from unrolled.data.tokens import as_ids
from unrolled.validate import array, checked, one_of, real, whole

Floats = NDArray[np.floating]


@checked
def cooccurrences(
    texts: ArrayLike | Sequence[ArrayLike], vocab_size: int, window: int
) -> scipy.sparse.csr_array:
    """How often each word stands at most `window` positions away from each other word.

    #(w, c) = number of pairs of positions i ≠ j in one text with |i − j| ≤ window, token w at i and
    c at j. The matrix is symmetric; two equal tokens in one window count twice, once from each.

    Args:
        texts: ids (n,), or several texts of ids; no window reaches from one text into the next. The
            id −1 marks a word that is not counted but keeps its position.
        vocab_size: V.

    Returns:
        (V, V) int64, sparse.
    """
    V, window = whole("vocab_size", vocab_size), whole("window", window)
    parts = _texts(texts, V)
    window = min(window, max(map(len, parts), default=1) - 1)  # no pair is farther apart
    ids = _joined(parts, window)
    counts = scipy.sparse.csr_array((V, V), dtype=np.int64)
    for distance in range(1, window + 1):
        left, right = ids[:-distance], ids[distance:]
        both = (left >= 0) & (right >= 0)
        at = (left[both], right[both])
        ones = np.ones(both.sum(), dtype=np.int64)
        counts = counts + scipy.sparse.coo_array((ones, at), shape=(V, V)).tocsr()
    return (counts + counts.T).tocsr()


def _texts(texts: ArrayLike | Sequence[ArrayLike], vocab_size: int) -> list[NDArray]:
    """The texts that are not empty, each as checked ids (n,)."""
    single = isinstance(texts, np.ndarray) or (len(texts) > 0 and np.ndim(texts[0]) == 0)
    arrays = map(np.asarray, [texts] if single else texts)
    return [as_ids(text, -1, vocab_size, "texts", 1) for text in arrays if text.size]


def _joined(texts: list[NDArray], window: int) -> NDArray:
    """One array of ids, with `window` gaps (−1) before and after each text."""
    gap = np.full(window, -1, dtype=np.int64)
    return np.concatenate([gap, *(part for text in texts for part in (text, gap))])


@checked
def pmi(
    counts: ArrayLike | scipy.sparse.sparray, *, smoothing: float = 0.75, negatives: float = 1
) -> scipy.sparse.csr_array:
    """Pointwise mutual information of the pairs that occur, shifted by the log of `negatives`.

    PMI(w, c) = ln [#(w, c) / (#(w) · P(c))] − ln k, with #(w) = Σ_c #(w, c) and
    P(c) = #(c)^α / Σ_c′ #(c′)^α, #(c) = Σ_w #(w, c).

    With α = 1 and k = 1 that is ln [P(w, c) / (P(w) P(c))]. Levy, Goldberg and Dagan (2015) take
    α = 3/4 from skip-gram's negative samples, against the high PMI of rare contexts; k is their
    shift, and the k at which skip-gram has its optimum (Levy and Goldberg, 2014).

    Args:
        counts: (V, C), none negative.
        smoothing: α, from 0 to 1.
        negatives: k > 0.

    Returns:
        (V, C) floats in nats. A pair that never occurs is not stored: its PMI is −∞, not 0.
    """
    alpha, k = real("smoothing", smoothing, 0, 1), real("negatives", negatives, above=0)
    if not scipy.sparse.issparse(counts):
        counts = array("counts", counts)
    table = scipy.sparse.coo_array(counts).astype(np.float64)
    table.sum_duplicates()
    if table.ndim != 2:
        raise ValueError(f"counts needs two axes, got shape {table.shape}")
    if (table.data < 0).any() or not np.isfinite(table.data).all():
        raise ValueError("counts must be finite and not negative")
    table.eliminate_zeros()
    of_word, of_context = (np.asarray(table.sum(axis=axis)).ravel() for axis in (1, 0))
    smoothed = np.where(of_context > 0, of_context, 1) ** alpha * (of_context > 0)
    w, c = table.coords
    share = smoothed[c] / smoothed.sum() if len(c) else smoothed[c]
    table.data = np.log(table.data) - np.log(of_word[w]) - np.log(share) - np.log(k)
    return scipy.sparse.csr_array(table)


@checked
def ppmi(
    counts: ArrayLike | scipy.sparse.sparray, *, smoothing: float = 0.75, negatives: float = 1
) -> scipy.sparse.csr_array:
    """Positive PMI, max(0, `pmi`): pairs that occur less than expected, or never, get 0."""
    table = pmi(counts, smoothing=smoothing, negatives=negatives)
    table.data = np.maximum(table.data, 0)
    table.eliminate_zeros()
    return table


@checked
def svd_vectors(
    table: ArrayLike | scipy.sparse.sparray, d: int, *, power: float = 0.5
) -> NDArray[np.float64]:
    """The words' vectors U_d Σ_d^power from the d largest singular values of (V, C).

    U Σ Cᵀ is the matrix of rank d that is nearest to the table. Σ^1 gives the words the inner
    products of the table's rows; Levy, Goldberg and Dagan (2015) found 0 and ½ better on most
    tasks, since Σ^1 lets the first few directions decide the cosines. ½ shares Σ equally between
    words and contexts, which skip-gram treats alike too.

    Args:
        d: from 1 to min(V, C) − 1.

    Returns:
        (V, d), largest singular value first. In each column the entry of largest magnitude is
        positive: the sign of a singular vector is arbitrary. A row of zeros in the table has a
        vector of zeros, and a column beyond the table's rank is zero.
    """
    table = table if scipy.sparse.issparse(table) else array("table", table, 2)
    table = scipy.sparse.csr_array(table, dtype=np.float64)
    if not np.isfinite(table.data).all():
        raise ValueError("table must be finite, and holds NaN or infinity")
    table.eliminate_zeros()
    d, power = whole("d", d, 1, min(table.shape) - 1), real("power", power)
    empty = np.diff(table.indptr) == 0
    if empty.all():
        return np.zeros((len(empty), d))
    # A start vector of its own, or the result would hang on numpy's global state.
    start = np.random.default_rng(0).uniform(0.5, 1, min(table.shape))
    u, s, _ = svds(table, k=d, v0=start)
    order = np.argsort(-s)
    u, s = u[:, order], s[order]
    biggest = u[np.abs(u).argmax(axis=0), np.arange(d)]
    u[empty] = 0  # the solver leaves 1e-15 there, and a cosine would make directions of it
    real_ones = s > s[0] * max(table.shape) * np.finfo(np.float64).eps
    scale = np.where(real_ones, np.where(real_ones, s, 1) ** power, 0)
    return u * np.where(biggest < 0, -1, 1) * scale


@checked
def unit(vectors: ArrayLike) -> Floats:
    """The rows of (…, D), each divided by its length; a row of zeros stays one.

    float16 comes back as float32, and integers as float64.
    """
    vectors = array("vectors", vectors, dtype=None)
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    # In float64: the square of a float16 above 255 is infinite, that of a float32 below 1e-23 is 0.
    length = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    divided = vectors / np.where(length > 0, length, 1)
    return divided.astype(np.promote_types(vectors.dtype, np.float32), copy=False)


@checked
def cosines(vectors: ArrayLike, others: ArrayLike | None = None) -> Floats:
    """The cosine of each row of (V, D) with each row of others (W, D), by default its own: (V, W).

    A row of zeros has cosine 0 with everything.
    """
    vectors = _rows(vectors)
    others = vectors if others is None else _rows(others, "others")
    if others.shape[1] != vectors.shape[1]:
        raise ValueError(f"vectors {vectors.shape} and others {others.shape} differ in width")
    return unit(vectors) @ unit(others).T


@checked
def neighbours(
    vectors: ArrayLike, query: ArrayLike, n: int, *, exclude: Collection[int]
) -> tuple[NDArray[np.int64], Floats]:
    """The n words with the largest cosine to `query` (D,), and their cosines, largest first.

    `exclude` holds the ids that may not be given, such as the word itself. Of equal cosines the
    smaller id comes first.
    """
    vectors, query = _rows(vectors), array("query", query, 1, None)
    banned = as_ids(list(exclude), 0, len(vectors), "exclude", 1)
    n = whole("n", n, 1, len(vectors) - len(np.unique(banned)))
    scores = cosines(vectors, query[None])[:, 0]
    scores[banned] = -np.inf
    ids = np.argsort(-scores, kind="stable")[:n]
    return ids, scores[ids]


@checked
def analogies(
    vectors: ArrayLike,
    questions: ArrayLike,
    *,
    exclude_question: bool,
    rule: str = "add",
    epsilon: float = 0.001,
) -> NDArray[np.int64]:
    """Answer "a is to b as c is to …" for each row (a, b, c) of questions (n, 3), as ids (n,).

    With cosines of unit vectors, the answer x is the word that maximises

        "add"       cos(x, b) − cos(x, a) + cos(x, c)             (3CosAdd; Mikolov et al., 2013)
        "multiply"  cos′(x, b) · cos′(x, c) / (cos′(x, a) + ε)    (3CosMul; Levy and Goldberg, 2014)

    where cos′ = (1 + cos) / 2 is not negative. `exclude_question` says whether a, b and c are
    excluded as answers: published numbers do exclude them, often without saying so.
    """
    one_of("rule", rule, ("add", "multiply"))
    epsilon = real("epsilon", epsilon, above=0)
    directions = unit(_rows(vectors))
    questions = as_ids(questions, 0, len(directions), "questions", 2)
    if questions.shape[1] != 3:
        raise ValueError(f"questions needs shape (n, 3), got {questions.shape}")
    answers = []
    for some in np.array_split(questions, max(1, len(questions) // 256)):
        to_a, to_b, to_c = (directions[some[:, k]] @ directions.T for k in range(3))  # (n, V)
        if rule == "add":
            scores = to_b - to_a + to_c
        else:
            scores = (1 + to_b) / 2 * (1 + to_c) / 2 / ((1 + to_a) / 2 + epsilon)
        if exclude_question:
            np.put_along_axis(scores, some, -np.inf, axis=1)
            if np.isneginf(scores).all(axis=1).any():
                raise ValueError(f"no answer is left among {len(directions)} words")
        answers.append(scores.argmax(axis=1))
    return np.concatenate(answers)


@checked
def odd_one_out(vectors: ArrayLike, words: Sequence[int]) -> int:
    """Which of at least three words fits least: its cosine to the mean direction is smallest."""
    vectors = _rows(vectors)
    words = as_ids(list(words), 0, len(vectors), "words", 1)
    if len(words) < 3 or len(np.unique(words)) < len(words):
        raise ValueError(f"words needs three or more different ids, got {words.tolist()}")
    directions = unit(vectors[words])
    return int(words[(directions @ directions.mean(axis=0)).argmin()])


def _rows(vectors: ArrayLike, name: str = "vectors") -> NDArray:
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype.kind not in "iuf":
        raise ValueError(f"{name} needs numbers (V, D), got {vectors.dtype} {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError(f"{name} must be finite, and hold NaN or infinity")
    return vectors
