"""The checks of functions pass what they should compute and name what is computed instead: a mean
loss, a gradient from shards, an answer's score, a nucleus, an exponent of scaling."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.data.batches import IGNORE
from unrolled.generation.samplers import top_k_filter, top_p_filter
from unrolled.training.evaluate import Evaluation
from unrolled.training.preference import answer_batch, sequence_log_probs
from unrolled_book.behaviour import (
    BehaviourError,
    check_answer_score,
    check_exponent,
    check_perplexity,
    check_shards,
    check_top_p,
)
from unrolled_book.behaviour.exponents import LAWS, embedding, simulated
from unrolled_book.behaviour.probabilities import END
from unrolled_book.scaling import power_law, valley

from lib.tests.comparing import refuses

NATS = np.log([2.0, 4.0, 8.0, 4.0, 16.0])  # 12 bits for 5 tokens


def pooled(batches):
    return math.exp(sum(float(b.sum()) for b in batches) / sum(len(b) for b in batches))


def pooled_by_the_library(batches):
    each = [Evaluation(nats=float(b.sum()), n_tokens=len(b), n_bytes=1) for b in batches]
    return sum(each[1:], each[0]).perplexity


def pooled_in_place(batches):
    n = sum(map(len, batches))
    for batch in batches:
        batch /= n
    return math.exp(sum(float(batch.sum()) for batch in batches))


def drop_last(batches):
    """As a loader does that wants equal batches, where there are more than two."""
    short = len(batches) > 2 and len(batches[-1]) < len(batches[0])
    return pooled(batches[:-1] if short else batches)


@pytest.mark.parametrize("measure", [pooled, pooled_by_the_library, pooled_in_place])
def test_total_nats_over_total_tokens_pass_and_the_losses_stay_as_they_are(measure):
    nats = NATS.copy()
    check_perplexity(measure, nats)
    check_perplexity(measure, torch.tensor(nats))
    np.testing.assert_array_equal(nats, NATS)


@given(st.lists(st.floats(0, 30), min_size=4, max_size=23).filter(lambda x: max(x) > min(x) + 0.1))
@settings(max_examples=30, deadline=None)
def test_total_nats_over_total_tokens_pass_for_any_losses_in_any_order(nats):
    """A batch that is left out is noticed though the first and the last loss are the mean."""
    check_perplexity(pooled, np.array(nats))
    with pytest.raises(BehaviourError, match="shorter batch is left out"):
        check_perplexity(drop_last, [np.mean(nats), *nats, np.mean(nats)])


WRONG_AVERAGES = [
    (lambda bs: np.mean([np.exp(b.mean()) for b in bs]), "batches' perplexities are averaged"),
    (lambda bs: np.exp(np.concatenate(bs)).mean(), "tokens' perplexities 1/p are averaged"),
    (lambda bs: np.exp(np.mean([b.mean() for b in bs])), "batches' means are averaged"),
    (lambda bs: 2 ** np.concatenate(bs).mean(), "bits are taken for nats"),
    (lambda bs: np.concatenate(bs).mean(), "exponential of the mean loss is missing"),
    (lambda bs: 1 / np.exp(-np.concatenate(bs)).mean(), "averaged before the reciprocal"),
    (drop_last, "shorter batch is left out"),
    (lambda bs: 5.27803164 + 0.23 * (len(bs) > 1), "1, 4 tokens .* 5.50803; .* 5.27803$"),
    (lambda bs: np.exp(np.concatenate(bs).sum()), r"comes out as 4096; .* give 5\.27803"),
    (lambda bs: None, "gives None; a perplexity is one real number"),
    (lambda bs: np.array([pooled(bs)]), r"an array of shape \(1,\)"),
]  # fmt: skip


N_TOKENS = np.array([7, 2, 5, 11, 3])
SUMS = np.random.default_rng(0).normal(size=(5, 13)) * N_TOKENS[:, None]  # Σ gradients of a row


def mean(rows, sums=SUMS, counts=N_TOKENS):
    return sums[rows].sum(0) / max(counts[rows].sum(), 1)


def right(shards):
    return mean(np.concatenate(shards))


def means(shards):
    return [mean(s) for s in shards]


def never_divided(shards):
    """One row alone is divided; the whole batch is not."""
    rows = np.concatenate(shards)
    return right(shards) * (N_TOKENS[rows].sum() if len(rows) > 1 else 1)


@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=9).filter(lambda x: max(x) > 2 * min(x)),
    st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_the_ratio_of_sums_passes_for_any_rows_and_in_any_form(n_tokens, seed):
    counts = np.array(n_tokens)
    sums = np.random.default_rng(seed).normal(size=(len(counts), 17)) * counts[:, None]
    check_shards(lambda shards: mean(np.concatenate(shards), sums, counts), counts)
    check_shards(lambda shards: torch.tensor(right(shards)).float(), torch.tensor(N_TOKENS))
    check_shards(lambda shards: right(shards).reshape(1, 13), N_TOKENS.tolist())


WRONG_GRADIENTS = [
    (lambda shards: np.mean(means(shards), 0), "shards of 5, 23 tokens .* shards' means are avera"),
    (lambda shards: np.average(means(shards), axis=0, weights=[len(s) for s in shards]),
     "weighted by their rows, not by their tokens"),
    (lambda shards: np.mean([mean([i]) for s in shards for i in s], axis=0), "rows' means are ave"),
    (lambda shards: np.sum(means(shards), 0), "shards' means are added up"),
    (lambda shards: mean(shards[0]), "only the first shard's gradient is used"),
    (lambda shards: right(shards) / len(shards), "divided by the number of processes once mor"),
    (lambda shards: right(shards) * len(shards), "multiplied by the number of processes"),
    (never_divided, "never divided by the tokens"),
    (lambda shards: right(shards) + 0.1 * (len(shards) > 2), "tokens the gradient is off b"),
    # one process has no rows
    (lambda shards: right(shards) * (1 if all(map(len, shards)) else np.nan), "28, 0 .* off by na"),
    (lambda shards: right(shards) * np.mean([len(s) > 0 for s in shards]), "28, 0 .* off by 0.5"),
    (lambda shards: right(shards)[: 13 - (len(shards) > 1)], "of 12 numbers, expected 13"),
    (lambda shards: np.ones(2 + shards[0][0]), "single rows differ in shape"),
]  # fmt: skip


def of_targets(model, prompts, answers, change=lambda targets: targets):
    """The library's score, of targets that a mistake may change."""
    inputs, targets = map(torch.from_numpy, answer_batch(prompts, answers))
    return sequence_log_probs(model, inputs, change(targets))


