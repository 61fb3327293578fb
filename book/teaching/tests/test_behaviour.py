"""Every check passes what is right, in numpy and in torch, and names what is wrong."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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

B, T, V = 2, 5, 7
kinds = pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])


def log_softmax(z, axis=-1):
    z = z - z.max(axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis, keepdims=True))


LOG_PROBS = log_softmax(np.random.default_rng(0).normal(size=(B, T, V)))


def test_a_behaviour_error_is_an_assertion_error():
    assert issubclass(BehaviourError, AssertionError)


# check_distribution


@kinds
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_normalised_rows_pass_in_every_precision(make, dtype):
    assert check_distribution(make(LOG_PROBS.astype(dtype))) is None


def test_bfloat16_and_tensors_with_a_graph_pass():
    logits = torch.tensor(LOG_PROBS, requires_grad=True)
    check_distribution(logits.log_softmax(-1))
    check_distribution(logits.log_softmax(-1).bfloat16(), tolerance=0.02)


def test_bfloat16_is_judged_by_its_own_precision():
    log_probs = torch.tensor(LOG_PROBS).bfloat16()
    check_distribution(log_probs)
    with pytest.raises(BehaviourError, match=r"off by more than 8\.8e-02"):
        check_distribution(log_probs + 0.125)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 7), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_softmax_of_any_shape_passes_and_one_raised_entry_does_not(seed, shape):
    log_probs = log_softmax(np.random.default_rng(seed).normal(size=shape))
    check_distribution(log_probs)
    at = tuple(n - 1 for n in shape)
    log_probs[at] += 0.01
    with pytest.raises(BehaviourError) as caught:
        check_distribution(log_probs)
    assert f"row {at[:-1]}" in str(caught.value)


def test_certainty_and_impossibility_are_allowed():
    check_distribution([[0.0, -np.inf], [np.log(0.5), np.log(0.5)]])


@kinds
def test_the_first_bad_row_is_named_with_its_sum(make):
    log_probs = LOG_PROBS.copy()
    log_probs[1, 3] += np.log(2)
    with pytest.raises(BehaviourError, match=r"row \(1, 3\) sum to 2, .*1 of 10 rows"):
        check_distribution(make(log_probs))


def test_nan_is_named_by_its_row():
    log_probs = LOG_PROBS.copy()
    log_probs[0, 2, 5] = np.nan
    with pytest.raises(BehaviourError, match=r"row \(0, 2\).*NaN"):
        check_distribution(log_probs)


def test_impossible_everywhere_and_overflow_are_caught():
    with pytest.raises(BehaviourError, match="sum to 0"):
        check_distribution(np.full((2, 3), -np.inf))
    with pytest.raises(BehaviourError, match="sum to inf"):
        check_distribution([[0.0, 1000.0]])


def test_probabilities_without_a_log_are_recognised():
    with pytest.raises(BehaviourError, match="logs are expected"):
        check_distribution(np.exp(LOG_PROBS))


def test_a_softmax_over_the_wrong_axis_is_recognised():
    with pytest.raises(BehaviourError, match="axis 1 are 1: a softmax over the wrong axis"):
        check_distribution(log_softmax(LOG_PROBS, axis=1))


def test_plain_logits_bring_no_wrong_guess():
    with pytest.raises(BehaviourError) as caught:
        check_distribution(LOG_PROBS + 1)
    assert "?" not in str(caught.value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
def test_no_rows_or_no_words_is_a_callers_mistake(shape):
    with pytest.raises(ValueError, match="at least one entry"):
        check_distribution(np.zeros(shape))


# check_shift

TEXT = np.array([[3, 1, 4, 1, 5, 2], [2, 6, 0, 3, 3, 1]])


@kinds
def test_next_tokens_pass(make):
    check_shift(make(TEXT[:, :-1]), make(TEXT[:, 1:]))
    check_shift(make(TEXT[0, :-1]), make(TEXT[0, 1:]))


@kinds
def test_targets_that_are_the_inputs_are_recognised(make):
    with pytest.raises(BehaviourError, match="targets are the inputs"):
        check_shift(make(TEXT), make(TEXT))


def test_targets_that_lag_are_recognised():
    with pytest.raises(BehaviourError, match="targets are the previous tokens"):
        check_shift(TEXT[:, 1:], TEXT[:, :-1])


def test_the_first_wrong_target_is_named():
    targets = TEXT[:, 1:].copy()
    targets[1, 2] = 4
    with pytest.raises(
        BehaviourError, match=r"target at \(1, 2\) is 4, but the next input, at \(1, 3\), is 3"
    ):
        check_shift(TEXT[:, :-1], targets)


def test_padding_is_not_compared_but_what_stands_before_it_is():
    start, end, pad = 7, 8, 9
    inputs = np.array([[start, 1, 2, 3], [start, 4, pad, pad]])
    targets = np.array([[1, 2, 3, end], [4, end, pad, pad]])
    check_shift(inputs, targets, pad=pad)
    with pytest.raises(BehaviourError, match=r"\(1, 1\)"):
        check_shift(inputs, targets)
    with pytest.raises(BehaviourError, match=r"\(1, 0\)"):
        check_shift(inputs, np.array([[1, 2, 3, end], [end, end, pad, pad]]), pad=pad)


def test_shapes_that_differ_or_say_nothing_are_refused():
    with pytest.raises(BehaviourError, match=r"\(2, 6\), targets \(2, 5\)"):
        check_shift(TEXT, TEXT[:, 1:])
    for shape in [(1,), (3, 1), (2, 3, 5), ()]:
        with pytest.raises(ValueError, match="T ≥ 2"):
            check_shift(np.zeros(shape, dtype=int), np.zeros(shape, dtype=int))


# check_causal

TOKENS = np.random.default_rng(1).integers(0, V, (B, T))
TABLE = np.random.default_rng(2).normal(size=(V, V))


def one_hot(tokens):
    return np.eye(V)[tokens]


def bigram(tokens):
    return log_softmax(TABLE[tokens])


def running_sum(tokens):
    return log_softmax(np.cumsum(TABLE[tokens], axis=1))


def sees_its_answer(tokens):
    return log_softmax(5 * one_hot(np.roll(tokens, -1, axis=1)))


def reads_the_whole_text(tokens):
    return log_softmax(np.broadcast_to(TABLE[tokens].mean(1, keepdims=True), (B, T, V)))


def leaks_late(tokens):
    out = running_sum(tokens).copy()
    out[:, 3] += 1e-12 * tokens[:, 4:5]
    return out


class TorchLM(torch.nn.Module):
    """One attention layer: causal, or with a mask that lets the next token through."""

    def __init__(self, look_ahead=0, dropout=0.0):
        super().__init__()
        self.embedding = torch.nn.Embedding(V, 11)
        self.head = torch.nn.Linear(11, V)
        self.dropout = torch.nn.Dropout(dropout)
        self.look_ahead = look_ahead

    def forward(self, tokens):
        x = self.dropout(self.embedding(tokens))  # (B, T, 11)
        mask = torch.ones(T, T, dtype=torch.bool).tril(self.look_ahead)
        scores = (x @ x.mT).masked_fill(~mask, -torch.inf)
        return self.head(scores.softmax(-1) @ x)


@pytest.mark.parametrize("model", [bigram, running_sum])
def test_causal_numpy_models_pass(model):
    check_causal(model, TOKENS)


@pytest.mark.parametrize("smoothing", ["mle", "kneser-ney"])
def test_an_ngram_model_is_causal_and_normalised(smoothing):
    text = np.random.default_rng(3).integers(0, V, 211)
    model = NGram.fit([text], 3, V, smoothing)
    check_causal(model, TOKENS)
    if smoothing == "kneser-ney":
        check_distribution(model(TOKENS))


@pytest.mark.parametrize("layer", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_recurrent_networks_of_torch_are_causal_and_bidirectional_ones_are_not(layer):
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(V, 3)

    def model(tokens, both_ways):
        torch.manual_seed(1)
        network = layer(3, 11, batch_first=True, bidirectional=both_ways)
        return network(embedding(tokens))[0][..., -V:]

    check_causal(partial(model, both_ways=False), torch.tensor(TOKENS))
    with pytest.raises(BehaviourError, match="position 0 changes with token 1"):
        check_causal(partial(model, both_ways=True), torch.tensor(TOKENS))


def test_a_causal_mask_passes_and_one_off_by_one_is_caught():
    torch.manual_seed(0)
    check_causal(TorchLM(), torch.tensor(TOKENS))
    with pytest.raises(
        BehaviourError, match="position 0 changes with token 1; it predicts token 1 and may read"
    ):
        check_causal(TorchLM(look_ahead=1), torch.tensor(TOKENS))


@pytest.mark.parametrize(
    ("model", "position", "token"),
    [(sees_its_answer, 0, 1), (reads_the_whole_text, 0, 1), (leaks_late, 3, 4)],
)
def test_the_first_position_that_leaks_is_named(model, position, token):
    with pytest.raises(
        BehaviourError, match=f"position {position} changes with token {token};.*0 to {position}"
    ):
        check_causal(model, TOKENS)


def test_a_leak_of_one_word_among_many_is_found():
    def model(tokens):  # tells at once whether token 4 is the last word of the vocabulary
        out = bigram(tokens).copy()
        out[:, 2, 0] += tokens[:, 4] == V - 1
        return out

    for word in range(V - 1):
        tokens = TOKENS.copy()
        tokens[:, 4] = word
        if (word + 1) % V == V - 1 or (word + V // 2) % V == V - 1 or word == 0:
            with pytest.raises(BehaviourError, match="position 2 changes with token 4"):
                check_causal(model, tokens)


@kinds
def test_tokens_are_left_unchanged_even_by_a_model_that_writes_on_them(make):
    tokens = make(TOKENS)

    def model(tokens):
        out = bigram(np.asarray(tokens))
        tokens[:] = 0
        return out

    check_causal(model, tokens)
    assert (np.asarray(tokens) == TOKENS).all()


@kinds
def test_tokens_of_one_byte_do_not_wrap_around_at_256(make):
    """With 211 words, 200 + 105 is 94 modulo 211 and 49 once it has wrapped around."""
    tokens, seen = np.full((1, 3), 200, dtype=np.uint8), set()

    def model(tokens):
        assert np.asarray(tokens).dtype == np.uint8
        seen.update(np.asarray(tokens)[:, 1].tolist())
        return np.zeros((*tokens.shape, 211))

    check_causal(model, make(tokens))
    assert seen == {200, 201, (200 + 105) % 211, 199}


def test_a_model_that_hands_out_one_buffer_again_and_again_is_not_excused():
    buffer = np.empty((B, T, V))

    def model(tokens):
        buffer[:] = sees_its_answer(tokens)
        return buffer

    with pytest.raises(BehaviourError, match="position 0"):
        check_causal(model, TOKENS)


def test_dropout_left_on_is_caught_and_eval_mends_it():
    torch.manual_seed(0)
    model = TorchLM(dropout=0.5)
    with pytest.raises(BehaviourError, match="dropout"):
        check_causal(model, torch.tensor(TOKENS))
    check_causal(model.eval(), torch.tensor(TOKENS))


def test_outputs_of_another_shape_or_with_nan_are_named():
    with pytest.raises(BehaviourError, match=r"\(2, 5\) gave outputs \(2, 7\)"):
        check_causal(lambda tokens: bigram(tokens)[:, -1], TOKENS)
    with pytest.raises(BehaviourError, match=r"\(2, 5\) gave outputs \(5, 2, 7\)"):
        check_causal(lambda tokens: bigram(tokens).swapaxes(0, 1), TOKENS)
    with pytest.raises(BehaviourError, match=r"output at \(0, 0, 0\) is NaN"):
        check_causal(lambda tokens: bigram(tokens) * np.nan, TOKENS)


def test_impossible_words_do_not_disturb_the_comparison():
    def model(tokens):
        return np.where(one_hot(tokens) > 0, -np.inf, -np.log(V - 1))

    check_causal(model, TOKENS)


def test_too_little_to_judge_is_a_callers_mistake():
    for shape in [(5,), (2, 1), (0, 5), (2, 3, 5)]:
        with pytest.raises(ValueError, match="T ≥ 2"):
            check_causal(bigram, np.zeros(shape, dtype=int))
    with pytest.raises(ValueError, match="nothing can be changed"):
        check_causal(lambda tokens: np.zeros((*tokens.shape, 1)), np.zeros((2, 3), dtype=int))


# check_padding and check_batch

N, D, H = 3, 11, 13  # sequences, widths
IDS = torch.tensor([[4, 0, 6, 2, 2], [1, 5, 0, 0, 0], [3, 3, 1, 0, 0]])
LENGTHS = torch.tensor([5, 2, 3])
REAL = torch.arange(T) < LENGTHS[:, None]


class Padded(nn.Module):
    """(tokens, mask) → answer(a torch module, embeddings, mask)."""

    def __init__(self, kind, answer, **options):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.module, self.answer = nn.Embedding(V, D), kind(**options), answer

    def forward(self, tokens, mask):
        return self.answer(self.module, self.embedding(tokens), mask)


def lstm(answer, **options):
    return Padded(partial(nn.LSTM, D, H, batch_first=True), answer, **options)


def packed(module, x, mask, **options):
    sequences = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(module(sequences)[0], batch_first=True, **options)[0]


def at_last_token(module, x, mask):
    return module(x)[0][torch.arange(len(x)), mask.sum(1) - 1]


def average(module, x, mask):
    return module((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def attend(module, x, mask):
    return module(x, x, x, key_padding_mask=~mask)[0]  # torch's True = padding


linear = partial(nn.Linear, D, H)
attention = partial(nn.MultiheadAttention, D, 1, batch_first=True)


@pytest.mark.parametrize(
    "model",
    [
        lstm(lambda module, x, mask: module(x)[0]),  # reads padding after the tokens only
        lstm(packed),
        lstm(packed, bidirectional=True),
        lstm(at_last_token),
        Padded(linear, average),
        Padded(attention, attend),
        Padded(partial(Recurrent, D, H, "gru"), lambda m, x, mask: m(x, mask=mask)[1][-1]),
        Padded(
            partial(Recurrent, D, H, "minimal", bidirectional=True),
            lambda module, x, mask: module(x, mask=mask)[0],
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_heeds_its_mask_passes(model, dtype):
    model = deepcopy(model).to(dtype)
    check_padding(model, IDS, REAL)
    check_padding(model, IDS[1:], REAL[1:])  # torch cuts these to the longest


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_sums_over_random_lengths_pass_and_a_token_too_far_does_not(seed, lengths):
    width = max(lengths) + 1
    tokens = np.random.default_rng(seed).integers(0, V, (len(lengths), width))
    tokens[:, -1], tokens[0, 0] = 0, 1  # two different ids
    mask = np.arange(width) < np.array(lengths)[:, None]
    weights = np.random.default_rng(2).normal(size=V) * 2.0 ** np.arange(V)

    def total(tokens, mask):
        return (weights[tokens] * mask).sum(1)

    def too_far(tokens, mask):  # takes the token behind the end, too
        return total(tokens, np.pad(mask[:, :-1], ((0, 0), (1, 0)), constant_values=True))

    check_padding(total, tokens, mask)
    with pytest.raises(BehaviourError, match=r"of sequence 0 .* when other ids stand in the pad"):
        check_padding(too_far, tokens, mask)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lstm(lambda module, x, mask: module(x)[0][:, -1]),
            r"sequence 1 \(2 tokens in 5 columns\) changes by 0\.\d+ when other ids stand in the "
            r"padding\. The mask changes nothing: .* at the last token, mask\.sum\(1\) − 1",
        ),
        (
            lstm(lambda module, x, mask: module(x)[1][0][-1]),  # h_n, which looks harmless
            r"other ids stand in the padding\. The mask changes nothing: is it used\? A state is",
        ),
        (
            lstm(lambda module, x, mask: module(x)[0], bidirectional=True),
            r"sequence 1 .* changes by 0\.\d+ at token 0 when other ids .*is it used\? Without it "
            "attention reaches into the padding, and a recurrent model's backward direction begins",
        ),
        (
            Padded(attention, lambda module, x, mask: attend(module, x, ~mask)),
            r"sequence 1 .* when other ids .*\. With ~mask it does not: True means that a token",
        ),
        (
            Padded(linear, lambda module, x, mask: average(module, x, ~mask)),
            r"sequence \d .* when other ids .*\. With ~mask it does not: True means that a token",
        ),
        (
            lstm(lambda module, x, mask: packed(module, x, mask, total_length=x.shape[1])[:, -1]),
            r"sequence 0 \(5 tokens in 5 columns\) .* when 3 columns of padding are added\. Is a "
            "state read in the last column",
        ),
        (
            lstm(lambda module, x, mask: module(x * mask[..., None])[0][:, -1]),
            "when 3 columns of padding are added. Is a state read in the last column",
        ),
        (
            Padded(linear, lambda module, x, mask: module((x * mask[..., None]).mean(1))),
            "when 3 columns of padding are added.* or padding averaged in",
        ),
        (
            Padded(linear, lambda module, x, mask: module(x) + (x * mask[..., None]).mean()),
            "sequence 0 .* at token 0 when 3 columns of padding are added.* or a mean reach",
        ),
        (
            lstm(lambda module, x, mask: packed(module, x, mask)[:, -1]),
            r"sequence 1 .* when it stands alone, without padding, and alone with it: .*"
            "the last column of the longest one",
        ),
        (
            Padded(linear, lambda module, x, mask: module(x) + len(x)),
            r"sequence 1 .* at token 0 when it stands alone, .*read other sequences \(check_batch",
        ),
        (
            Padded(linear, lambda module, x, mask: module(x) + mask.all()),
            r"sequence 1 .* at token 0 when it stands alone, without padding\. Does a backward",
        ),
        (
            Padded(linear, lambda module, x, mask: average(module, x, mask) * torch.nan),
            "output of sequence 0 holds NaN",
        ),
        (
            Padded(nn.Dropout, lambda module, x, mask: module(x)),
            "two calls on the same tokens differ: is dropout still on",
        ),
    ],
)
def test_padding_that_is_read_is_named_with_the_mistake(model, message):
    with pytest.raises(BehaviourError, match=message):
        check_padding(model, IDS, REAL)


def test_a_leak_of_one_bit_from_padding_is_found_and_rounding_is_not_taken_for_one():
    def leaks(tokens, mask):
        out = (TABLE[tokens] * mask[..., None]).sum(1)
        out[:, 0] += 1e-14 * (tokens * ~mask).sum(1)
        return out

    def rounds(tokens, mask):
        return (TABLE[tokens] * mask[..., None]).sum(1) + 1e-14 * mask.shape[1]

    with pytest.raises(BehaviourError, match=r"sequence 1 .* when other ids"):
        check_padding(leaks, IDS.numpy(), REAL.numpy())
    check_padding(rounds, IDS.numpy(), REAL.numpy())
    with pytest.raises(BehaviourError, match="columns of padding are added"):
        check_padding(rounds, IDS.numpy(), REAL.numpy(), tolerance=1e-15)


def test_the_tolerance_for_another_shape_is_that_of_the_dtype():
    def model(dtype, tokens, mask):
        return ((tokens * mask).sum(1) + 1e-5 * mask.shape[1]).to(dtype)

    check_padding(partial(model, torch.float32), IDS, REAL)
    with pytest.raises(BehaviourError, match="columns of padding are added"):
        check_padding(partial(model, torch.float64), IDS, REAL)


def test_as_many_classes_as_columns_are_not_taken_for_tokens():
    """(B, T) numbers for a sequence: what stands in the later columns counts as well."""

    def model(tokens, mask, far):
        x = np.eye(V)[:, :T][tokens]
        return (x * mask[..., None]).sum(1) + far * (x * ~mask[..., None]).sum(1) * np.eye(T)[-1]

    tokens = np.where(REAL, IDS, T - 1)  # so that the padding counts in the last class
    check_padding(partial(model, far=0), tokens, REAL.numpy())
    with pytest.raises(BehaviourError, match=r"sequence 1 .*by \d\.?\d* when other ids"):
        check_padding(partial(model, far=1), tokens, REAL.numpy())


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_only_ids_that_occur_are_given_and_in_the_dtype_that_came(make):
    tokens, known = make(np.array([[250, 2, 9], [251, 9, 9]], dtype=np.uint8)), {2, 9, 250, 251}

    def model(tokens, mask=None):
        assert tokens.dtype == make(np.zeros(1, np.uint8)).dtype
        assert set(np.asarray(tokens).flat) <= known
        return tokens

    check_padding(model, tokens, make(np.array([[True, True, False], [True, False, False]])))
    check_batch(model, tokens)


def test_what_is_said_at_padded_places_may_be_anything():
    check_padding(lambda tokens, mask: np.where(mask, tokens, np.nan), IDS.numpy(), REAL.numpy())


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_a_model_that_writes_on_its_inputs_changes_nothing_outside(make):
    tokens, mask = make(IDS.numpy().copy()), make(REAL.numpy().copy())

    def model(tokens, mask):
        out = make(TABLE)[tokens]
        tokens[:], mask[:] = 0, False
        return out

    check_padding(model, tokens, mask)
    check_batch(lambda tokens: model(tokens, mask | True), tokens)
    assert (np.asarray(tokens) == IDS.numpy()).all()
    assert (np.asarray(mask) == REAL.numpy()).all()


def test_no_gradient_is_kept_and_no_mode_changed():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(V, D), nn.Linear(D, H)).eval()
    check_padding(lambda tokens, mask: model(tokens), IDS, REAL)
    check_batch(model, IDS)
    assert all(p.grad is None for p in model.parameters())
    assert not model.training


@pytest.mark.parametrize(
    ("tokens", "mask", "error", "message"),
    [
        (IDS, REAL.long(), TypeError, "needs booleans, True where a token stands, got int64"),
        (IDS.float(), REAL, TypeError, "tokens need integers, got float32"),
        (IDS, REAL[:, :-1], ValueError, r"shape \(3, 5\), got \(3, 4\)"),
        (IDS[0], REAL[0], ValueError, r"shape \(B, T\), none of them 0, got \(5,\)"),
        (IDS[:0], REAL[:0], ValueError, r"none of them 0, got \(0, 5\)"),
        (IDS, torch.ones_like(REAL), ValueError, "no sequence has padding"),
        (IDS, REAL.flip(1), ValueError, "sequence 1 of the mask has padding before a token"),
        (IDS, REAL & (IDS != 5), ValueError, None),
        (IDS, REAL & (IDS != 6), ValueError, "sequence 0 .* padding before a token"),
        (IDS, REAL & (torch.arange(N) != 2)[:, None], ValueError, "sequence 2 .* has no token"),
        (torch.ones_like(IDS), REAL, ValueError, "all tokens are 1: there is no other id"),
    ],
)
def test_a_batch_that_tells_nothing_of_padding_is_a_callers_mistake(tokens, mask, error, message):
    if message is None:  # still a mask without holes
        check_padding(lambda tokens, mask: tokens, tokens, mask)
        return
    with pytest.raises(error, match=message):
        check_padding(lambda tokens, mask: tokens, tokens, mask)


def test_outputs_that_belong_to_no_sequence_are_named():
    for answer, message in (
        (lambda t, m: TABLE[t].swapaxes(0, 1), r"\(5, 3, 7\), expected \(3, …\): .*\(T, B, D\)"),
        (lambda t, m: TABLE[t].sum(), r"\(3, 5\) gave outputs \(\), expected \(3, …\)$"),
        (
            lambda t, m: TABLE[t][:, 1:],
            r"outputs \(3, 4, 7\), and sequence 1 alone, \(1, 2\), gave",
        ),
        (lambda t, m: np.zeros((*t.shape, t.shape[1])), r"\(3, 5, 5\), .* gave \(1, 2, 2\)"),
    ):
        with pytest.raises(BehaviourError, match=message):
            check_padding(answer, IDS.numpy(), REAL.numpy())
    with pytest.raises(TypeError, match="a tuple: hand over a function to its outputs only"):
        check_padding(lstm(lambda module, x, mask: module(x)), IDS, REAL)


class OfBatch(Padded):
    """tokens → answer(a torch module, embeddings)."""

    def __init__(self, kind, answer=lambda module, x: module(x)[0], **options):
        super().__init__(kind, lambda module, x, mask: answer(module, x), **options)

    def forward(self, tokens):
        return super().forward(tokens, None)


def by_axes(module, x):
    return module(x.mT)


wrong_axes = partial(nn.LSTM, D, H)  # without batch_first
EXCHANGED = r"\. Along the batch the model acts as along time: .* the module want \(T, B, D\)\?$"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [2, 3, 17])
def test_sequences_that_mind_their_own_business_pass(dtype, n):
    tokens = torch.tensor(np.random.default_rng(n).integers(0, V, (n, T)))
    for model in (
        OfBatch(partial(nn.LSTM, D, H, batch_first=True)),
        OfBatch(partial(nn.RNN, D, H, batch_first=True, bidirectional=True)),
        OfBatch(wrong_axes, lambda module, x: module(x.transpose(0, 1))[1][0][-1]),
        OfBatch(attention, lambda module, x: module(x, x, x)[0]),
        OfBatch(partial(nn.BatchNorm1d, D), lambda module, x: module.eval()(x.mT)),
        OfBatch(linear, lambda module, x: module(x).sum((1, 2))),
    ):
        check_batch(model.to(dtype), tokens)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OfBatch(wrong_axes), "sequence 1 changes with the tokens of sequence 0" + EXCHANGED),
        (OfBatch(wrong_axes, lambda module, x: module(x)[0][:, -1]), "sequence 1 .*" + EXCHANGED),
        (OfBatch(wrong_axes, lambda module, x: module(x)[0].sum(1)), "sequence 1 .*" + EXCHANGED),
        (OfBatch(wrong_axes, bidirectional=True), "sequence 0 .* of sequence 1" + EXCHANGED),
        (
            OfBatch(wrong_axes, lambda module, x: module(x)[1][0][-1]),  # h_n is (T, H)
            r"tokens \(3, 5\) gave outputs \(5, 13\), expected \(3, …\): .*\(T, B, D\)\?",
        ),
        (
            OfBatch(partial(nn.BatchNorm1d, D), by_axes),
            r"sequence 0 .* of sequence 1\. Every .* batch norm in training \(model\.eval\(\)\)\?",
        ),
        (
            OfBatch(linear, lambda module, x: module(x) + x[-1].mean()),
            "sequence 0 changes with the tokens of sequence 2$",
        ),
        (
            OfBatch(linear, lambda module, x: module(x) + torch.arange(len(x))[:, None, None]),
            "sequence 0 changes by 1 at place 1 of the batch",
        ),
        (OfBatch(linear, lambda module, x: module(x) * torch.nan), r"at \(0, 0, 0\) is NaN"),
        (OfBatch(nn.Dropout), "is dropout still on"),
    ],
)
def test_a_sequence_that_reads_another_is_named_with_the_mistake(model, message):
    with pytest.raises(BehaviourError, match=message):
        check_batch(model, IDS)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5).flatmap(lambda n: st.permutations(range(n)).map(lambda p: (n, p[0], p[1]))),
)
@settings(max_examples=30, deadline=None)
def test_of_any_two_sequences_one_is_named_that_reads_the_other(seed, case):
    n, reader, read = case
    tokens = np.random.default_rng(seed).integers(0, V, (n, T))
    tokens[:, 0] = np.arange(n)

    def model(tokens):
        out = TABLE[tokens]
        out[reader] += 1e-12 * np.cumsum(tokens[read])[:, None]
        return out

    check_batch(TABLE.__getitem__, tokens)
    with pytest.raises(BehaviourError, match=f"sequence {reader} .* tokens of sequence {read}"):
        check_batch(model, tokens)


def test_a_batch_that_tells_nothing_is_a_callers_mistake():
    for tokens, error, message in (
        (IDS[:1], ValueError, r"B ≥ 2, got \(1, 5\)"),
        (IDS[0], ValueError, r"got \(5,\)"),
        (IDS[..., None], ValueError, r"got \(3, 5, 1\)"),
        (IDS[:, :0], ValueError, r"got \(3, 0\)"),
        (IDS * 0, ValueError, "all tokens are 0"),
        (IDS > 2, TypeError, "tokens need integers, got bool"),
    ):
        with pytest.raises(error, match=message):
            check_batch(lambda tokens: tokens, tokens)
    with pytest.raises(TypeError, match="the model returned a tuple"):
        check_batch(OfBatch(wrong_axes, lambda module, x: module(x)), IDS)


# check_gradient

W = np.random.default_rng(4).normal(size=(3, 2))
X = np.array([0.5, -2.0])
Y = np.array([0.0, 0.0, 1.0])


def loss(W):
    return -(Y * log_softmax(W @ X)).sum()


GRAD = np.outer(np.exp(log_softmax(W @ X)) - Y, X)  # (ŷ − y)xᵀ


def test_a_right_gradient_passes_in_numpy_torch_and_the_engine():
    check_gradient(loss, W, GRAD)

    leaf = torch.tensor(W, requires_grad=True)

    def torch_loss(W):
        return torch.nn.functional.cross_entropy(W @ torch.tensor(X), torch.tensor(2))

    torch_loss(leaf).backward()
    check_gradient(torch_loss, leaf, leaf.grad)

    def our_loss(W):
        return -ag.sum(Y * ag.log_softmax(W @ X))

    tensor = Tensor(W)
    our_loss(tensor).backward()
    check_gradient(our_loss, tensor, tensor.grad)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 3), (1,), ()])
def test_a_gradient_of_another_shape_is_caught_and_both_are_named(shape):
    with pytest.raises(BehaviourError, match=r"x has shape \(3,\)") as caught:
        check_gradient(lambda b: (b**2).sum(), np.ones(3), np.full(shape, 2.0))
    assert f"gradient has shape {shape}" in str(caught.value)


def test_the_broadcast_that_hides_a_wrong_gradient_is_caught():
    y_hat, y = np.full(3, 1 / 3), Y[:, None]  # (3,) and (3, 1)
    with pytest.raises(BehaviourError, match=r"shape \(3, 3\).*broadcast"):
        check_gradient(lambda z: -(Y * log_softmax(z)).sum(), np.zeros(3), y_hat - y)


def test_the_worst_entry_is_named_with_both_values():
    wrong = GRAD.copy()
    wrong[1, 0] += 0.25
    with pytest.raises(BehaviourError, match=r"at \(1, 0\) is .*finite differences give") as caught:
        check_gradient(loss, W, wrong)
    assert f"is {wrong[1, 0]:.6g}," in str(caught.value)
    assert f"give {GRAD[1, 0]:.6g}" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "guess"),
    [
        (-GRAD, "Every entry has the opposite sign"),
        (3 * GRAD, "Every entry is 3 times what it should be"),
        (GRAD / 7, "Every entry is 0.142857 times"),
        (0 * GRAD, "Every entry is 0 times"),
    ],
)
def test_a_wrong_sign_and_a_lost_factor_are_recognised(wrong, guess):
    with pytest.raises(BehaviourError, match=guess):
        check_gradient(loss, W, wrong)


def test_a_transpose_is_recognised():
    A = np.arange(9.0).reshape(3, 3) ** 2
    with pytest.raises(BehaviourError, match="transpose would be right"):
        check_gradient(lambda W: (W * A).sum(), np.ones((3, 3)), A.T)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_caught(bad):
    wrong = GRAD.copy()
    wrong[2, 1] = bad
    with pytest.raises(BehaviourError, match=r"\(2, 1\)"):
        check_gradient(loss, W, wrong)


def test_a_gradient_that_is_missing_is_caught():
    leaf = Tensor(W)
    with pytest.raises(BehaviourError, match="has backward been called"):
        check_gradient(lambda W: ag.sum(W), leaf, leaf.grad)


@pytest.mark.parametrize("make", [np.array, torch.tensor, Tensor], ids=["numpy", "torch", "engine"])
def test_x_stays_as_it_is_even_when_f_writes_on_it(make):
    x = make(X)

    def f(x):
        if not isinstance(x, Tensor):
            x *= x
            return x.sum()
        return ag.sum(x * x)

    check_gradient(f, x, 2 * X)
    assert (np.asarray(getattr(x, "value", x)) == X).all()


def test_what_cannot_be_judged_is_a_callers_mistake():
    with pytest.raises(TypeError, match="is a `return` missing"):
        check_gradient(lambda x: None, np.ones(3), np.ones(3))
    with pytest.raises(TypeError, match="real numbers, got complex"):
        check_gradient(lambda x: x.sum(), np.ones(3), np.ones(3) + 0j)
    with pytest.raises(ValueError, match="lost in rounding"):
        check_gradient(lambda x: x.sum(), np.full(3, 1e20), np.ones(3))
    with pytest.raises(ValueError, match=r"f\(x\) has shape \(3,\)"):
        check_gradient(lambda x: x * 2, np.ones(3), np.full(3, 2.0))
    with pytest.raises(TypeError, match="float64 array, got float32"):
        check_gradient(lambda x: x.sum(), torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="float64 array, got int64"):
        check_gradient(lambda x: x.sum(), np.array([1, 2]), np.array([1, 1]))
