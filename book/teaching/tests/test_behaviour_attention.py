"""The checks around attention pass what is right and name what is wrong, with the usual mistake."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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

B, T, S, V, D, H = 3, 7, 5, 11, 10, 2
TOKENS = torch.tensor(np.random.default_rng(0).integers(0, V, (B, T)))
SOURCE = torch.tensor(np.random.default_rng(1).integers(0, V, (B, S)))
X = np.random.default_rng(2).normal(size=(T, D))
TABLE, PLACE, W = (
    np.random.default_rng(3).normal(size=shape) for shape in ((V, D), (T, D), (D, D))
)


def ours(kind, position, n_layers=2):
    """A small Transformer of the library, fresh, in float64."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=V, d_model=24, n_layers=n_layers, n_heads=2, context_length=13,
        position=position,
    )  # fmt: skip
    return kind(config).double().eval()


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(x, position=0.0, mask=None, bias=0.0, source=None):
    """One head on vectors (…, T, D), its queries turned by W."""
    x = x + position
    y = x if source is None else source
    scores = x @ W @ y.swapaxes(-1, -2) / np.sqrt(D) + bias
    return softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ y


CAUSAL = np.tri(T, dtype=bool)
ALIBI = -np.abs(np.subtract.outer(np.arange(T), np.arange(T))) / 2


class Layers(nn.Module):
    """torch's layer on embedded tokens, with learned positions or none."""

    def __init__(self, positions=0.0, causal=False, n_layers=1):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, D)
        self.positions = nn.Parameter(positions * torch.randn(T, D))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(D, H, 13, dropout=0.0, batch_first=True)
            for _ in range(n_layers)
        )
        self.mask = torch.ones(T, T).triu(1).bool() if causal else None  # torch: True = may not

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        return x


def reshaped(x):
    """Two heads by a reshape that forgets to exchange the axes: heads are runs of places."""
    heads = x.reshape(*x.shape[:-2], H, T, D // H)
    return (softmax(heads @ heads.swapaxes(-1, -2)) @ heads).reshape(x.shape)


# check_permutation


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_attention_without_positions_moves_with_its_inputs(dtype, n_layers):
    check_permutation(Layers(n_layers=n_layers).to(dtype), TOKENS)


@pytest.mark.parametrize("position", POSITIONS)
def test_of_the_librarys_encoders_only_the_one_without_positions_is_equivariant(position):
    model = ours(Encoder, position)
    if position == "none":
        check_permutation(model, TOKENS)
        with pytest.raises(BehaviourError, match="sees a set"):
            check_order(model, TOKENS)
    else:
        check_order(model, TOKENS)
        added = position in ("learned", "sinusoidal")
        with pytest.raises(BehaviourError, match=ADDED if added else WHO):
            check_permutation(model, TOKENS)


def test_vectors_pass_with_and_without_a_batch_in_numpy_and_torch():
    for x in (X, X[None], np.stack([X, 2 * X]), X[None, None], X.astype(np.float32)):
        check_permutation(attention, x)
        check_permutation(np.tanh, x)
    layer = nn.MultiheadAttention(D, H, batch_first=True).double()
    check_permutation(lambda x: layer(x, x, x)[0], torch.tensor(X))


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


ADDED = r"Even where all (vector|token)s are equal .* are positions added"
WHO = "Where all (vector|token)s are equal so are the outputs, .* a causal mask, a window, or rel"


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (partial(attention, position=PLACE), X, ADDED),
        (reshaped, X, ADDED + ".* or does a reshape mix places"),
        (lambda x: np.cumsum(x, axis=-2), X, ADDED + ".* does a state run along"),
        (partial(attention, mask=CAUSAL), X, WHO),
        (partial(attention, bias=ALIBI), X, WHO),
        (Layers(positions=1.0), TOKENS, ADDED),
        (Layers(causal=True), TOKENS, WHO),
    ],
)
def test_what_knows_the_order_is_named_with_how(model, x, message):
    with pytest.raises(BehaviourError, match=message):
        check_permutation(model, x)