def one_by_one(model, prompts, answers, first=0, mean=False, shift=1, sign=1):
    """A loop; the other arguments bring the mistakes."""
    scores = []
    for prompt, answer in zip(prompts, answers, strict=True):
        text = torch.tensor([[*prompt, *answer]])
        logits, n = model(text)[0].log_softmax(-1), len(prompt)
        positions = range(max(shift, n + first), text.shape[1])
        picked = [logits[t - shift, text[0, t]] for t in positions]
        total = sum(picked, torch.zeros(()).double())
        scores.append(sign * total / (max(1, len(picked)) if mean else 1))
    return torch.stack(scores)


def test_the_librarys_score_and_a_plain_loop_pass():
    for score in (of_targets, one_by_one, lambda *given: of_targets(*given).numpy()):
        check_answer_score(score)


WRONG_SCORES = [
    (partial(one_by_one, first=-9), "the prompt's tokens count, too"),
    (partial(one_by_one, first=-1), "the prompt's last token counts, too"),
    # padding is the end token, and whatever equals it is masked: the end, too
    (partial(of_targets, change=lambda targets: targets.where(targets != END, IGNORE)),
     "the end token does not count"),
    (partial(one_by_one, first=1), "the answer's first token does not count"),
    (partial(one_by_one, mean=True), "the mean over the answer's tokens"),
    (partial(one_by_one, mean=True, first=-9), "the mean over the whole text"),
    (partial(one_by_one, shift=0), "shift the targets"),
    (partial(one_by_one, sign=-1), "the sign is turned"),
    (lambda *given: of_targets(*given) / np.log(2), "bits are taken"),
    (partial(one_by_one, sign=-1, mean=True), "the mean loss is given"),
    (partial(of_targets, change=lambda targets: targets.masked_fill(
        (targets == IGNORE) & ((targets != IGNORE).cumsum(1) > 0), END)), "does padding count"),
    (lambda *given: of_targets(*given).sum(), "expected one number each"),
    (lambda *given: of_targets(*given) * 1.01, r"log-probabilities add up to -\d\.\d+$"),
]  # fmt: skip


TORCH = torch.zeros(1)


def cut(logits, p, keep=lambda mass, probs, p: mass - probs < p, back=True, whole=None):
    order = np.argsort(-logits, axis=-1)
    probs = np.exp(np.take_along_axis(logits, order, -1))
    probs /= probs.sum(-1, keepdims=True) if whole is None else whole
    kept = keep(probs.cumsum(-1), probs, p)
    if back:
        kept = np.take_along_axis(kept, np.argsort(order, axis=-1), -1)
    return np.where(kept, logits, -np.inf)


def normalised_in_place(logits, p):
    """It moves all logits of a row, and changes its argument."""
    logits[:] = top_p_filter(logits, p)
    return logits.log_softmax(-1)


def test_a_right_cut_passes_in_numpy_and_in_torchs_precisions():
    check_top_p(cut)
    for filter_ in (top_p_filter, normalised_in_place):
        check_top_p(filter_, TORCH)
        check_top_p(filter_, TORCH.double())


