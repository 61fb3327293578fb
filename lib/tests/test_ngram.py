"""n-gram models against nltk, against a slow reference, and against sums done by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
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


# --- worked by hand ------------------------------------------------------------------------------


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
    additive = np.exp(NGram.fit(text, 2, 3, "additive", alpha=0.5).log_probs(np.array([0])))
    np.testing.assert_allclose(additive, [0.5 / 4.5, 2.5 / 4.5, 1.5 / 4.5])
    absolute = np.exp(
        NGram.fit(text, 2, 3, "absolute", discount=0.5).log_probs(np.array([[0], [-1]]))
    )
    unigram = np.array([2.5, 1.5, 0.5]) / 6 + 1.5 / 6 / 3
    np.testing.assert_allclose(absolute[1], unigram)
    np.testing.assert_allclose(absolute[0], np.array([0, 1.5, 0.5]) / 3 + 1 / 3 * unigram)


def test_kneser_ney_trusts_how_many_contexts_a_word_has_not_how_often_it_occurs():
    """ "Francisco" (2) is frequent but follows one word; "glasses" (3) is rarer, after three."""
    text = np.array([0, 2, 0, 2, 0, 2, 0, 2, 1, 3, 4, 3, 5, 3, 0])
    unseen = np.array([3])  # a context that neither has followed
    kneser_ney = NGram.fit(text, 2, 7, "kneser-ney", discount=0.5).log_probs(unseen)
    absolute = NGram.fit(text, 2, 7, "absolute", discount=0.5).log_probs(unseen)
    assert kneser_ney[3] > kneser_ney[2]
    assert absolute[3] < absolute[2]


def test_mle_gives_no_token_any_mass_after_an_unseen_context():
    model = NGram.fit(np.array([0, 1, 2]), order=2, vocab_size=3)
    assert np.all(model.log_probs(np.array([2])) == -np.inf)
    with pytest.raises(ValueError, match=r"context \[2\] was never seen"):
        model.sample(np.random.default_rng(0), 1, prompt=[2])


def test_additive_is_uniform_after_an_unseen_context():
    model = NGram.fit(np.array([0, 1, 2]), 2, 3, "additive", alpha=0.01)
    np.testing.assert_allclose(np.exp(model.log_probs(np.array([2]))), [1 / 3] * 3)


def test_bos_takes_no_share_of_what_additive_smoothing_adds():
    model = NGram.fit([np.array([0, 0, 1])], 2, 4, "additive", alpha=0.5, bos=3)
    probs = np.exp(model.log_probs(np.array([0])))  # 0 and 1 once each; three tokens to predict
    np.testing.assert_allclose(probs, [1.5 / 3.5, 1.5 / 3.5, 0.5 / 3.5, 0])


def test_kneser_ney_falls_back_after_a_context_that_only_begins_the_text():
    model = NGram.fit(np.array([3, 0, 1, 2, 0, 1]), 3, 4, "kneser-ney")
    unigram, after_3 = model.log_probs(np.array([[-1], [3]]))
    np.testing.assert_allclose(after_3, unigram)


# --- oracles -------------------------------------------------------------------------------------


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
def test_mle_equals_nltk(order):
    text, contexts = random_text(order, 211, 5), every_context(5, order - 1)
    theirs = nltk_probs(nltk_fit(MLE(order), text, order, 5), contexts, 5)
    ours = np.exp(NGram.fit(text, order, 5).log_probs(contexts))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("alpha", [1.0, 0.07], ids=["Laplace", "Lidstone"])
def test_additive_equals_nltk(order, alpha):
    """nltk's vocabulary holds one word more, <UNK>, which takes its share: here the id 5."""
    text, contexts = random_text(order, 211, 5), every_context(5, order - 1)
    theirs = nltk_probs(nltk_fit(Lidstone(alpha, order), text, order, 5), contexts, 5)
    ours = np.exp(NGram.fit(text, order, 6, "additive", alpha=alpha).log_probs(contexts))
    np.testing.assert_allclose(ours[:, :5], theirs, atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kneser_ney_equals_nltk_where_the_definitions_coincide(order):
    """They coincide for one discount D above the unigrams, none for the unigrams, on a text
    whose beginning occurs again: then every n-gram below the highest order has a left neighbour.

    They do not coincide (1) for unigrams: ours are discounted too, the freed mass spread evenly;
    (2) where the beginning does not recur (the next test); (3) with padding, which nltk counts
    among the words to be predicted; (4) nltk's D is 0.1 unless given, ours is estimated.
    """
    text, contexts = random_text(order, 211, 5), every_context(5, order - 1)
    text = np.concatenate([text, text[: order - 1]])
    theirs = nltk_fit(KneserNeyInterpolated(order, discount=0.6), text, order, 5)
    discount = (0.0, *[0.6] * (order - 1))
    ours = NGram.fit(text, order, 5, "kneser-ney", discount=discount)
    np.testing.assert_allclose(
        np.exp(ours.log_probs(contexts)), nltk_probs(theirs, contexts, 5), atol=1e-9
    )


def test_kneser_ney_sums_to_one_at_a_beginning_that_never_recurs_where_nltk_does_not():
    text = np.array([0, 1, 2, 0, 3, 1, 3, 0, 2, 2, 1, 0])  # the bigram 0 1 only begins the text
    context = np.array([[4, 0]])  # unseen, so the bigrams after 0 answer
    theirs = nltk_fit(KneserNeyInterpolated(3, discount=0.6), text, 3, 5)
    ours = NGram.fit(text, 3, 5, "kneser-ney", discount=(0.0, 0.6, 0.6))
    assert abs(nltk_probs(theirs, context, 5).sum() - 1) > 0.01
    assert np.exp(ours.log_probs(context)).sum() == pytest.approx(1, abs=1e-12)


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


def test_estimated_discounts_follow_from_the_counts_of_counts():
    text = random_text(1, 3001, 11)
    single = NGram.fit(text, 3, 11, "kneser-ney")
    modified = NGram(single.counts, "kneser-ney", modified=True)
    counts = Counter(zip(text, text[1:], text[2:], strict=False)).values()
    n1, n2, n3, n4 = (sum(c == i for c in counts) for i in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2)
    np.testing.assert_allclose(single.discounts[2], y)
    np.testing.assert_allclose(
        modified.discounts[2], [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    )


def kenlm_discounts(ngrams, order: int):
    """(D₁, D₂, D₃₊) of each order by the rule of lmplz --discount_fallback, in dictionaries.

    It is AdjustCounts' rule but for one thing: lmplz enters the last n-gram of a lower order into
    the counts of counts with its raw count.
    """
    for n in range(1, order + 1):
        raw = Counter(g for g in ngrams if len(g) == n)
        counts = dict(raw)
        if n < order:
            longer = {g for g in ngrams if len(g) == n + 1}
            counts = {g: sum(wider[1:] == g for wider in longer) for g in raw}
        n_of = Counter(counts.values())
        try:
            if 0 in (n_of[1], n_of[2], n_of[3]):
                raise ValueError
            y = n_of[1] / (n_of[1] + 2 * n_of[2])
            found = [j - (j + 1) * y * n_of[j + 1] / n_of[j] for j in (1, 2, 3)]
            if any(d < 0 or d > j for j, d in enumerate(found, start=1)):
                raise ValueError
        except ValueError:
            found = [0.5, 1.0, 1.5]
        yield found


@given(st.lists(st.integers(0, 4), min_size=3, max_size=60), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_modified_discounts_of_small_texts_follow_kenlms_rule(text, order):
    ngrams = [tuple(text[i : i + n]) for n in (1, 2, 3) for i in range(len(text) - n + 1)]
    model = NGram.fit(np.array(text), order, 5, "kneser-ney", modified=True)
    np.testing.assert_allclose(model.discounts, list(kenlm_discounts(ngrams, order)), rtol=1e-12)


def test_without_a_count_of_four_the_last_discount_is_three():
    """Eight tokens occur once, two twice, one three times: Y = 8/12, D₂ = 2 − 3 · 2/3 · 1/2."""
    text = np.array([*range(8), 8, 8, 9, 9, 10, 10, 10])
    model = NGram.fit(text, 1, 11, "kneser-ney", modified=True)
    np.testing.assert_allclose(model.discounts, [[1 - 2 * 2 / 3 * 2 / 8, 1.0, 3.0]])


def test_discounts_of_a_text_too_small_to_estimate_them_fall_back():
    text = np.array([0, 1, 2])
    np.testing.assert_array_equal(NGram.fit(text, 2, 3, "kneser-ney").discounts, 0.5)
    modified = NGram.fit(text, 2, 3, "kneser-ney", modified=True)
    np.testing.assert_array_equal(modified.discounts, [[0.5, 1, 1.5]] * 2)


# --- invariants ----------------------------------------------------------------------------------

texts = st.lists(st.lists(st.integers(0, 4), max_size=40), min_size=1, max_size=5)


@given(texts, st.integers(1, 4), st.sampled_from(list(OPTIONS)), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
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
def test_score_model_call_and_chain_rule_agree(options):
    text = random_text(0, 300, 7)
    model = NGram.fit(text, 3, 7, **options)
    scores = model.score(text)
    contexts = model(np.stack([text[:-1], text[1:]]))  # (2, T, V)
    assert contexts.shape == (2, 299, 7)
    np.testing.assert_array_equal(scores[1:], contexts[0, np.arange(299), text[1:]])
    assert scores[0] == model.log_probs(np.array([], dtype=np.int64))[text[0]]


@pytest.mark.parametrize("ends", [{}, {"bos": 3, "eos": 4}])
def test_a_text_shorter_than_the_order_is_scored(ends):
    text = np.array([0, 1])
    model = NGram.fit([np.array([0, 1, 2]), text], 5, 5, "kneser-ney", **ends)
    assert len(model.score([text])) == 2 + bool(ends)
    np.testing.assert_allclose(model.score([text])[0], model.score([text, text])[0])


def test_scores_of_several_sequences_stand_end_to_end_and_include_eos():
    model = NGram.fit([[0, 1], [2]], 2, 5, "additive", bos=3, eos=4)
    scores = model.score([np.array([0, 1]), np.array([2])])
    np.testing.assert_array_equal(scores, model.score([np.array([0, 1, 4]), np.array([2, 4])]))
    pairs = [(3, 0), (0, 1), (1, 4), (3, 2), (2, 4)]
    np.testing.assert_array_equal(
        scores, model.log_probs(np.array([[a] for a, _ in pairs]), np.array([b for _, b in pairs]))
    )


@all_smoothings
def test_models_may_share_counts_of_a_higher_order(options):
    text = random_text(4, 400, 7)
    counts = NGramCounts(text, 5, 7)
    shared, own = NGram(counts, order=3, **options), NGram.fit(text, 3, 7, **options)
    contexts = every_context(7, 2)
    np.testing.assert_array_equal(shared.log_probs(contexts), own.log_probs(contexts))
    assert shared.n_parameters == own.n_parameters


def test_mle_maximises_the_likelihood_of_its_training_text():
    text = random_text(2, 400, 7)
    counts = NGramCounts(text, 3, 7)
    best = NGram(counts).score(text).mean()
    for options in OPTIONS.values():
        assert NGram(counts, **options).score(text).mean() <= best


def test_parameters_count_every_stored_number():
    model = NGram.fit(np.array([0, 1, 0, 2]), 2, 3)
    assert model.n_parameters == 3 + 1 + 3 + 2  # unigrams, their total, bigrams, two contexts


def test_a_context_with_no_token_in_it_is_not_found():
    counts = NGramCounts(random_text(0, 300, 5), 3, 5)
    rows = counts.context_rows(np.array([[-1, 2], [-1, -1], [1, 2]]))
    assert [list(r >= 0) for r in rows] == [[True] * 3, [True, False, True], [False, False, True]]


def test_unseen_share_counts_running_ngrams():
    counts = NGramCounts(np.array([0, 1, 2, 0, 1]), 2, 4)
    assert counts.unseen_share(np.array([0, 1, 0, 1, 3])) == 2 / 4  # 10 and 13 are new
    assert counts.unseen_share(np.array([0, 1, 0, 1, 3]), n=1) == 1 / 5
    with_bos = NGramCounts([np.array([0, 1])], 2, 4, bos=3)
    assert with_bos.unseen_share([np.array([0, 2])], n=1) == 1 / 2  # bos is not predicted
    with pytest.raises(ValueError, match="n must be at least 1 and at most 2, got 3"):
        counts.unseen_share(np.array([0, 1, 2]), n=3)


# --- sampling ------------------------------------------------------------------------------------


def test_samples_follow_the_probabilities():
    model = NGram.fit(random_text(0, 500, 5), 2, 5, "kneser-ney")
    sample = model.sample(np.random.default_rng(0), 8_000)
    for context in range(5):
        after = sample[1:][sample[:-1] == context]
        seen = np.bincount(after, minlength=5) / len(after)
        spread = np.sqrt(0.25 / len(after))
        probs = np.exp(model.log_probs(np.array([context])))
        np.testing.assert_allclose(seen, probs, atol=4 * spread)


def test_samples_depend_on_the_generator_only():
    model = NGram.fit(random_text(0, 500, 5), 3, 5, "absolute")
    first, again, other = (model.sample(np.random.default_rng(s), 50, [1]) for s in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_sample_ends_with_eos_and_never_holds_bos():
    model = NGram.fit([[0, 1, 2], [2, 1]], 2, 5, "kneser-ney", bos=3, eos=4)
    for seed in range(20):
        sample = model.sample(np.random.default_rng(seed), 500)
        assert 3 not in sample
        assert sample[-1] == 4
        assert 4 not in sample[:-1]


def test_a_high_order_mle_model_copies_its_text():
    text = np.arange(13)
    sample = NGram.fit(text, 3, 13).sample(np.random.default_rng(0), 6, prompt=[4, 5])
    assert sample.tolist() == [6, 7, 8, 9, 10, 11]


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(order=0), "order must be at least 1 and at most 3, got 0"),
        (dict(order=10**9), "order must be at least 1 and at most 3"),
        (dict(vocab_size=0), "vocab_size must be at least 1, got 0"),
        (dict(smoothing="katz"), "mle, additive, absolute, kneser-ney, got 'katz'"),
        (dict(smoothing="mle", alpha=1.0), "alpha goes with"),
        (dict(smoothing="additive", alpha=0.0), "alpha must be above 0"),
        (dict(smoothing="additive", alpha=np.nan), "alpha must be finite"),
        (dict(smoothing="additive", discount=0.5), "discount goes with"),
        (dict(smoothing="absolute", discount=1.5), "at least 0 and at most 1, got 1.5"),
        (dict(smoothing="absolute", discount=np.nan), "discount must be finite"),
        (dict(smoothing="kneser-ney", discount=(0.1, 0.2)), "one number or 3, got 2"),
        (dict(smoothing="absolute", modified=True), "modified=True goes with"),
        (dict(sequences=np.array([0, 1, 3])), "the id 3, expected 0 … 2"),
        (dict(sequences=np.array([0.5])), "sequence 0 must be integers"),
        (dict(sequences=[]), "nothing to count"),
        (dict(sequences=[np.array([], dtype=int)], bos=0), "nothing to count"),
        (dict(sequences=[np.array([0, 1])], bos=1), "sequence 0 holds bos, 1"),
        (dict(bos=7, sequences=[np.array([0, 1])]), "the id 7, expected 0 … 2"),
        (dict(bos=2, eos=2), "cannot both be 2"),
    ],
)
def test_fit_refuses_what_does_not_fit(arguments, message):
    arguments = dict(sequences=np.array([0, 1, 2]), order=3, vocab_size=3) | arguments
    with pytest.raises(ValueError, match=message):
        NGram.fit(**arguments)


@pytest.mark.parametrize("name", ["order", "vocab_size", "bos", "eos"])
@pytest.mark.parametrize("value", [2.0, True, "2"])
def test_fit_refuses_what_is_no_integer_by_name(name, value):
    arguments = dict(sequences=np.array([0, 1, 0]), order=2, vocab_size=3) | {name: value}
    with pytest.raises(TypeError, match=f"{name} must be an integer, got {value!r}"):
        NGram.fit(**arguments)


def test_a_vocabulary_too_large_for_the_keys_is_refused():
    with pytest.raises(ValueError, match="beyond the int64 keys"):
        NGramCounts(np.array([0, 1, 0]), 2, 2**61)
    NGramCounts(np.array([0, 1, 0]), 1, 7)


def test_ids_of_any_integer_type_are_counted_and_scored_alike():
    text = random_text(5, 211, 5)
    expected = NGram.fit(text, 3, 7, "kneser-ney", bos=5, eos=6).score(text)
    for dtype in (np.uint8, np.int32, np.uint64):
        ids = text.astype(dtype)
        model = NGram.fit(ids, 3, 7, "kneser-ney", bos=5, eos=6)
        np.testing.assert_array_equal(model.score(ids), expected)


def test_large_ids_are_concatenated_without_rounding():
    """2⁵³ + 1 is the first whole number that float64 does not have."""
    counts = NGramCounts(np.array([3], dtype=np.uint64), 1, 7, bos=5, eos=6)
    counts.vocab_size = 2**60
    tokens, _ = counts.concatenate(np.array([2**53 + 1], dtype=np.uint64))
    assert tokens.tolist() == [5, 2**53 + 1, 6]


def test_the_model_reads_bytes_like_larger_integers():
    """With 256 tokens the padding, −1, would be the token 255 of an uint8 array."""
    tokens = np.array([[255, 255, 7], [0, 255, 3]], dtype=np.uint8)
    model = NGram.fit(np.array([255, 255, 255, 7, 0, 3], dtype=np.uint8), 3, 256, "kneser-ney")
    np.testing.assert_array_equal(model(tokens), model(tokens.astype(np.int64)))


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ([-1], "context holds the id -1, expected 0 … 2"),
        ([3], "context holds the id 3"),
        ([0.5], "context must be integers with ndim=1, got float64"),
        (np.array([[0], [1]]), r"context must be integers with ndim=1, got int64 \(2, 1\)"),
    ],
)
def test_next_counts_refuses_what_is_no_context(context, message):
    with pytest.raises(ValueError, match=message):
        NGramCounts(np.array([0, 1, 2]), 3, 3).next_counts(context)


