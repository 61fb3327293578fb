"""Every check passes what is right, in numpy and in torch, and names what is wrong."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models import autograd as ag
from unrolled.models.autograd import Tensor
from unrolled.models.ngram import NGram
from unrolled.teaching.behaviour import (
    BehaviourError,
    check_causal,
    check_distribution,
    check_gradient,
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
    with pytest.raises(BehaviourError, match="ask for the past"):
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
        (-GRAD, "Every sign is turned"),
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
