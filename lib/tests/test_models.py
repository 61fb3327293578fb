"""What every model of the library must do, whatever is inside: one suite over all of them."""

import copy
import itertools
import math
import re
from functools import partial

import pytest
import torch
from comparing import close, passes_gradcheck, randomised, up_to
from torch import nn
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.recurrent_cells import CELLS
from unrolled.models.recurrent_lm import RecurrentLM, SelectiveLM
from unrolled.models.seq2seq import QUERIES, SCORES, Seq2Seq
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import POSITIONS, TransformerConfig
from unrolled_book.behaviour import (
    check_batch,
    check_cache,
    check_causal,
    check_padding,
    check_source,
)

V, B, S, T, CUT = 11, 3, 7, 6, 2
DTYPE = torch.float64
RNG = torch.Generator().manual_seed(1)
TOKENS = torch.randint(V, (B, T), generator=RNG)
SOURCE = torch.randint(V, (B, S), generator=RNG)
REAL, SOURCE_REAL = up_to(6, 3, 1, width=T), up_to(7, 3, 1, width=S)


class Reading(nn.Module):
    """A model with a source as a model of its target alone."""

    def __init__(self, model):
        super().__init__()
        self.model, self.new_cache = model, model.new_cache
        self.register_buffer("source", SOURCE)
        self.register_buffer("mask", SOURCE_REAL)

    def forward(self, tokens, *, cache=None):
        n = len(tokens)
        return self.model(self.source[:n], tokens, self.mask[:n], cache=cache)


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": V, "d_model": 12, "n_layers": 2, "n_heads": 3, "d_ff": 19}
    return TransformerConfig(**sizes | {"context_length": 17} | changes)


def recurrent(cell, **options):
    return RecurrentLM(V, cell, **{"embedding_dim": 5, "hidden_size": 7, "n_layers": 2} | options)


def neural(**options):
    sizes = {"context_length": 3, "embedding_dim": 5, "hidden_size": 7}
    return NeuralLM(NeuralLMConfig(vocab_size=V, **sizes | options))


def seq2seq(score=None, query="current", **options):
    sizes = {"embedding_dim": 5, "hidden_size": 6, "n_layers": 2}
    return Seq2Seq(V, V, attention=score, query=query, **sizes | options)


# Besides the seven kinds of position: what else changes who reads whom.
VARIANTS = {
    "window": {"window": 3, "position": "rotary"},
    "grouped": {"n_kv_heads": 1, "position": "alibi"},
    "gated": {"bias": False, "activation": "swiglu", "window": 2, "position": "alibi"},
    "embedding norm": {"embedding_norm": True, "norm": "rms", "tie_embeddings": False},
    "narrow heads": {"head_dim": 10, "position": "rotary", "rotary_dim": 6},
    "parallel": {"parallel": True, "position": "rotary-interleaved", "n_kv_heads": 1},
    "2017": {"norm_first": False, "position": "sinusoidal", "scale_embedding": True},
    "t5": {"norm": "rms", "position": "relative", "scale_scores": False, "scale_logits": True,
           "n_buckets": 8, "max_distance": 6},
}  # fmt: skip
SETTINGS = {position: {"position": position} for position in POSITIONS} | VARIANTS
TRANSFORMERS = {
    name: lambda changes=changes: TransformerLM(config(**changes))
    for name, changes in SETTINGS.items()
}
STATES = {
    **{cell: partial(recurrent, cell) for cell in CELLS},
    "lstm tied": partial(recurrent, "lstm", tie_embeddings=True, implementation="reference"),
    "selective": partial(
        SelectiveLM, V, d_model=5, n_layers=2, d_inner=7, d_state=3, step_rank=2, conv_width=4
    ),
}
NEURAL = {
    "neural": neural,
    "neural direct": partial(neural, direct_connections=True),
    "neural tied": partial(neural, tie_embeddings=True),
    "neural tied direct": partial(
        neural, tie_embeddings=True, embedding_dim=7, direct_connections=True
    ),
}
KINDS = [(None, "current"), *itertools.product(SCORES, QUERIES)]
TRANSLATORS = {f"{score} {query}": partial(seq2seq, score, query) for score, query in KINDS} | {
    "additive lstm": partial(seq2seq, "additive", "previous", cell="lstm"),
    "dot one way": partial(seq2seq, "dot", cell="elman", bidirectional=False, n_layers=1),
}
PAIRS = {
    f"encoder–decoder {position}": lambda position=position: EncoderDecoder(
        config(position=position)
    )
    for position in POSITIONS
}
READERS = {name: lambda make=make: Reading(make()) for name, make in (TRANSLATORS | PAIRS).items()}
MODELS = TRANSFORMERS | STATES | NEURAL | READERS
FAMILIES = "rotary", "gru", "selective", "neural direct"


def of(models: dict):
    return pytest.mark.parametrize("make", models.values(), ids=models)


def made(make, std=0.5) -> nn.Module:
    return randomised(make(), std).eval()


@of(MODELS)
def test_no_output_reads_a_later_token_or_another_sequence_at_once_or_in_pieces(make):
    model = made(make)
    check_causal(model, TOKENS)
    check_cache(model, TOKENS, tolerance=1e-10)
    if not isinstance(model, Reading):
        check_batch(model, TOKENS)


@of(TRANSFORMERS)
def test_padding_changes_nothing(make, device):
    check_padding(made(make).to(device), TOKENS.to(device), REAL.to(device))


@pytest.mark.parametrize("position", POSITIONS)
def test_an_encoder_reads_both_ways_but_no_padding(position):
    encoder = made(lambda: Encoder(config(position=position)))
    check_padding(encoder, TOKENS, REAL)
    check_batch(encoder, TOKENS)
    x = encoder.embedding(TOKENS).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(encoder.stack(x)[:, 0].sum(), x)
    assert gradient.any(-1).all()


