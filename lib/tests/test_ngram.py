"""n-gram models against nltk, against a slow reference, and against sums done by hand."""

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from comparing import refuses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.lm import MLE, KneserNeyInterpolated, Lidstone
from nltk.util import everygrams
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts, _number

COWS = (
    ["corn"] * 4 + ["grass"] * 3 + ["hay"] * 2 + ["if"] + ["which"]  # what followed "cows eat"
)
OPTIONS = {
    "mle": dict(smoothing="mle"),
    "additive": dict(smoothing="additive", alpha=0.3),
    "absolute": dict(smoothing="absolute"),
    "absolute, discount given": dict(smoothing="absolute", discount=0.7),
    "kneser-ney": dict(smoothing="kneser-ney"),
    "kneser-ney, discount given": dict(smoothing="kneser-ney", discount=0.7),
    "kneser-ney, modified": dict(smoothing="kneser-ney", modified=True),
}
all_smoothings = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def random_text(seed: int, n: int, vocab_size: int) -> np.ndarray:
    """A text with frequent and rare tokens."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.3, n) - 1, vocab_size - 1)


def every_context(vocab_size: int, m: int) -> np.ndarray:
    return np.array(list(product(range(vocab_size), repeat=m)), dtype=np.int64)


def test_cows_eat_has_the_textbook_probabilities():
    vocab = ["cows", "eat", *dict.fromkeys(COWS)]
    snippets = [np.array([0, 1, vocab.index(word)]) for word in COWS]
    model = NGram.fit(snippets, order=3, vocab_size=len(vocab))
    probs = np.exp(model.log_probs(np.array([0, 1])))
    expected = {"corn": 4 / 11, "grass": 3 / 11, "hay": 2 / 11, "if": 1 / 11, "which": 1 / 11}
    np.testing.assert_allclose(probs, [expected.get(w, 0) for w in vocab], atol=1e-15)
    assert model.counts.next_counts([0, 1]).tolist() == [0, 0, 4, 3, 2, 1, 1]
    assert model.counts.n_ngrams == (7, 6, 5)


def test_additive_and_absolute_by_hand():
    text = np.array([0, 1, 0, 1, 0, 2])  # after 0: 1 twice, 2 once
    model = NGram.fit([text], 2, 4, "additive", alpha=0.5, bos=3)  # bos takes no share
    additive = np.exp(model.log_probs(np.array([0])))
    np.testing.assert_allclose(additive, [0.5 / 4.5, 2.5 / 4.5, 1.5 / 4.5, 0])
    model = NGram.fit(text, 2, 3, "absolute", discount=0.5)
    absolute = np.exp(model.log_probs(np.array([[0], [-1]])))
    unigram = np.array([2.5, 1.5, 0.5]) / 6 + 1.5 / 6 / 3
    np.testing.assert_allclose(absolute[1], unigram)
    np.testing.assert_allclose(absolute[0], np.array([0, 1.5, 0.5]) / 3 + 1 / 3 * unigram)


def test_kneser_ney_falls_back_after_a_context_that_only_begins_the_text():
    model = NGram.fit(np.array([3, 0, 1, 2, 0, 1]), 3, 4, "kneser-ney")
    unigram, after_3 = model.log_probs(np.array([[-1], [3]]))
    np.testing.assert_allclose(after_3, unigram)


def nltk_probs(model, contexts: np.ndarray, vocab_size: int) -> np.ndarray:
    words = [str(i) for i in range(vocab_size)]
    return np.array(
        [[model.score(w, [str(c) for c in context]) for w in words] for context in contexts]
    )


def nltk_fit(model, text: np.ndarray, order: int, vocab_size: int):
    ngrams = everygrams([str(i) for i in text], max_len=order)
    model.fit([list(ngrams)], vocabulary_text=[str(i) for i in range(vocab_size)])
    return model


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("alpha", [None, 1.0, 0.07], ids=["MLE", "Laplace", "Lidstone"])
def test_mle_and_additive_equal_nltk(order, alpha):
    """nltk's Lidstone holds one word more, <UNK>, which takes its share: here the id 5."""
    text, contexts = random_text(order, 211, 5), every_context(5, order - 1)
    theirs = MLE(order) if alpha is None else Lidstone(alpha, order)
    theirs = nltk_probs(nltk_fit(theirs, text, order, 5), contexts, 5)
    smoothing = "mle" if alpha is None else "additive"
    ours = np.exp(NGram.fit(text, order, 6, smoothing, alpha=alpha).log_probs(contexts))
    np.testing.assert_allclose(ours[:, :5], theirs, atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kneser_ney_equals_nltk_where_the_definitions_coincide(order):
    """They coincide for one discount D above the unigrams, none for the unigrams, on a text
    whose beginning occurs again: then every n-gram below the highest order has a left neighbour.

    They do not coincide (1) for unigrams: ours are discounted too, the freed mass spread evenly;
    (2) where the beginning does not recur: there nltk's do not sum to one; (3) with padding, which
    nltk counts among the words to be predicted; (4) nltk's D is 0.1 unless given.
    """
    text, contexts = random_text(order, 211, 5), every_context(5, order - 1)
    text = np.concatenate([text, text[: order - 1]])
    theirs = nltk_fit(KneserNeyInterpolated(order, discount=0.6), text, order, 5)
    discount = (0.0, *[0.6] * (order - 1))
    ours = NGram.fit(text, order, 5, "kneser-ney", discount=discount)
    np.testing.assert_allclose(
        np.exp(ours.log_probs(contexts)), nltk_probs(theirs, contexts, 5), atol=1e-9
    )


def slow_kneser_ney(sequences, order, vocab_size, discounts, bos):
    """Kneser–Ney from its definition, in dictionaries: p(word, context)."""
    raw, left = Counter(), defaultdict(set)
    for sequence in sequences:
        for end in range(1, len(sequence)):
            for n in range(1, min(order, end + 1) + 1):
                ngram = tuple(sequence[end - n + 1 : end + 1])
                raw[ngram] += 1
                if end - n >= 0:
                    left[ngram].add(sequence[end - n])
    count = {g: c if len(g) == order or g[0] == bos else len(left[g]) for g, c in raw.items()}

    def prob(word, context):
        lower = prob(word, context[1:]) if context else (word != bos) / (vocab_size - 1)
        after = {g[-1]: c for g, c in count.items() if g[:-1] == context}
        if not after:
            return lower
        d = [0.0, *discounts[len(context)]]
        taken = {w: min(c, d[min(c, 3)]) for w, c in after.items()}
        kept = after.get(word, 0) - taken.get(word, 0)
        return (kept + sum(taken.values()) * lower) / sum(after.values())

    return prob


@pytest.mark.parametrize("modified", [False, True])
def test_kneser_ney_with_sentence_ends_equals_the_definition(modified):
    """bos 5 is a context only; the n-grams that begin with it keep their raw counts."""
    text = random_text(3, 307, 5)
    sentences = np.split(text, np.sort(np.random.default_rng(0).choice(300, 23, replace=False)))
    model = NGram.fit(sentences, 3, 7, "kneser-ney", modified=modified, bos=5, eos=6)
    slow = slow_kneser_ney([[5, *s, 6] for s in sentences], 3, 7, model.discounts, bos=5)
    contexts = [(), (5,), (2,), (5, 0), (5, 3), (0, 0), (1, 2), (4, 4), (6, 1)]
    for context in contexts:
        ours = np.exp(model.log_probs(np.array(context, dtype=np.int64)))
        np.testing.assert_allclose(ours, [slow(w, context) for w in range(7)], atol=1e-12)
        assert ours[5] == 0


def defined_discounts(ngrams, order: int):
    """(Y, (D₁, D₂, D₃₊)) of each order in dictionaries, by lmplz --discount_fallback.

    It is AdjustCounts' rule but for one thing: lmplz enters the last n-gram of a lower order into
    the counts of counts with its raw count.
    """
    for n in range(1, order + 1):
        counts = Counter(g for g in ngrams if len(g) == n)
        if n < order:
            longer = {g for g in ngrams if len(g) == n + 1}
            counts = {g: sum(wider[1:] == g for wider in longer) for g in counts}
        n_of = Counter(counts.values())
        y, found = 0.5, [0.5, 1.0, 1.5]
        if n_of[1] and n_of[2]:
            y = n_of[1] / (n_of[1] + 2 * n_of[2])
            if n_of[3]:
                estimated = [j - (j + 1) * y * n_of[j + 1] / n_of[j] for j in (1, 2, 3)]
                found = (
                    estimated if all(0 <= d <= j + 1 for j, d in enumerate(estimated)) else found
                )
        yield y, found


@given(st.lists(st.integers(0, 4), min_size=3, max_size=60), st.integers(1, 3))
@example([0, 1, 2], 2)  # too small to estimate any
@example([0, 0, 0, 0, 1, 1, 1, 2, 2, 3], 1)
@settings(max_examples=100, deadline=None)
def test_estimated_discounts_follow_from_the_counts_of_counts_by_kenlms_rule(text, order):
    ngrams = [tuple(text[i : i + n]) for n in (1, 2, 3) for i in range(len(text) - n + 1)]
    single = NGram.fit(np.array(text), order, 5, "kneser-ney")
    modified = NGram(single.counts, "kneser-ney", modified=True)
    y, expected = zip(*defined_discounts(ngrams, order), strict=True)
    np.testing.assert_allclose(single.discounts, np.outer(y, [1, 1, 1]), rtol=1e-12)
    np.testing.assert_allclose(modified.discounts, expected, rtol=1e-12)


texts = st.lists(st.lists(st.integers(0, 4), max_size=40), min_size=1, max_size=5)


@given(texts, st.integers(1, 4), st.sampled_from(list(OPTIONS)), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_every_distribution_sums_to_one(sequences, order, name, with_ends, data):
    sequences = [*(np.array(s, dtype=np.int64) for s in sequences), np.array([2, 0, 1, 2])]
    ends = dict(bos=5, eos=6) if with_ends else {}
    model = NGram.fit(sequences, order, 7, **OPTIONS[name], **ends)
    context = data.draw(st.lists(st.integers(0, 6), max_size=5))
    probs = np.exp(model.log_probs(np.array(context, dtype=np.int64)))
    assert np.all(probs >= 0)
    unseen = order > 1 and not model.counts.next_counts(context[-order + 1 :]).any() and context
    assert probs.sum() == pytest.approx(0 if name == "mle" and unseen else 1, abs=1e-12)
    if with_ends:
        assert probs[5] == 0


@given(st.lists(st.integers(0, 7) | st.integers(2**56, 2**62), max_size=40))
@settings(max_examples=60, deadline=None)
def test_numbering_keys_equals_numpy_unique(keys):
    keys = np.array(keys, dtype=np.int64)
    expected = np.unique(keys, return_inverse=True, return_counts=True)
    for ours, theirs in zip(_number(keys), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@all_smoothings
def test_contexts_in_a_batch_equal_contexts_one_by_one(options):
    model = NGram.fit(random_text(0, 500, 7), 4, 7, **options)
    rng = np.random.default_rng(1)
    contexts = rng.integers(0, 7, (2, 29, 5))
    for i, length in enumerate(rng.integers(0, 6, 29)):
        contexts[1, i, : 5 - length] = -1
    targets = rng.integers(0, 7, (2, 29))
    batched, scored = model.log_probs(contexts), model.log_probs(contexts, targets)
    assert batched.shape == (2, 29, 7)
    for index in np.ndindex(2, 29):
        alone = model.log_probs(contexts[index][contexts[index] >= 0])
        np.testing.assert_array_equal(batched[index], alone)
        assert scored[index] == alone[targets[index]]


@all_smoothings
def test_score_call_and_counts_of_a_higher_order_agree(options):
    text = random_text(0, 300, 7)
    model = NGram.fit(text, 3, 7, **options)
    counts = NGramCounts(text, 5, 7)
    assert NGram(counts, order=1, **options).order == 1
    shared = NGram(counts, order=3, **options)
    assert shared.n_parameters == model.n_parameters
    scores = model.score(text)
    contexts = shared(np.stack([text[:-1], text[1:]]))  # (2, T, V)
    assert contexts.shape == (2, 299, 7)
    np.testing.assert_array_equal(scores[1:], contexts[0, np.arange(299), text[1:]])
    assert scores[0] == model.log_probs(np.array([], dtype=np.int64))[text[0]]
    assert scores.mean() <= NGram(model.counts).score(text).mean()  # MLE fits its own text best


@pytest.mark.parametrize("order", [2, 5])  # longer than the texts
def test_scores_of_several_sequences_stand_end_to_end_and_include_eos(order):
    model = NGram.fit([[0, 1, 2], [2]], order, 5, "kneser-ney", bos=3, eos=4)
    scores = model.score([np.array([0, 1]), np.array([2])])
    np.testing.assert_array_equal(scores, model.score([np.array([0, 1, 4]), np.array([2, 4])]))
    contexts = np.array([[-1, -1, 3], [-1, 3, 0], [3, 0, 1], [-1, -1, 3], [-1, 3, 2]])
    np.testing.assert_array_equal(scores, model.log_probs(contexts, np.array([0, 1, 4, 2, 4])))
    model = NGram.fit([[0, 1, 2], [2]], 2, 3, "additive", alpha=1.0)  # without ends
    alone = [model.score([text]) for text in ([0, 1], [2, 0])]
    np.testing.assert_array_equal(model.score([[0, 1], [2, 0]]), np.concatenate(alone))


def test_parameters_count_every_stored_number():
    model = NGram.fit(np.array([0, 1, 0, 2]), 2, 3)
    assert model.n_parameters == 3 + 1 + 3 + 2  # unigrams, their total, bigrams, two contexts


def test_unseen_share_counts_running_ngrams():
    counts = NGramCounts(np.array([0, 1, 2, 0, 1]), 2, 4)
    assert counts.unseen_share(np.array([0, 1, 0, 1, 3])) == 2 / 4  # 10 and 13 are new
    assert counts.unseen_share(np.array([0, 1, 0, 1, 3]), n=1) == 1 / 5
    with_bos = NGramCounts([np.array([0, 1])], 2, 4, bos=3)
    assert with_bos.unseen_share([np.array([0, 2])], n=1) == 1 / 2  # bos is not predicted


def test_samples_follow_the_probabilities_and_the_generator_only():
    model = NGram.fit(random_text(0, 500, 5), 2, 5, "kneser-ney")
    sample, again = (model.sample(np.random.default_rng(0), n) for n in (3_000, 50))
    assert np.array_equal(sample[:50], again)
    assert not np.array_equal(again, model.sample(np.random.default_rng(1), 50))
    for context in range(5):
        after = sample[1:][sample[:-1] == context]
        seen = np.bincount(after, minlength=5) / len(after)
        spread = np.sqrt(0.25 / len(after))
        probs = np.exp(model.log_probs(np.array([context])))
        np.testing.assert_allclose(seen, probs, atol=4 * spread)


def test_a_sample_goes_on_from_its_prompt_ends_with_eos_and_never_holds_bos():
    sample = NGram.fit(np.arange(13), 3, 13).sample(np.random.default_rng(0), 6, prompt=[4, 5])
    assert sample.tolist() == [6, 7, 8, 9, 10, 11]
    model = NGram.fit([[0, 1, 2], [2, 1]], 2, 5, "kneser-ney", bos=3, eos=4)
    for seed in range(20):
        sample = model.sample(np.random.default_rng(seed), 500).tolist()
        assert 3 not in sample
        assert sample.index(4) == len(sample) - 1


TEXT = np.array([0, 1, 2])


def fit(**changes):
    return NGram.fit(**dict(sequences=TEXT, order=3, vocab_size=3) | changes)


test_what_does_not_fit_is_refused = refuses(
    *((lambda given=given: fit(**given), message) for given, message in (
        (dict(smoothing="additive", discount=0.5), "discount goes with"),
        (dict(smoothing="kneser-ney", discount=(0.1, 0.2)), "one number or 3, got 2"),
        (dict(smoothing="absolute", modified=True), "modified=True goes with"),
        (dict(sequences=[np.array([], dtype=int)], bos=0), "there is no token"),
        (dict(sequences=[np.array([0, 1])], bos=1), "sequence 0 holds bos, 1"),
        (dict(bos=7, sequences=[np.array([0, 1])]), "the id 7, expected 0 … 2"),
        (dict(bos=2, eos=2), "cannot both be 2"),
        (dict(order=2, vocab_size=2**61), "beyond the int64 keys"))),
    *((lambda given=given: fit().log_probs(*map(np.array, given)), message)
      for given, message in (
        (([[0, 3]],), "contexts holds the id 3, expected -1 … 2"),
        (([[0, -1]],), "only to the left"),
        ((np.array([[0, 2**64 - 1]], np.uint64),), "contexts holds the id 18446"),
        ((0,), r"contexts must have shape \(..., m\), got \(\)"),
        (([[0, 1]], [0, 1]), r"shape \(1,\), got \(2,\)"),
        (([[0, 1]], [-1]), "targets holds the id -1, expected 0 … 2"))),
    (lambda: fit().counts.next_counts(TEXT), "a context must be at least 0 and at most 2"),
    (lambda: fit().counts.ngram_tokens(0), "n must be at least 1 and at most 3, got 0"),
    (lambda: fit().backoff_weights([TEXT]), "a context must be at least 0 and at most 2"),
    (lambda: fit(order=1).backoff_weights([[0]]), "at least 0 and at most 0, got 1"),
    (lambda: fit().counts.unseen_share([]), "there is no token: every sequence is empty"),
    (lambda: fit().sample(np.random.default_rng(0), 1, [2, 2]), r"\[2, 2\] was never seen"),
)  # fmt: skip


@pytest.mark.parametrize("smoothing", ["mle", "kneser-ney"])
def test_no_context_at_all_has_no_answer_and_an_empty_one_has(smoothing):
    model = fit(smoothing=smoothing)
    none = np.zeros((0, 2), dtype=int)
    assert model.log_probs(none).shape == (0, 3)
    assert model.log_probs(none, []).shape == model.backoff_weights(none).shape == (0,)
    assert model(np.zeros((2, 0), dtype=int)).shape == (2, 0, 3)
    one = model.log_probs([])  # the unigrams
    np.testing.assert_array_equal(one, model.log_probs(np.zeros((1, 0), dtype=int))[0])
    np.testing.assert_allclose(np.exp(one).sum(), 1)
    assert model.backoff_weights([[]]).shape == (1,)
    short = NGram.fit([[0], [1], [1]], 3, 3, smoothing)  # no text has a bigram
    assert short.counts.n_ngrams == (2, 0, 0)
    assert not short.counts.next_counts([0]).any()


def test_ids_of_any_integer_type_are_counted_and_scored_alike():
    """With 256 tokens the padding, −1, would be the token 255 of an uint8 array."""
    text = 255 - random_text(5, 211, 5)
    expected = NGram.fit(text, 3, 256, "kneser-ney", bos=5, eos=6)
    for dtype in (np.uint8, np.int32, np.uint64):
        ids = text.astype(dtype)
        model = NGram.fit(ids, 3, 256, "kneser-ney", bos=5, eos=6)
        np.testing.assert_array_equal(model.score(ids), expected.score(text))
        np.testing.assert_array_equal(model(ids[None, :9]), expected(text[None, :9]))


def test_large_ids_are_concatenated_without_rounding():
    """2⁵³ + 1 is the first whole number that float64 does not have."""
    counts = NGramCounts(np.array([3], dtype=np.uint64), 1, 7, bos=5, eos=6)
    counts.vocab_size = 2**60
    tokens, _ = counts.concatenate(np.array([2**53 + 1], dtype=np.uint64))
    assert tokens.tolist() == [5, 2**53 + 1, 6]