def test_the_first_two_that_change_places_otherwise_are_named_and_by_how_much():
    def model(x):
        out = np.array(x, dtype=float)
        out[..., 4, :] += 0.25
        return out

    match = (
        r"when vectors 3 and 4 change places, the output of vector 4, now at place 3, is another "
        r"than before \(outputs differ by up to 0\.25\)\. Even"
    )
    with pytest.raises(BehaviourError, match=match):
        check_permutation(model, X)
    tokens = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 1, 2]])  # only those two differ
    with pytest.raises(BehaviourError, match=r"tokens 3 and 4 .* of token 4 of sequence 0, now at"):
        check_permutation(lambda t: t * (np.arange(5) < 4), tokens)


def test_an_order_that_only_a_long_way_shows_is_found_too():
    def first_and_last(x):
        return np.broadcast_to(x[0] > x[-1], x.shape) * 1.0

    with pytest.raises(BehaviourError, match="when vectors 0 and 3 change places"):
        check_permutation(first_and_last, np.array([[1.0], [2.0], [0.0], [0.5]]))


def test_equal_inputs_and_shapes_that_say_nothing_are_a_callers_mistake():
    for check, least in ((check_permutation, 2), (check_order, 3)):
        for x, error, message in (
            (TOKENS[:, : least - 1], ValueError, rf"T ≥ {least}, got \(3, {least - 1}\)"),
            (X[: least - 1], ValueError, f"T ≥ {least}"),
            (TOKENS[0], ValueError, r"tokens \(B, T\) or vectors .* got \(7,\)"),
            (X[0, 0], ValueError, r"got \(\)"),
            (TOKENS[:0], ValueError, r"got \(0, 7\)"),
            (TOKENS * 0, ValueError, "the tokens are all the same"),
            (X * 0, ValueError, "the vectors are all the same"),
            (TOKENS > 3, TypeError, "integers or floats, got bool"),
        ):
            with pytest.raises(error, match=message):
                check(lambda x: x, x)
    only_the_last = np.array([[4, 4, 4, 5]])
    check_permutation(lambda x: x, only_the_last)
    with pytest.raises(ValueError, match="all the same"):
        check_order(lambda x: x, only_the_last)


def test_outputs_that_belong_to_no_place_are_named():
    for check in (check_permutation, check_order):
        with pytest.raises(
            BehaviourError, match=r"\(3, 7\) gave .* \(7, 3, 10\), expected \(3, 7,"
        ):
            check(lambda t: TABLE[t].swapaxes(0, 1), TOKENS.numpy())
        with pytest.raises(BehaviourError, match=r"are the two axes exchanged"):
            check(lambda t: TABLE[t].swapaxes(0, 1), TOKENS.numpy())
        with pytest.raises(BehaviourError, match=r"outputs \(3, 10\), expected \(3, 7, …\)$"):
            check(lambda t: TABLE[t].sum(1), TOKENS.numpy())
        with pytest.raises(BehaviourError, match="is NaN"):
            check(lambda x: x * np.nan, X)
        with pytest.raises(BehaviourError, match="dropout"):
            check(nn.Sequential(nn.Embedding(V, D), nn.Dropout()), TOKENS)
        with pytest.raises(TypeError, match="a tuple"):
            check(lambda x: (x, x), X)


def test_inputs_stay_as_they_are_even_when_the_model_writes_on_them():
    x = X.copy()

    def model(x):
        y = x + x.sum(0)
        x[:] = 0
        return y

    check_permutation(model, x)
    assert (x == X).all()


# check_order


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (partial(attention, position=PLACE, mask=CAUSAL), X),
        (partial(attention, bias=ALIBI), X),
        (lambda x: np.cumsum(x * (1 + np.arange(T))[:, None], -2), X),
        (Layers(positions=0.02, causal=True), TOKENS),
        (Layers(positions=0.02), TOKENS),
        (Layers(causal=True, n_layers=2), TOKENS),  # the mask brings order into the second layer
    ],
)
def test_models_that_know_the_order_pass(model, x):
    check_order(model, x)


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_models_know_the_order(cell):
    torch.manual_seed(0)
    check_order(RecurrentLM(V, cell, embedding_dim=D, hidden_size=13), TOKENS)