@of(TRANSLATORS | PAIRS)
def test_each_output_reads_the_whole_source_but_no_padding(make):
    model, x, y = made(make), SOURCE[:1], TOKENS[:1]
    check_source(model, SOURCE, TOKENS)
    check_padding(lambda x, mask: model(x, y.expand(len(x), T), mask)[:, 0], SOURCE, SOURCE_REAL)
    if isinstance(model, EncoderDecoder):
        check_padding(lambda y, m: model(x.expand(len(y), S), y, None, m), TOKENS, REAL)


@of(TRANSFORMERS | STATES | READERS)
def test_chosen_rows_of_a_cache_go_on_as_if_they_had_been_read_alone(make):
    model, rows = made(make), torch.tensor([2, 0, 2, 2])
    cache, whole = model.new_cache(), model(TOKENS)[:, CUT:]
    cache.select(rows)  # nothing was read yet
    model(TOKENS[:, :CUT], cache=cache)
    fork = cache.fork()
    fork.select(rows)
    close(model(TOKENS[rows, CUT:], cache=fork), whole[rows], 1e-10)
    assert (cache.length, fork.length) == (CUT, T)
    close(model(TOKENS[:, CUT:], cache=cache), whole, 1e-10)


# The others leave it to torch, whose message says less.
REFUSING = [name for name in MODELS if not re.search("selective|previous|additive lstm", name)]


@of({name: MODELS[name] for name in REFUSING})
def test_a_refused_piece_leaves_the_cache_as_it_was(make):
    model = made(make)
    cache = model.new_cache()
    model(TOKENS[:, :CUT], cache=cache)
    with pytest.raises(ValueError, match=r"must have shape|holds \(B, G\)|has read 3 rows, got 1"):
        model(TOKENS[:1], cache=cache)
    assert cache.length == CUT
    close(model(TOKENS[:, CUT:], cache=cache), model(TOKENS)[:, CUT:], 1e-10)


@of(MODELS)
def test_gradients_flow_through_all_that_was_read_until_it_is_detached(make):
    model = made(make)
    cache, parameters = model.new_cache(), list(model.parameters())

    def gradients(*logits):
        loss = sum(x.logsumexp(-1).sum() for x in logits)
        return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)

    first = model(TOKENS[:, :CUT], cache=cache)
    fork = cache.fork()
    rest = model(TOKENS[:, CUT:], cache=fork)
    close(gradients(first, rest), gradients(model(TOKENS)), 1e-9)
    model.new_cache().detach()  # a new cache has nothing to cut
    cache.detach()
    cut = gradients(model(TOKENS[:, CUT:], cache=cache))
    modes = [torch.no_grad, torch.inference_mode]
    if isinstance(getattr(model, "model", model), SelectiveLM | Seq2Seq):
        modes.pop()  # a gradient needs what these have kept
    for mode in modes:
        begun = model.new_cache()
        with mode():
            model(TOKENS[:, :CUT], cache=begun)
        close(cut, gradients(model(TOKENS[:, CUT:], cache=begun)))
    assert cut[0].isfinite().all()


@of(MODELS)
def test_a_fresh_model_knows_nothing_and_a_seed_a_copy_and_a_state_dict_give_the_same(make):
    torch.manual_seed(7)
    one = make().eval()
    torch.manual_seed(7)
    logits = make().eval()(TOKENS)
    close(logits, one(TOKENS), 0)
    assert isinstance(one, Reading) or abs(logits.log_softmax(-1).mean() + math.log(V)) < 0.2
    one, other = randomised(one), make().eval()
    expected = one(TOKENS)
    other.load_state_dict(one.state_dict())
    close(other(TOKENS), expected, 0)
    close(copy.deepcopy(one)(TOKENS), expected, 0)


@of(MODELS)
def test_every_device_gives_the_same(make, device):
    model = made(make)
    expected = model(TOKENS)
    got = model.to(device)(TOKENS.to(device))
    assert got.device.type == device
    close(got.cpu(), expected, 1e-10)
    cache = model.new_cache()
    pieces = [model(x.to(device), cache=cache).cpu() for x in TOKENS.tensor_split([CUT], 1)]
    close(torch.cat(pieces, 1), expected, 1e-10)


WITH_GRADIENTS = (*STATES, *NEURAL, "None current", "dot previous", "additive current")


@of({name: MODELS[name] for name in (*WITH_GRADIENTS, "bilinear previous")})
def test_gradients_agree_with_finite_differences(make):
    assert passes_gradcheck(made(make), TOKENS[:2, :3], fast_mode=True)


@of({
    "recurrent": partial(recurrent, "gru", dropout=0.3),
    "recurrent of one layer": partial(recurrent, "lstm", dropout=0.3, n_layers=1),
})  # fmt: skip
def test_dropout_acts_in_training_only_and_follows_the_seed(make):
    model = made(make)
    close(model(TOKENS), model(TOKENS), 0)
    model.train()
    recurrent = model.recurrent
    assert recurrent.dropout == (0.3 if recurrent.n_layers > 1 else 0)
    torch.manual_seed(1)
    first = model(TOKENS)
    assert (model(TOKENS) != first).any()
    torch.manual_seed(1)
    close(model(TOKENS), first, 0)


@of({name: MODELS[name] for name in (*FAMILIES, "None current")})
def test_tokens_that_do_not_fit_are_refused(make):
    for tokens, said in ((TOKENS.clamp(max=9) + 2, "0 and 10, got 2 to 11"), (-TOKENS, "got -10")):
        with pytest.raises(IndexError, match=said):
            make()(tokens)