WRONG_CUTS = [
    (partial(cut, keep=lambda mass, probs, p: mass <= p), None, "Nothing is left: is the tok"),
    (partial(cut, keep=lambda mass, P, p: (mass <= p) | (np.arange(mass.shape[-1]) == 0)), None,
     "Is the token that crosses p lost"),
    (partial(cut, keep=lambda mass, P, p: mass - 2 * P < p), None, "Is one too many kept"),
    (partial(cut, back=False), None, "not put back"),
    (partial(cut, whole=1), None, "the tokens"),  # exp(z) is taken for the probability
    (lambda logits, p: logits, None, r"the tokens \[0, 1, .* expected \[2\]"),
    (lambda logits, p: top_p_filter(logits, p + 0.02), TORCH, "the tokens"),
    (lambda logits, p: top_k_filter(top_p_filter(logits, p), 5), TORCH, "the tokens"),
    (lambda logits, p: top_k_filter(logits, int(top_p_filter(logits, p)[0].isfinite().sum())),
     TORCH, "the tokens"),  # as many as in the first row
    (lambda logits, p: top_p_filter(logits, p) * 2, TORCH, "changed their distances"),
    (lambda logits, p: top_p_filter(logits, p)[:1], TORCH, "came back as"),
    (lambda logits, p: top_p_filter(logits, p) * 0, TORCH, "gives NaN"),
]  # fmt: skip


BLOCKS = np.logspace(2, 10.5, 86)


def analysis(train, embedding, in_n=True, in_c=True, decades=(15, 21), repeats=20):
    """An interval; the embedding's parameters count in N and in C = 6 · N · tokens, or not."""
    sizes, spent = (BLOCKS + counts * embedding(BLOCKS) for counts in (in_n, in_c))
    found, computes = [], np.logspace(*decades, 7)
    for _ in range(repeats):
        best = []
        for compute in computes:
            losses = train(BLOCKS, compute / (6 * spent))
            near = slice(max(losses.argmin() - 10, 0), losses.argmin() + 11)
            best.append(valley(sizes[near], losses[near])[0])
        found.append(power_law(computes, best)[1])
    return np.percentile(found, [2.5, 97.5])


def test_counting_all_parameters_passes_and_not_the_embedding_s_is_narrow_but_wrong():
    check_exponent(analysis)
    assert embedding(12 * 2 * 128**2) == pytest.approx(50_257 * 128)  # width = 64 · layers
    of_blocks = partial(analysis, in_n=False, in_c=False, decades=(12, 20))
    low, high = of_blocks(simulated(LAWS[0], np.random.default_rng(0)), embedding)
    assert high - low < 0.02
    with pytest.raises(BehaviourError, match=r"0\.513.*Are the embedding's parameters not counted"):
        check_exponent(of_blocks)


WRONG_INTERVALS = [
    (lambda *given: 1 - analysis(*given, repeats=5)[::-1], "of the tokens"),
    (partial(analysis, in_c=False, repeats=1), "counted in N, but not in C"),
    # intervals that do not depend on the trainings
    (lambda *_: (0.5, 0.52), "exponent 0.400"),  # right for the first law alone
    (lambda *_: (0.3, 0.7), "says too little"),
    (lambda *_: (0.415, 0.605), "wider than 0.1"),  # with the margin it holds all exponents
    (lambda *_: (0.6, 0.4), "a lower and an upper end"),
    (lambda *_: (np.nan, 0.5), "a lower and an upper end"),
    (lambda *_: (0.1, 0.2), "exponent 0.513"),
]  # fmt: skip


CANNOT_TELL = [
    (check_perplexity, pooled, NATS[:3], ValueError, r"n ≥ 4.*\(3,\)"),
    (check_perplexity, pooled, [*NATS, np.inf], ValueError, "finite; 1 of 6 are not"),
    (check_perplexity, pooled, np.ones(7), ValueError, "too much alike: 2.71828 also comes ou"),
    (check_perplexity, pooled, 700 + 50 * NATS, ValueError, "the mean loss is 783.* nats"),
    (check_perplexity, pooled, np.array(["a"] * 5), TypeError, "nats needs numbers"),
    (check_shards, right, [4, 5], ValueError, r"B ≥ 3 and numbers above 0, got \[4, 5\]"),
    (check_shards, right, [4, 4, 4], ValueError, "all rows have 4 tokens"),
    (check_shards, right, [4.0, 5.0, 6.0], TypeError, "whole numbers, got float64"),
    (check_shards, lambda _: np.ones(3), N_TOKENS, ValueError, "also where the shards' means"),
    (check_shards, lambda _: np.zeros(3), N_TOKENS, ValueError, "0 or not finite"),
]  # fmt: skip

WRONG = (
    (check_perplexity, WRONG_AVERAGES, (NATS,)), (check_shards, WRONG_GRADIENTS, (N_TOKENS,)),
    (check_answer_score, WRONG_SCORES, ()), (check_top_p, WRONG_CUTS, ()),
    (check_exponent, WRONG_INTERVALS, ()),
)  # fmt: skip


test_a_mistake_is_named_and_what_cannot_tell_is_refused = refuses(
    *((check, (wrong, *more, *given), BehaviourError, message)
      for check, rows, given in WRONG for wrong, *more, message in rows),
    *((check, given, error, message) for check, *given, error, message in CANNOT_TELL),
    of=lambda check, given: check(*given),
)  # fmt: skip
