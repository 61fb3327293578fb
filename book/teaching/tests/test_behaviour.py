"""Every check passes what is right, in numpy and in torch, and names what is wrong."""

import re
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor
from unrolled.models.ngram import NGram
from unrolled.models.recurrent import Recurrent
from unrolled_book.behaviour import (
    BehaviourError,
    check_batch,
    check_causal,
    check_distribution,
    check_gradient,
    check_padding,
    check_shift,
)

from lib.tests.comparing import refuses

B, T, V = 2, 5, 7
kinds = pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
log_softmax = partial(special.log_softmax, axis=-1)


def with_entry(values, where, entry):
    values = values.copy()
    values[where] = entry
    return values


LOG_PROBS = log_softmax(np.random.default_rng(0).normal(size=(B, T, V)))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1.5e-8), ("float32", 3.5e-4), ("float16", 3.1e-2), ("bfloat16", 8.8e-2)],
)
def test_normalised_rows_pass_in_every_precision_and_are_judged_by_it(dtype, tolerance):
    log_probs = torch.tensor(LOG_PROBS, requires_grad=True).to(getattr(torch, dtype))
    check_distribution(log_probs)
    if dtype != "bfloat16":  # numpy has none
        check_distribution(log_probs.detach().numpy())
    with pytest.raises(BehaviourError, match=f"off by more than {tolerance:.1e}"):
        check_distribution(log_probs + 0.125)
    check_distribution(log_probs + 0.125, tolerance=0.2)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 7), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_a_softmax_of_any_shape_passes_and_one_raised_entry_does_not(seed, shape):
    log_probs = log_softmax(np.random.default_rng(seed).normal(size=shape))
    check_distribution(log_probs)
    log_probs.flat[-1] += 0.01
    with pytest.raises(AssertionError) as caught:
        check_distribution(log_probs)
    assert f"row {tuple(n - 1 for n in shape[:-1])}" in str(caught.value)


TEXT = np.array([[3, 1, 4, 1, 5, 2], [2, 6, 0, 3, 3, 1]])
# 7 begins a text, 8 ends it, 9 is padding
PADDED, NEXT = np.array([[[7, 1, 2, 3], [7, 4, 9, 9]], [[1, 2, 3, 8], [4, 8, 9, 9]]])


@kinds
def test_next_tokens_pass_and_padding_is_not_compared(make):
    check_shift(make(TEXT[0, :-1]), make(TEXT[0, 1:]))
    check_shift(make(TEXT[:, :-1]), make(TEXT[:, 1:]))
    check_shift(make(PADDED), make(NEXT), pad=9)


W, X, Y = np.random.default_rng(4).normal(size=(3, 2)), np.array([0.5, -2.0]), np.eye(3)[2]
GRAD = np.outer(special.softmax(W @ X) - Y, X)  # (ŷ − y)xᵀ


def loss(W):
    return -(Y * log_softmax(W @ X)).sum()


def test_a_right_gradient_passes_in_numpy_torch_and_the_engine():
    def torch_loss(W):
        return nn.functional.cross_entropy(W @ torch.tensor(X), torch.tensor(2))

    def our_loss(W):
        return -ag.sum(Y * ag.log_softmax(W @ X))

    check_gradient(loss, W, GRAD)
    for f, leaf in ((torch_loss, torch.tensor(W, requires_grad=True)), (our_loss, Tensor(W))):
        f(leaf).backward()
        check_gradient(f, leaf, leaf.grad)


@kinds
def test_x_stays_as_it_is_even_when_f_writes_on_it(make):
    def f(x):
        x *= x
        return x.sum()

    x = make(X)
    check_gradient(f, x, 2 * X)
    np.testing.assert_array_equal(x, X)


SQUARES = np.arange(9.0).reshape(3, 3) ** 2


