"""Skip-gram with negative sampling: loss, gradient, pairs, draws, and small trainings."""

import numpy as np
import torch
from comparing import randomised, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models import skipgram
from unrolled_book import vectors

V, D, B, K = 11, 5, 7, 3
DTYPE = torch.float64


def test_loss_is_that_of_the_equation(device):
    """A negative that is drawn twice counts twice."""
    model = randomised(skipgram.SkipGram(V, D), 1.0).to(device)
    sizes = (B,), (B,), (B, K)
    words, contexts, negatives = (torch.randint(V, size, device=device) for size in sizes)
    negatives[2] = negatives[2, 0]
    total = 0.0
    for i in range(B):
        w = model.word[words[i]]
        total -= torch.sigmoid(w @ model.context[contexts[i]]).log()
        for n in negatives[i]:
            total -= torch.sigmoid(-(w @ model.context[n])).log()
    torch.testing.assert_close(model(words, contexts, negatives), total / B)


@settings(max_examples=40)
@given(st.lists(st.integers(-1, V - 1), max_size=17), st.integers(1, 9))
def test_pairs_are_counted_as_in_the_table(tokens, window):
    tokens = np.array(tokens, dtype=np.int64)
    found = np.zeros((V, V), dtype=np.int64)
    np.add.at(found, tuple(skipgram.pairs(tokens, window).T), 1)
    np.testing.assert_array_equal(found, vectors.cooccurrences(tokens, V, window).toarray())


def test_drawn_windows_prefer_near_contexts():
    """A pair at distance d is kept with probability (window − d + 1) / window."""
    tokens, window = np.arange(30_000), 4
    found = skipgram.pairs(tokens, window, np.random.default_rng(0))
    distance = np.bincount(np.abs(found[:, 0] - found[:, 1])) / 60_000
    np.testing.assert_allclose(distance[1:], [1, 0.75, 0.5, 0.25], atol=0.02)
    earlier = found[:, 1] < found[:, 0]  # the window of a word reaches equally far on both sides
    before, after = (np.bincount(found[side, 0], minlength=30_000) for side in (earlier, ~earlier))
    np.testing.assert_array_equal(before[window:-window], after[window:-window])


def test_subsampling_by_both_rules():
    counts, expected = [0, 1, 99, 900], [1, 1, 0.1**0.5 * (100 / 99) ** 0.5, (1 / 90) ** 0.5]
    np.testing.assert_allclose(skipgram.keep_probability(counts, 0.01), expected)
    program = skipgram.keep_probability(counts, 0.01, rule="program")
    np.testing.assert_allclose(program[3], (1 / 90) ** 0.5 + 1 / 90)


def test_draws_follow_the_distribution_and_skip_what_has_none(device):
    weights = torch.tensor([0.0, 3, 0, 1, 0], device=device, dtype=torch.float64)
    drawn = skipgram.sample(weights.cumsum(0), (200, 200), torch.Generator(device).manual_seed(0))
    share = torch.bincount(drawn.ravel(), minlength=5) / 40_000
    torch.testing.assert_close(share.double(), weights / 4, atol=0.01, rtol=0)
    assert share[0] == share[2] == share[4] == 0


def topics(n):
    """Words 0 and 1 live with 2 and 3, words 5 and 6 with 7 and 8; word 9 is everywhere."""
    rng = np.random.default_rng(0)
    start = 5 * rng.integers(0, 2, n)[:, None]
    return np.concatenate([start + rng.integers(0, 4, (n, 4)), np.full((n, 1), 9)], axis=1).ravel()


def test_words_with_the_same_company_become_neighbours(device):
    choices = skipgram.SkipGramSettings(
        d=5, window=2, threshold=None, n_epochs=4, batch_size=128, lr=0.03
    )
    torch.set_default_dtype(torch.float32)
    model, losses = skipgram.train(topics(500), V, choices, seed=0, device=device)
    assert 0 < losses[-1] < losses[0] < (1 + choices.negatives) * np.log(2)
    found = vectors.cosines(model.word.detach().cpu().numpy())
    assert found[0, 1] > 0.7
    assert found[5, 6] > 0.7
    assert abs(found[0, 5]) < 0.7
    assert model.word.device.type == torch.device(device).type
    assert not model.context[10].any()  # a word that never occurs keeps its start


def test_a_seed_gives_one_result_and_leaves_torch_s_generator_alone():
    choices = {"d": 3, "n_epochs": 1, "threshold": 0.05}
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, losses = skipgram.train(
        topics(50), V, skipgram.SkipGramSettings(**choices, power=1), seed=1
    )
    torch.testing.assert_close(torch.rand(3), expected)
    again, same = skipgram.train(
        topics(50), V, skipgram.SkipGramSettings(**choices, power=1.0), seed=1
    )
    other, _ = skipgram.train(topics(50), V, skipgram.SkipGramSettings(**choices, power=1), seed=2)
    assert losses == same
    torch.testing.assert_close(first.word, again.word, rtol=0, atol=0)
    assert not torch.equal(first.word, other.word)


def asked(*shapes):
    return skipgram.SkipGram(5, 3)(*(torch.zeros(shape, dtype=torch.long) for shape in shapes))


test_what_cannot_be_used_is_refused = refuses(
    (lambda: asked((7,), (1,), (7, 2)), "B ≥ 1, got"),
    (lambda: asked((7,), (7,), (2,)), "B ≥ 1, got"),
    (lambda: asked((0,), (0,), (0, 2)), "B ≥ 1, got"),
    (lambda: skipgram.keep_probability([0, 0], 0.01), "not all zero"),
    (lambda: skipgram.train([3, 3, 3], V, seed=0), "two different words"),
    (lambda: skipgram.train([3, *[-1] * 9, 4], V,
                            skipgram.SkipGramSettings(window=2, threshold=None), seed=0),
     "no pair of words is left"),
    (lambda: skipgram.train([3, 11], V, seed=0), "holds the id 11"),
)  # fmt: skip