def test_an_order_that_is_drowned_in_a_fresh_model_still_counts():
    """Fresh attention moves a float32 output by a few units in the last place."""
    check_order(ours(TransformerLM, "sinusoidal", n_layers=1).float(), TOKENS, tolerance=1.0)
    with pytest.raises(BehaviourError, match="sees a set"):
        check_order(ours(TransformerLM, "none", n_layers=1).float(), TOKENS)


SET = r"order of the \w+ before it changes no output by more than .*e-\d\d, other .*sees a"


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (attention, X),
        (partial(attention, mask=CAUSAL), X),
        (partial(attention, position=PLACE[4], mask=CAUSAL), X),  # one position for all
        (lambda x: np.cumsum(x, -2), X),
        (Layers().double(), TOKENS),
        (Layers(n_layers=3).double(), TOKENS),
        (Layers(causal=True).double(), TOKENS),
    ],
)
def test_a_model_that_sees_a_set_is_named(model, x):
    with pytest.raises(BehaviourError, match=SET + " set. Are there positions, and has each"):
        check_order(model, x)


def test_a_set_is_recognised_behind_the_rounding_of_every_precision():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        with pytest.raises(BehaviourError, match=r"sees a set|are they read"):
            check_order(Layers(n_layers=2).to(dtype), TOKENS)


def test_a_model_that_reads_nothing_before_is_told_from_one_that_sees_a_set():
    with pytest.raises(BehaviourError, match=r"no output by more than 0, and .*: are they read"):
        check_order(TABLE.__getitem__, TOKENS.numpy())


def test_an_order_that_only_one_pair_has_is_enough():
    def model(x):
        return np.arange(T)[:, None] * (x[..., :1, :] > x[..., T - 2 : T - 1, :])

    check_order(model, np.arange(T)[:, None] * 1.0)


# check_cache


class ToyCache:
    """The vectors read so far, (B, S, D)."""

    def __init__(self, x=None):
        self.x = x

    @property
    def length(self):
        return 0 if self.x is None else self.x.shape[1]

    def fork(self):
        return ToyCache(self.x)


class Toy(nn.Module):
    """A causal attention layer with learned positions whose cache is the vectors read so far."""

    def __init__(self, bug=""):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.positions, self.bug = nn.Parameter(torch.randn(4 * T, D)), bug
        self.double()

    def new_cache(self):
        return ToyCache()

    def forward(self, tokens, cache=None):
        if cache is None:
            return self._read(tokens, None)[0]
        out, x = self._read(tokens, None if self.bug == "cache unused" else cache.x)
        if self.bug == "other":
            out = out + 1e-3
        cache.x = x if cache.x is None or self.bug != "cache unused" else torch.cat([cache.x, x], 1)
        return out

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


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_recurrent_models_read_in_pieces(cell, dtype):
    torch.manual_seed(0)
    check_cache(RecurrentLM(V, cell, embedding_dim=D, hidden_size=13, n_layers=2).to(dtype), TOKENS)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_librarys_transformer_reads_in_pieces_with_every_position(position, dtype):
    check_cache(ours(TransformerLM, position).to(dtype), TOKENS)


def test_a_rotation_that_begins_anew_is_found_in_a_fresh_float32_model():
    model = ours(TransformerLM, "rotary").float()
    rotary = model.stack.blocks[0].attention.rotary  # one for all blocks
    turn = rotary.forward
    rotary.forward = lambda x, positions=None: turn(x)
    with pytest.raises(BehaviourError, match=r"pieces \(1, .*Does each piece begin at position 0"):
        check_cache(model, TOKENS)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_a_cache_that_is_right_passes(n):
    check_cache(Toy(), TOKENS[:, :n])