WRONG = [
    (check_distribution, (LOG_PROBS + np.log(2) * (np.arange(10).reshape(B, T, 1) == 8),),
     r"row \(1, 3\) sum to 2, .*1 of 10 rows"),
    (check_distribution, (with_entry(LOG_PROBS, (0, 2, 5), np.nan),), r"row \(0, 2\).*NaN"),
    (check_distribution, (np.full((2, 3), -np.inf),), "sum to 0"),
    (check_distribution, ([[0.0, -np.inf], [0.0, 1000.0]],), r"row \(1,\) sum to inf.*1 of 2"),
    (check_distribution, (np.exp(LOG_PROBS),), "logs are expected"),
    (check_distribution, (log_softmax(LOG_PROBS, axis=1),), "axis 1 are 1: a softmax over the"),
    (check_distribution, (LOG_PROBS + 1,), r"than 1\.5e-08\)$"),  # logits bring no guess
    (check_shift, (TEXT, TEXT), "targets are the inputs"),
    (check_shift, (TEXT[:, 1:], TEXT[:, :-1]), "targets are the previous tokens"),
    (check_shift, (TEXT[:, :-1], with_entry(TEXT[:, 1:], (1, 2), 4)), r"at \(1, 2\) is 4, .* is 3"),
    (check_shift, (PADDED, NEXT), r"at \(1, 1\)"),
    (partial(check_shift, pad=9), (PADDED, with_entry(NEXT, (1, 0), 8)), r"at \(1, 0\)"),
    (check_shift, (TEXT, TEXT[:, 1:]), r"\(2, 6\), targets \(2, 5\)"),
    (check_gradient, (loss, W, -GRAD), "Every entry has the opposite sign"),
    (check_gradient, (loss, W, 3 * GRAD), "Every entry is 3 times what it should be"),
    (check_gradient, (loss, W, 0 * GRAD), "Every entry is 0 times"),
    (check_gradient, (loss, W, with_entry(GRAD, (1, 0), 0.25)), f"is 0.25, .* {GRAD[1, 0]:.6g}$"),
    (check_gradient, (loss, W, with_entry(GRAD, (2, 1), np.nan)), r"\(2, 1\)"),
    (check_gradient, (lambda W: (W * SQUARES).sum(), np.ones((3, 3)), SQUARES.T), "transpose wo"),
    (check_gradient, (ag.sum, Tensor(W), Tensor(W).grad), "has backward been called"),
    *((check_gradient, (lambda b: (b**2).sum(), np.ones(3), np.full(shape, 2.0)),
       rf"has shape {re.escape(str(shape))}, but x has shape \(3,\): .* been broadcast\?")
      for shape in [(3, 1), (1, 3), (3, 3), (1,), ()]),
]  # fmt: skip


TOKENS = np.random.default_rng(1).integers(0, V, (B, T))
TABLE = np.random.default_rng(2).normal(size=(V, V))


def bigram(tokens):
    return log_softmax(TABLE[tokens])


def running_sum(tokens):
    return log_softmax(np.cumsum(TABLE[tokens], axis=1))


def attends(tokens, look_ahead=0):
    x = TABLE[tokens]
    scores = np.where(np.tri(T, k=look_ahead), x @ x.swapaxes(1, 2), -np.inf)
    return log_softmax(special.softmax(scores, axis=-1) @ x)


def sees_its_answer(tokens, out=None):
    return np.multiply(5, np.eye(V)[np.roll(tokens, -1, axis=1)], out=out)


class TorchBigram(nn.Sequential):
    def forward(self, tokens):
        return super().forward(torch.as_tensor(tokens)).log_softmax(-1)


@pytest.mark.parametrize(
    "model",
    [
        bigram, running_sum, attends,
        lambda tokens: np.where(np.eye(V)[tokens] > 0, -np.inf, -np.log(V - 1)),
        NGram.fit([np.random.default_rng(3).integers(0, V, 211)], 3, V, "kneser-ney"),
        TorchBigram(nn.Embedding(V, V), nn.Dropout()).eval(),
    ],
)  # fmt: skip
def test_models_that_read_what_stands_before_pass_and_are_normalised(model):
    check_causal(model, TOKENS)
    check_distribution(model(TOKENS))


LEAKS = [
    (sees_its_answer, "0 changes with token 1; it predicts token 1 and may read .* 0 to 0 "),
    (partial(sees_its_answer, out=np.empty((B, T, V))), "position 0 "),  # one buffer for all
    (lambda t: running_sum(t) + 1e-12 * (np.arange(T) == 3)[:, None] * t[:, 4, None, None],
     "position 3 changes with token 4; it predicts token 4 and may .* 0 to 3 "),
    (partial(attends, look_ahead=1), "position 0 changes with token 1"),
    (TorchBigram(nn.Embedding(V, V), nn.Dropout()), "is dropout still on"),
    (lambda tokens: bigram(tokens).swapaxes(0, 1), r"\(2, 5\) gave outputs \(5, 2, 7\)"),
    (lambda tokens: bigram(tokens) * np.nan, r"output at \(0, 0, 0\) is NaN"),
]  # fmt: skip


