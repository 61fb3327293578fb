"""The checks around attention pass what is right and name what is wrong, with the usual mistake."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from torch import nn
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.recurrent import CELLS
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import POSITIONS, TransformerConfig
from unrolled_book.behaviour import (
    BehaviourError,
    check_cache,
    check_order,
    check_permutation,
    check_source,
)

from lib.tests.comparing import refuses

B, T, S, V, D, H = 3, 7, 5, 11, 10, 2
TEXT, SOURCE_TEXT = (np.random.default_rng(i).integers(0, V, (B, n)) for i, n in enumerate((T, S)))
TOKENS, SOURCE = torch.tensor(TEXT), torch.tensor(SOURCE_TEXT)
X = np.random.default_rng(2).normal(size=(T, D))
TABLE, PLACE, W = (
    np.random.default_rng(3).normal(size=shape) for shape in ((V, D), (T, D), (D, D))
)
CAUSAL = np.tri(T, dtype=bool)
ALIBI = -np.abs(np.subtract.outer(np.arange(T), np.arange(T))) / 2
SIZES = {"vocab_size": V, "d_model": 24, "n_heads": 2, "context_length": 13}


def ours(kind, position, n_layers=2):
    """A small Transformer of the library, fresh, in float64."""
    config = TransformerConfig(**SIZES, n_layers=n_layers, position=position)
    return kind(config).double().eval()


def recurrent(cell):
    return RecurrentLM(V, cell, embedding_dim=D, hidden_size=13)


def attention(x, position=0.0, mask=None, bias=0.0, source=None):
    """One head on vectors (…, T, D), its queries turned by W."""
    x = x + position
    y = x if source is None else source
    scores = x @ W @ y.swapaxes(-1, -2) / np.sqrt(D) + bias
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    return softmax(scores, -1) @ y


def twice(x, mask=None):
    return attention(attention(x, mask=mask), mask=mask)


def reshaped(x):
    """Two heads by a reshape that forgets to exchange the axes: heads are runs of places."""
    heads = x.reshape(*x.shape[:-2], H, T, D // H)
    return (softmax(heads @ heads.swapaxes(-1, -2), -1) @ heads).reshape(x.shape)


def first_before_last(x):
    return np.arange(T)[:, None] * (x[..., :1, :] > x[..., T - 2 : T - 1, :])


ADDED = r"Even where all (vector|token)s are equal .* are positions added"
WHO = "Where all (vector|token)s are equal so are the outputs, .* a causal mask, a window, or rel"
SET = (
    r"order of the \w+ before it changes no output by more than .*e-\d\d, other .*sees a set\. "
    "Are there positions, and has each"
)
UNREAD = "changes no output by more than 0, and .*: are they read"


@pytest.mark.parametrize(
    ("model", "x", "moves", "knows"),
    [
        (attention, X, None, SET),
        (attention, np.stack([X, 2 * X]).astype(np.float32)[None], None, SET),
        (twice, X, None, SET),
        (TABLE.__getitem__, TEXT, None, UNREAD),
        (partial(attention, position=PLACE), X, ADDED, None),
        (partial(attention, position=PLACE, mask=CAUSAL), X, ADDED, None),
        (partial(attention, position=PLACE[4], mask=CAUSAL), X, WHO, SET),  # one for all
        (partial(attention, mask=CAUSAL), X, WHO, SET),
        (partial(attention, bias=ALIBI), X, WHO, None),
        (reshaped, X, ADDED + ".* or does a reshape mix places", None),
        (lambda x: np.cumsum(x, -2), X, ADDED + ".* does a state run along", SET),
        (lambda x: np.cumsum(x * (1 + np.arange(T))[:, None], -2), X, ADDED, None),
        (partial(twice, mask=CAUSAL), X, WHO, None),  # the second layer knows the order
        (first_before_last, np.arange(T)[:, None] * 1.0, WHO, None),  # one pair is enough
        (ours(Encoder, "none"), TOKENS, None, SET),
        *((ours(Encoder, p), TOKENS, ADDED, None) for p in POSITIONS[:2]),
        *((ours(Encoder, p), TOKENS, WHO, None) for p in POSITIONS[2:-1]),
        *((recurrent(cell), TOKENS, ADDED, None) for cell in CELLS),
    ],
)
def test_each_model_passes_the_checks_of_order_or_is_named(model, x, moves, knows):
    for check, message in ((check_permutation, moves), (check_order, knows)):
        with nullcontext() if message is None else pytest.raises(BehaviourError, match=message):
            check(model, x)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_a_mean_and_a_map_pass_and_one_place_treated_otherwise_does_not(seed, n, width):
    rng = np.random.default_rng(seed)
    x, place = rng.normal(size=(n, width)), rng.integers(n)

    def model(x, extra=0.0):
        return np.sin(x) + x.mean(-2, keepdims=True) + extra * (np.arange(n) == place)[:, None]

    check_permutation(model, x)
    with pytest.raises(BehaviourError, match=f"(place {place}|vector {place}),? .* up to 0.001"):
        check_permutation(partial(model, extra=0.001), x)


SHOW_THE_ORDER = [
    (lambda tokens: tokens * (np.arange(5) < 4),  # only the two differ that are named
     np.array([[0, 0, 0, 1, 1], [0, 0, 0, 1, 2]]), "3 and 4 .* token 4 of sequence 0, now at"),
    (lambda x: 1.0 * np.broadcast_to(x[0] > x[-1], x.shape),
     np.array([[1.0], [2.0], [0.0], [0.5]]), "when vectors 0 and 3 change places"),
    (lambda x: 1.0 * np.broadcast_to((x[0] > x[-1]) & (x[1] > x[-2]), x.shape),
     np.arange(4.0)[:, None], "when the vectors are reversed, the output of vector 3, now at"),
]  # fmt: skip


def test_an_order_that_is_drowned_counts_and_a_set_is_recognised_behind_its_rounding():
    """Fresh attention moves a float32 output by a few units in the last place."""
    check_order(ours(TransformerLM, "sinusoidal", n_layers=1).float(), TOKENS, tolerance=1.0)
    for kind, n_layers in ((TransformerLM, 1), (Encoder, 2)):
        for dtype in (torch.float32, torch.bfloat16):
            with pytest.raises(BehaviourError, match=r"sees a set|are they read"):
                check_order(ours(kind, "none", n_layers).to(dtype), TOKENS)


WITHOUT_AN_ORDER = [
    (np.abs, TEXT[0], ValueError, r"tokens \(B, T\) or vectors .* got \(7,\)"),
    (np.abs, TEXT[:, :1], ValueError, r"T ≥ \d, got \(3, 1\)"),
    (np.abs, TEXT * 0, ValueError, "the tokens are all the same"),
    (np.abs, TEXT > 3, TypeError, "integers or floats, got bool"),
    (lambda x: (x, x), X, TypeError, "a tuple"),
    (lambda t: TABLE[t].swapaxes(0, 1), TEXT, BehaviourError, r"\(7, 3, 10\), .* axes exchanged"),
    (lambda t: TABLE[t].sum(1), TEXT, BehaviourError, r"\(3, 10\), expected \(3, 7, …\)$"),
    (lambda x: x * np.nan, X, BehaviourError, "is NaN"),
    (nn.Sequential(nn.Embedding(V, D), nn.Dropout()), TOKENS, BehaviourError, "dropout"),
]  # fmt: skip


def test_two_inputs_can_change_places_and_an_order_needs_two_before_the_last():
    only_the_last = np.array([[4, 4, 4, 5]])
    check_permutation(np.abs, only_the_last)
    with pytest.raises(ValueError, match="all the same"):
        check_order(np.abs, only_the_last)
    check_permutation(np.abs, X[:2])
    with pytest.raises(ValueError, match=r"T ≥ 3, got \(2, 10\)"):
        check_order(np.abs, X[:2])


class ToyCache:
    """The vectors read so far, (B, S, D)."""

    def __init__(self, x=None):
        self.x = x

    @property
    def length(self):
        return 0 if self.x is None else self.x.shape[1]

    def fork(self):
        return type(self)(self.x)


class Toy(nn.Module):
    """A causal attention layer with learned positions whose cache is the vectors read so far."""

    def __init__(self, bug="", new_cache=ToyCache, answer=lambda y: y):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.positions = nn.Parameter(torch.randn(4 * T, D))
        self.bug, self.new_cache, self.answer = bug, new_cache, answer
        self.double()

    def forward(self, tokens, cache=None):
        if cache is None:
            return self.answer(self._read(tokens, None)[0])
        out, x = self._read(tokens, None if self.bug == "cache unused" else cache.x)
        if self.bug == "other":
            out = out + 1e-3
        if self.bug == "late" and cache.length == 5:
            out[2, 0, 3] += 0.5
        cache.x = x if cache.x is None or self.bug != "cache unused" else torch.cat([cache.x, x], 1)
        return out[:, -1] if self.bug == "last only" else out

    def _read(self, tokens, before):
        start = 0 if before is None or self.bug == "position" else before.shape[1]
        new = self.embedding(tokens) + self.positions[start : start + tokens.shape[1]]
        x = new if before is None else torch.cat([before, new], 1)  # (B, S, D)
        n, m = new.shape[1], x.shape[1]
        mask = torch.ones(n, m).tril(0 if self.bug == "mask" and n > 1 else m - n).bool()
        if self.bug == "open" and before is not None:
            mask = torch.ones(n, m).bool()
        weights = (new @ x.mT).masked_fill(~mask, -torch.inf).softmax(-1)
        return self.head(weights @ x), x


def test_a_rotation_that_begins_anew_is_found_in_a_fresh_float32_model():
    model = ours(TransformerLM, "rotary").float()
    check_cache(model, TOKENS[:2, :5])
    rotary = model.stack.blocks[0].attention.rotary  # one for all blocks
    rotary.forward = lambda x, positions=None, turn=rotary.forward: turn(x)
    with pytest.raises(BehaviourError, match=r"pieces \(1, .*Does each piece begin at position 0"):
        check_cache(model, TOKENS)


def test_a_cache_that_is_right_passes_and_what_a_tolerance_allows():
    for n in (2, 3, 4, 7):
        check_cache(Toy(), TOKENS[:, :n])
    check_cache(Toy("late"), TOKENS, tolerance=1.0)

    def drowned(source, target):
        return TABLE[target] + 1e-9 * translate(source, target)

    check_source(drowned, SOURCE_TEXT, TEXT)
    with pytest.raises(BehaviourError, match=r"no output changes by more than \d\.?\d*e-09 when"):
        check_source(drowned, SOURCE_TEXT, TEXT, tolerance=1e-6)


WRONG_CACHES = [
    *((Toy(bug), TOKENS, BehaviourError, message) for bug, message in (
        ("cache unused", r"7 pieces \(1, .* token 1 of sequence 0 .*: is the cache used, "),
        ("position", "7 pieces .* token 1 .*Does each piece begin at position 0, or"),
        ("mask", r"4 pieces \(2, 2, 2, 1\), .* token 2 .*Token by token it is right: .* S − T$"),
        ("open", r"4 pieces \(2, 2, .* token 2 .*query i may read"),
        ("other", r"1 pieces \(7\), .* token 0 .*Even in one piece"),
        ("late", r"token 5 of sequence 2 .* by up to 0\.5\)"),
        ("last only", r"a cache .*\(3, 7\) gave .*\(3, 11\)"))),
    # forks that write into one list: what one of them reads, the others lose
    (Toy(new_cache=type("OneForAll", (ToyCache,), {"fork": lambda self: self})), TOKENS,
     BehaviourError, "4 is another .*: does a fork write"),
    (Toy(new_cache=type("Miscounting", (ToyCache,), {"length": 1})), TOKENS,
     BehaviourError, "after 7 .* cache has the length 1"),
    (Toy(answer=lambda y: y.sum(1)), TOKENS, BehaviourError, r"3, 11\), expected \(B, T"),
    (Toy(answer=lambda y: y * torch.nan), TOKENS, BehaviourError, "NaN"),
    (Toy(new_cache=None), TOKENS, TypeError, r"Toy has no new_cache\(\)"),
    *((Toy(), x, ValueError, "T ≥ 2, got") for x in (TOKENS[0], TOKENS[:, :1], TOKENS * 1.0)),
]  # fmt: skip


def translate(source, target, use=lambda x: x):
    """Cross-attention from embedded target to embedded source, which `use` may maim."""
    x = TABLE[source] + 0.1 * np.arange(S)[:, None]
    return TABLE[target] + attention(TABLE[target], source=use(x))


def test_a_model_that_reads_its_whole_source_passes_and_is_left_as_it_was():
    check_source(translate, SOURCE_TEXT, TEXT)
    vectors, layer = torch.tensor(TABLE)[SOURCE], nn.MultiheadAttention(D, H, batch_first=True)
    layer = layer.double()
    check_source(lambda x, y: layer(y, x, x)[0], vectors, vectors[:, :2])
    model = ours(EncoderDecoder, "learned")
    for dtype in (torch.float32, torch.float64):
        check_source(model.to(dtype), SOURCE, TOKENS)
    assert all(p.grad is None for p in model.parameters())
    assert not model.training


WRONG_SOURCES = [
    *((model, SOURCE_TEXT, TEXT, BehaviourError, message) for model, message in (
        (lambda s, t: TABLE[t], "does: do keys and values come from the target"),
        (partial(translate, use=lambda x: x[:, -1:]), "0 changes with position 0 .* position 4 of"),
        (partial(translate, use=lambda x: x[:, :-1]), "position 4 .*reads positions 0, 1, 2, 3 of"),
        (partial(translate, use=lambda x: x * (np.arange(B) != 1)[:, None, None]), "1 .* none of"),
        (lambda s, t: translate(s, t) * (np.arange(B * T) != T + 3).reshape(B, T, 1),
         "position 3 of sequence 1 changes with no .* those that change: positions 0, 1, 2, 4"),
        (lambda s, t: translate(s, t).sum(1), r"outputs \(3, 10\), expected \(3, 7, …\)"),
        (lambda s, t: translate(s, t).swapaxes(0, 1), "are the two axes exchanged"),
        (lambda s, t: translate(s, t) * np.nan, r"at \(0, 0, 0\) is NaN"),
        (lambda s, t: np.random.normal(size=(B, T)), "dropout"))),  # noqa: NPY002
    (max, SOURCE[:2], TOKENS, ValueError, r"one B, got \(2, 5\) and \(3, 7\)"),
    (max, SOURCE[0], TOKENS, ValueError, r"source needs integers \(B, n\) .* got \(5,\)"),
    (max, SOURCE > 2, TOKENS, TypeError, "source needs integers or floats, got bool"),
    (max, SOURCE * 0, TOKENS, ValueError, "all tokens are 0: there is no other id"),
]  # fmt: skip


test_what_is_wrong_is_named_with_the_mistake = refuses(
    *((check_permutation, given, BehaviourError, message) for *given, message in SHOW_THE_ORDER),
    *((check, given, error, message)
      for check, rows in (
          (check_permutation, WITHOUT_AN_ORDER), (check_order, WITHOUT_AN_ORDER),
          (check_cache, WRONG_CACHES), (check_source, WRONG_SOURCES))
      for *given, error, message in rows),
    of=lambda check, given: check(*given),
)  # fmt: skip