@pytest.mark.parametrize(
    ("contexts", "targets", "message"),
    [
        (np.array([[0, 3]]), None, "contexts holds the id 3, expected -1 … 2"),
        (np.array([[0, -1]]), None, "only to the left"),
        (np.array([[0.0, 1.0]]), None, "contexts must be integers"),
        (np.array([[0, 1]]), np.array([0, 1]), r"shape \(1,\), got \(2,\)"),
        (np.array([[0, 1]]), np.array([-1]), "targets holds the id -1, expected 0 … 2"),
        (np.array([[0, 1]]), np.array([1.5]), "targets must be integers, got float64"),
        (np.array(0), None, r"contexts must have shape \(..., m\), got \(\)"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), None, "contexts holds the id 18446"),
    ],
)
def test_log_probs_refuses_what_does_not_fit(contexts, targets, message):
    with pytest.raises(ValueError, match=message):
        NGram.fit(np.array([0, 1, 2]), 3, 3).log_probs(contexts, targets)


@pytest.mark.parametrize(
    ("n_tokens", "error"), [(2.5, TypeError), (-1, ValueError), (np.nan, TypeError)]
)
def test_sample_refuses_what_is_no_number_of_tokens(n_tokens, error):
    with pytest.raises(error, match="n_tokens must be"):
        NGram.fit(np.array([0, 1, 2]), 2, 3, "additive").sample(np.random.default_rng(0), n_tokens)


def test_other_refusals_name_what_was_given():
    model = NGram.fit(np.array([0, 1, 2]), 2, 3)
    with pytest.raises(ValueError, match=r"tokens must be integers with ndim=2, got int64 \(3,\)"):
        model(np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="tokens must be integers with ndim=2, got float64"):
        model(np.array([[0.0, 1.0]]))
    with pytest.raises(ValueError, match="prompt must be integers with ndim=1, got float64"):
        model.sample(np.random.default_rng(0), 3, [1.7])
    with pytest.raises(TypeError, match=r"order must be an integer, got 2\.0"):
        NGram(model.counts, order=2.0)
    with pytest.raises(
        ValueError, match=r"length of a context must be at least 0 and at most 1, got 2"
    ):
        model.counts.next_counts([0, 1])
    with pytest.raises(ValueError, match="at least 1 and at most 2, got 3"):
        NGram(model.counts, order=3)