@pytest.mark.parametrize("distance", [1, V // 2, V - 1])
def test_a_leak_that_only_one_of_the_three_other_ids_shows_is_found(distance):
    def model(tokens):
        return bigram(tokens) + np.multiply.outer(tokens[:, 4] == V - 1, np.eye(T)[2][:, None])

    with pytest.raises(BehaviourError, match="position 2 changes with token 4"):
        check_causal(model, with_entry(TOKENS, np.s_[:, 4], V - 1 - distance))


N, D, H = 3, 11, 13  # sequences, widths
IDS = np.array([[4, 0, 6, 2, 2], [1, 5, 0, 0, 0], [3, 3, 1, 0, 0]])
REAL = np.arange(T) < np.array([5, 2, 3])[:, None]
EXCHANGED = r"are the two axes exchanged, does the module want \(T, B, D\)\?$"


class Padded(nn.Module):
    """(tokens, mask) → answer(a torch module, embeddings, mask)."""

    def __init__(self, kind, answer, **options):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.module, self.answer = nn.Embedding(V, D), kind(**options), answer

    def forward(self, tokens, mask):
        x = self.embedding(torch.as_tensor(tokens))
        return self.answer(self.module, x, torch.as_tensor(mask))


def packed(m, x, mask):
    sequences = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(m(sequences)[0], batch_first=True)[0]


def average(m, x, mask):
    return m((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def attend(m, x, mask):
    return m(x, x, x, key_padding_mask=~mask)[0]  # torch's True = padding


linear = partial(Padded, partial(nn.Linear, D, H))
lstm = partial(Padded, partial(nn.LSTM, D, H, batch_first=True))
attention = partial(Padded, partial(nn.MultiheadAttention, D, 1, batch_first=True))
minimal = partial(Padded, partial(Recurrent, D, H, "minimal", bidirectional=True))


@pytest.mark.parametrize(
    "model",
    [
        linear(average),
        lstm(lambda m, x, mask: m(x)[0]),  # reads padding after the tokens only
        lstm(lambda m, x, mask: m(x)[0][torch.arange(len(x)), mask.sum(1) - 1]),
        lstm(packed, bidirectional=True),
        minimal(lambda m, x, mask: m(x, mask=mask)[0]),
        attention(lambda *given: attend(*given).where(given[2][..., None], torch.nan)),
    ],
)
def test_what_heeds_its_mask_passes_and_may_say_anything_about_padding(model):
    for dtype in (torch.float32, torch.float64):
        check_padding(deepcopy(model).to(dtype), IDS, REAL)
    check_padding(model, IDS[1:], REAL[1:])  # torch cuts these to the longest


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_sums_over_random_lengths_pass_and_a_token_too_far_does_not(seed, lengths):
    width, rng = max(lengths) + 1, np.random.default_rng(seed)
    tokens, weights = rng.integers(0, V, (len(lengths), width)), 2.0 ** np.arange(V)
    tokens[:, -1], tokens[0, 0] = 0, 1  # two different ids

    def total(tokens, mask):
        return (weights[tokens] * mask).sum(1)

    def too_far(tokens, mask):  # takes the token behind the end, too
        return total(tokens, mask | np.roll(mask, 1, axis=1))

    mask = np.arange(width) < np.array(lengths)[:, None]
    check_padding(total, tokens, mask)
    with pytest.raises(BehaviourError, match=r"of sequence 0 .* when other ids stand in the pad"):
        check_padding(too_far, tokens, mask)


OTHER_IDS, COLUMNS = "when other ids stand in the .*", "when 3 columns of padding are added.*"


READS_PADDING = [
    (lstm(lambda m, x, k: m(x)[0][:, -1]), rf"1 \(2 tokens in 5 .*{OTHER_IDS}nothing: .* A state"),
    (lstm(lambda m, x, k: m(x)[0], bidirectional=True), rf"1 .* token 0 {OTHER_IDS}it used\? With"),
    (attention(lambda m, x, k: attend(m, x, ~k)), f"sequence 1 .* {OTHER_IDS}With ~mask it does n"),
    (lstm(lambda m, x, k: m(x * k[..., None])[0][:, -1]), f"sequence 0 .* {COLUMNS}read in the la"),
    (linear(lambda m, x, k: m((x * k[..., None]).mean(1))), COLUMNS + "or padding averaged in"),
    (linear(lambda m, x, k: m(x) + (x * k[..., None]).mean()), f"at token 0 {COLUMNS} or a mean r"),
    (lstm(lambda m, x, k: packed(m, x, k)[:, -1]), "1 .* when it stands .*alone with it: .* colum"),
    (linear(lambda m, x, k: m(x) + len(x)), "1 .* stands alone, .*read other sequences .check_bat"),
    (linear(lambda m, x, k: m(x) + k.all()), "1 .* token 0 when it stands alone, .*Does a backwar"),
    (linear(lambda *given: average(*given) * torch.nan), "of sequence 0 holds NaN"),
    (Padded(nn.Dropout, lambda m, x, k: m(x)), "two calls .* differ: is dropout still on"),
    (lambda t, k: TABLE[t].swapaxes(0, 1), rf"\(5, 3, 7\), expected \(3, …\): {EXCHANGED}"),
    (lambda t, k: TABLE[t].sum(), r"\(3, 5\) gave outputs \(\), expected \(3, …\)$"),
    (lambda t, k: TABLE[t][:, 1:], r"\(3, 4, 7\), and sequence 1 alone, \(1, 2\), gave"),
    # as many classes as columns are no tokens: the last one counts as well
    (lambda t, k: (t * ~k).sum(1, keepdims=True) * (np.arange(T) == T - 1), "1 .* A state is to b"),
    (lambda t, k: np.zeros((*t.shape, t.shape[1])), r"\(3, 5, 5\), .* gave \(1, 2, 2\)"),
]  # fmt: skip


def test_other_ids_may_change_no_bit_and_another_width_what_the_dtype_rounds():
    def model(tokens, mask, leak=0.0, by_width=0.0, dtype=np.float64):
        out = (TABLE[tokens] * mask[..., None]).sum(1) + by_width * mask.shape[1]
        out[:, 0] += leak * (tokens * ~mask).sum(1)
        return out.astype(dtype)

    check_padding(partial(model, by_width=1e-14), IDS, REAL)
    check_padding(partial(model, by_width=1e-5, dtype=np.float32), IDS, REAL)
    for wrong, options, message in (
        ({"leak": 1e-14}, {"tolerance": 1.0}, r"sequence 1 .* when other ids"),
        ({"by_width": 1e-14}, {"tolerance": 1e-15}, "columns of padding are added"),
        ({"by_width": 1e-5}, {}, "columns of padding are added"),
    ):
        with pytest.raises(BehaviourError, match=message):
            check_padding(partial(model, **wrong), IDS, REAL, **options)


@kinds
def test_models_get_copies_in_the_dtype_that_came_of_ids_that_can_be(make):
    """With 211 words, 200 + 105 is 94 modulo 211 and 49 once it has wrapped around at 256."""
    ids, real = np.array([[250, 2, 9], [251, 9, 9]], dtype=np.uint8), np.arange(3) < [[2], [1]]
    tokens, mask, many = make(ids), make(real), make(np.full((1, 3), 200, dtype=np.uint8))
    seen = set()

    def model(*given):
        assert given[0].dtype == tokens.dtype
        seen.update(np.asarray(given[0]).flat)
        for array in given:
            array[:] = 0
        return np.zeros((*given[0].shape, 211))

    check_padding(model, tokens, mask)
    check_batch(model, tokens)
    assert seen == {2, 9, 250, 251}
    seen.clear()
    check_causal(model, many)
    assert seen == {200, 201, (200 + 105) % 211, 199}
    for array, before in ((tokens, ids), (mask, real), (many, [[200] * 3])):
        np.testing.assert_array_equal(array, before)


def of_batch(kind, answer=lambda m, x: m(x)[0], **options):
    """tokens → answer(a torch module, embeddings)."""
    model = Padded(kind, lambda m, x, mask: answer(m, x), **options)
    model.forward = partial(model.forward, mask=0)
    return model


batch_norm, feed_forward = partial(nn.BatchNorm1d, D), partial(nn.Linear, D, H)
wrong_axes = partial(nn.LSTM, D, H)  # without batch_first


@pytest.mark.parametrize(
    "model",
    [
        of_batch(partial(nn.RNN, D, H, batch_first=True, bidirectional=True)),
        of_batch(wrong_axes, lambda m, x: m(x.transpose(0, 1))[1][0][-1]),
        of_batch(batch_norm, lambda m, x: m.eval()(x.mT)),
        of_batch(feed_forward, lambda m, x: m(x).sum((1, 2))),
    ],
)
def test_sequences_that_mind_their_own_business_pass(model):
    for n, dtype in ((17, torch.float32), (2, torch.float64)):
        check_batch(model.to(dtype), np.random.default_rng(n).integers(0, V, (n, T)))


ALONG_TIME = rf"\. Along the batch the model acts as along time: {EXCHANGED}"


READS_OTHERS = [
    (of_batch(wrong_axes), "sequence 1 changes with the tokens of sequence 0" + ALONG_TIME),
    (of_batch(wrong_axes, lambda m, x: m(x)[0][:, -1]), "sequence 1 .*" + ALONG_TIME),
    (of_batch(wrong_axes, bidirectional=True), "sequence 0 .* of sequence 1" + ALONG_TIME),
    (of_batch(wrong_axes, lambda m, x: m(x)[1][0][-1]), rf"\(5, 13\), expected .* {EXCHANGED}"),
    (of_batch(batch_norm, lambda m, x: m(x.mT)), r"0 .* of sequence 1\. Every .* batch norm in tr"),
    (of_batch(feed_forward, lambda m, x: m(x) + x[-1].mean()), "sequence 0 .* of sequence 2$"),
    (lambda t: TABLE[t] + 1e-12 * (np.arange(N) == 1)[:, None, None] * t[2].cumsum()[:, None],
     "sequence 1 changes with the tokens of sequence 2$"),
    (of_batch(feed_forward, lambda m, x: m(x) + torch.arange(len(x))[:, None, None]), "at place 1"),
    (of_batch(feed_forward, lambda m, x: m(x) * torch.nan), r"at \(0, 0, 0\) is NaN"),
    (of_batch(nn.Dropout), "is dropout still on"),
]  # fmt: skip


ONES = np.ones(3)
UNFIT = [
    (check_distribution, (np.zeros(()),), ValueError, "at least one entry"),
    (check_shift, (IDS[:, 0:1],) * 2, ValueError, "T ≥ 2"),
    (check_causal, (bigram, IDS[0]), ValueError, "T ≥ 2"),
    (check_causal, (lambda t: t[..., None], 0 * IDS), ValueError, "nothing can be changed"),
    (check_padding, (max, IDS, REAL * 1), TypeError, "booleans, True where .*, got int64"),
    (check_padding, (max, IDS * 1.0, REAL), TypeError, "tokens need integers, got float64"),
    (check_padding, (max, IDS, REAL[:, :-1]), ValueError, r"shape \(3, 5\), got \(3, 4\)"),
    (check_padding, (max, IDS, REAL | True), ValueError, "no sequence has padding"),
    (check_padding, (max, IDS, REAL[:, ::-1]), ValueError, "1 .* has padding before a token"),
    (check_padding, (max, IDS, REAL & (IDS[:, :1] != 3)), ValueError, "2 .* has no token"),
    (check_padding, (lambda *given: given, IDS, REAL), TypeError, "a tuple: hand over a fu"),
    (check_batch, (max, IDS[:1]), ValueError, r"B ≥ 2, got \(1, 5\)"),
    (check_batch, (max, IDS * 0), ValueError, "all tokens are 0"),
    (check_gradient, (lambda x: None, ONES, ONES), TypeError, "is a `return` missing"),
    (check_gradient, (np.sum, 1e20 * ONES, ONES), ValueError, "lost in rounding"),
    (check_gradient, (np.negative, ONES, ONES), ValueError, r"f\(x\) has shape \(3,\)"),
    (check_gradient, (torch.sum, *[torch.ones(3)] * 2), TypeError, "float64 .* got float32"),
]  # fmt: skip
WRONG += [(check_causal, (model, TOKENS), message) for model, message in LEAKS]
WRONG += [(check_padding, (model, IDS, REAL), message) for model, message in READS_PADDING]
WRONG += [(check_batch, (model, IDS), message) for model, message in READS_OTHERS]


test_a_mistake_is_named_and_what_cannot_be_judged_is_refused = refuses(
    *WRONG, *UNFIT, of=lambda check, given: check(*given), error=BehaviourError
)  # fmt: skip