@pytest.mark.parametrize(
    ("bug", "message"),
    [
        ("cache unused", r"7 pieces \(1, .* at token 1 of sequence 0 .*: is the cache used, and"),
        ("position", r"7 pieces .* at token 1 .*Does each piece begin at position 0, or"),
        ("mask", r"4 pieces \(2, 2, 2, 1\), .* at token 2 .*Token by token it is right: .* S − T$"),
        ("open", r"4 pieces \(2, 2, 2, 1\), .* at token 2 .*query i may read"),
        ("other", r"1 pieces \(7\), .* at token 0 .* by up to 0.001\)\. Even in one piece"),
    ],
)
def test_a_cache_that_is_wrong_is_named_with_the_mistake(bug, message):
    with pytest.raises(BehaviourError, match=message):
        check_cache(Toy(bug), TOKENS)


class Buffer(ToyCache):
    """Forks write into one list: what one of them reads, the others lose."""

    def fork(self):
        return self


def test_a_fork_that_writes_on_its_cache_is_named():
    toy = Toy()
    toy.new_cache = Buffer
    with pytest.raises(BehaviourError, match=r"token 3 is another .*: does a fork write on"):
        check_cache(toy, TOKENS[:, :6])


def test_a_cache_that_miscounts_is_named():
    toy = Toy()
    toy.new_cache = type("Miscounting", (ToyCache,), {"length": 1})
    with pytest.raises(BehaviourError, match="after 7 tokens the cache has the length 1"):
        check_cache(toy, TOKENS)


def test_a_difference_in_one_sequence_and_one_place_is_found():
    class Late(Toy):
        def forward(self, tokens, cache=None):
            n = 0 if cache is None else cache.length
            out = super().forward(tokens, cache)
            extra = torch.zeros_like(out)
            if n == 5:
                extra[2, 0, 3] = 0.5
            return out + extra

    with pytest.raises(BehaviourError, match=r"token 5 of sequence 2 .* by up to 0\.5\)"):
        check_cache(Late(), TOKENS)
    check_cache(Late(), TOKENS, tolerance=1.0)


def test_a_model_without_a_cache_is_a_callers_mistake_and_a_wrong_form_is_the_models():
    with pytest.raises(TypeError, match="Embedding has no new_cache"):
        check_cache(nn.Embedding(V, D), TOKENS)
    for tokens in (TOKENS[0], TOKENS[:, :1], TOKENS[:0], TOKENS * 1.0):
        with pytest.raises(ValueError, match="T ≥ 2, got"):
            check_cache(Toy(), tokens)
    odd = Toy()
    odd.forward = lambda tokens, cache=None: Toy.forward(odd, tokens)[
        :, -1 if cache else slice(None)
    ]
    with pytest.raises(BehaviourError, match=r"tokens \(3, 7\) gave outputs \(3, 11\), expected"):
        check_cache(odd, TOKENS)
    odd.forward = lambda tokens: TABLE[tokens].sum(1)
    with pytest.raises(BehaviourError, match=r"outputs \(3, 10\), expected \(B, T, V\)"):
        check_cache(odd, TOKENS)
    odd.forward = lambda tokens: TABLE[tokens] * np.nan
    with pytest.raises(BehaviourError, match="NaN"):
        check_cache(odd, TOKENS)


# check_source


def translate(source, target, use=None):
    """Cross-attention from embedded target to embedded source, which `use` may maim."""
    x = TABLE[source] + 0.1 * np.arange(S)[:, None]
    return TABLE[target] + attention(TABLE[target], source=x if use is None else use(x))


class Translator(nn.Module):
    def __init__(self, bug=False):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, D)
        self.attention = nn.MultiheadAttention(D, H, batch_first=True)
        self.bug = bug

    def forward(self, source, target):
        x, y = self.embedding(source), self.embedding(target)
        x = y if self.bug else x
        return y + self.attention(y, x, x)[0]


def test_a_model_that_reads_its_whole_source_passes():
    check_source(translate, SOURCE.numpy(), TOKENS.numpy())
    for dtype in (torch.float32, torch.float64):
        check_source(Translator().to(dtype), SOURCE, TOKENS)
    vectors = torch.tensor(TABLE)[SOURCE]
    layer = nn.MultiheadAttention(D, H, batch_first=True).double()
    check_source(lambda x, y: layer(y, x, x)[0], vectors, vectors[:, :2])


def test_the_librarys_translator_reads_its_source_and_without_its_weights_does_not():
    model = ours(EncoderDecoder, "learned")
    check_source(model, SOURCE, TOKENS)
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.cross.o_proj.weight.zero_()
    with pytest.raises(BehaviourError, match="no output changes when the source does"):
        check_source(model, SOURCE, TOKENS)


def test_a_source_that_is_never_read_is_named():
    message = "no output changes when the source does: do keys and values come from the target"
    with pytest.raises(BehaviourError, match=message):
        check_source(Translator(bug=True), SOURCE, TOKENS)
    with pytest.raises(BehaviourError, match=message):
        check_source(lambda s, t: TABLE[t], SOURCE.numpy(), TOKENS.numpy())


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda x: x[:, -1:],
            "sequence 0 changes with position 0 of its source; it reads position 4 of 5",
        ),
        (lambda x: x[:, :-1], "with position 4 of its source; it reads positions 0, 1, 2, 3 of 5"),
        (
            lambda x: np.where((np.arange(B) == 1)[:, None, None], 0, x),
            "output of sequence 1 changes with position 0 of its source; it reads none of 5",
        ),
    ],
)
def test_the_first_place_of_the_source_that_nothing_reads_is_named(use, message):
    with pytest.raises(BehaviourError, match=message):
        check_source(partial(translate, use=use), SOURCE.numpy(), TOKENS.numpy())


@given(st.integers(0, B - 1), st.integers(0, T - 1))
@settings(max_examples=15, deadline=None)
def test_the_one_output_that_reads_nothing_is_named(sequence, place):
    def model(source, target):
        out = translate(source, target)
        out[sequence, place] = 0
        return out

    with pytest.raises(
        BehaviourError, match=f"position {place} of sequence {sequence} changes with no .* those"
    ):
        check_source(model, SOURCE.numpy(), TOKENS.numpy())


def test_a_part_that_is_drowned_does_not_count_when_a_tolerance_says_so():
    def model(source, target):
        return TABLE[target] + 1e-9 * translate(source, target)

    check_source(model, SOURCE.numpy(), TOKENS.numpy())
    with pytest.raises(BehaviourError, match=r"no output changes by more than \d\.?\d*e-09 when"):
        check_source(model, SOURCE.numpy(), TOKENS.numpy(), tolerance=1e-6)


def test_sources_and_outputs_that_do_not_fit_are_named():
    for source, target, error, message in (
        (SOURCE[:2], TOKENS, ValueError, r"one B, got \(2, 5\) and \(3, 7\)"),
        (SOURCE[0], TOKENS, ValueError, r"source needs integers \(B, n\) .* got \(5,\)"),
        (SOURCE, TOKENS * 1.0, ValueError, r"target needs .* got \(3, 7\)"),
        (SOURCE, TOKENS[:, :0], ValueError, r"target needs .* got \(3, 0\)"),
        (SOURCE > 2, TOKENS, TypeError, "source needs integers or floats, got bool"),
        (SOURCE * 0, TOKENS, ValueError, "all tokens are 0: there is no other id"),
    ):
        with pytest.raises(error, match=message):
            check_source(Translator(), source, target)
    ids = SOURCE.numpy(), TOKENS.numpy()
    with pytest.raises(BehaviourError, match=r"gave outputs \(3, 10\), expected \(3, 7, …\)"):
        check_source(lambda s, t: translate(s, t).sum(1), *ids)
    with pytest.raises(BehaviourError, match="are the two axes exchanged"):
        check_source(lambda s, t: translate(s, t).swapaxes(0, 1), *ids)
    with pytest.raises(BehaviourError, match=r"at \(0, 0, 0\) is NaN"):
        check_source(lambda s, t: translate(s, t) * np.nan, *ids)
    with pytest.raises(BehaviourError, match="dropout"):
        check_source(lambda s, t: nn.functional.dropout(torch.ones(B, T)), SOURCE, TOKENS)


def test_no_gradient_is_kept_and_no_mode_changed():
    model, toy = Translator().eval(), Toy().eval()
    check_source(model, SOURCE, TOKENS)
    check_cache(toy, TOKENS)
    assert all(p.grad is None for m in (model, toy) for p in m.parameters())
    assert not model.training
    assert not toy.training
