"""Bytes of training: what torch's optimisers hold, and what autograd saves for its way back."""

import functools

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from unrolled.accounting.cost import activation_bytes, parameters, state_bytes
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig, preset

V, B, T, H, K, LAYERS = 101, 3, 37, 3, 16, 3
SIZES = {"vocab_size": V, "d_model": 48, "n_layers": LAYERS, "n_heads": H, "d_ff": 206}
# Settings that change what is saved; torch's kernels keep what the formula counts for all of them.
VARIANTS = {
    "gpt2": {}, "relu after": {"activation": "relu", "norm_first": False},
    "gated": {"activation": "swiglu", "position": "rotary", "bias": False},
    "gated relu": {"activation": "reglu"}, "grouped": {"n_kv_heads": 1, "head_dim": 18},
    "parallel": {"parallel": True, "position": "rotary-interleaved"},
    "embedding norm": {"embedding_norm": True, "tie_embeddings": False, "position": "sinusoidal"},
    "t5": {"scale_logits": True, "scale_embedding": True, "scale_scores": False},
    "last norm": {"norm_first": False, "final_norm": True},
    # With a bias of the scores a CPU has no fused kernel.
    "alibi": {"position": "alibi"}, "grouped alibi": {"position": "alibi", "n_kv_heads": 1},
}  # fmt: skip


def config(**changes) -> TransformerConfig:
    return TransformerConfig(**SIZES | {"context_length": 41} | changes)


def saved(model, tokens) -> dict[str, int]:
    """Bytes that autograd keeps of a pass with its loss: in wide tensors, and in all."""
    kept, outside = [], [*model.parameters(), *model.buffers(), tokens]

    def keep(x):
        kept.append(x)  # held, so that no other tensor takes its place
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        logits = model(tokens)
        F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    known = {x.untyped_storage().data_ptr() for x in outside}
    sizes = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in kept}
    sizes = [n for address, n in sizes.items() if address not in known]
    wide = B * T * K * 4  # a number for each token and entry of a head
    return {"wide": sum(n for n in sizes if n >= wide), "all": sum(sizes)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_activations_are_what_autograd_saves(variant):
    c, stored = config(**VARIANTS[variant]), "alibi" in variant
    found = saved(TransformerLM(c), torch.randint(V, (B, T)))
    expected = activation_bytes(c, T, batch=B, stored_scores=stored)
    assert expected["scores"] == stored * LAYERS * B * H * T * T * 4
    total = expected["total"]
    if c.has_rotary:  # then a CPU's kernel gives its output by heads, and autograd keeps a copy
        total += B * T * LAYERS * H * K * 4
    assert found["wide"] == total
    if not stored:
        assert found["all"] == pytest.approx(total, rel=0.025)  # statistics, angles, indices


def test_dropout_keeps_a_mask_for_each_sub_layer_and_the_embeddings():
    """On a CPU torch keeps four bytes of a mask, the formula one, as on a GPU."""
    tokens = torch.randint(V, (B, T))
    for rate in ("residual_dropout", "embedding_dropout"):
        dropped, plain = config(**{rate: 0.1}), config()
        found = [saved(TransformerLM(c), tokens)["wide"] for c in (dropped, plain)]
        expected = [activation_bytes(c, T, batch=B)["total"] for c in (dropped, plain)]
        assert found[0] - found[1] == 4 * (expected[0] - expected[1]) > 0


def test_with_checkpointing_blocks_keep_their_inputs_and_one_all_of_its_own():
    c, tokens = config(), torch.randint(V, (B, T))
    whole, one = (saved(TransformerLM(c.replace(n_layers=n)), tokens)["wide"] for n in (2, 1))
    block = whole - one
    model = TransformerLM(c)
    for b in model.stack.blocks:
        b.forward = functools.partial(checkpoint, b.forward, use_reentrant=False)
    kept = saved(model, tokens)["wide"]
    got = activation_bytes(c, T, batch=B, checkpointing=True)
    x = B * T * c.d_model * 4
    assert kept == got["total"] - block + x  # the input of the block at work is one of those kept
    assert got["head"] == activation_bytes(c, T, batch=B)["head"]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gpt2_by_the_published_formula(dropout):
    """Korthikanti et al. (2022), equation 1: s·b·h·(34 + 5·a·s/h) bytes for each layer."""
    c, s, b, h, a = preset("gpt2", dropout=dropout), 1024, 32, 768, 12
    got = activation_bytes(c, s, batch=b, dtype=torch.bfloat16, stored_scores=True)
    per_token, per_score = (34, 5) if dropout else (32, 2)
    layers = got["layers"] - s * b * h * (dropout > 0)  # and the mask of the embeddings
    assert layers == 12 * s * b * h * per_token
    assert got["scores"] == 12 * s * b * per_score * a * s
    if dropout:
        assert (layers + got["scores"]) / 2**30 == pytest.approx(32, abs=0.1)
        assert layers / 2**30 == pytest.approx(9.6, abs=0.05)
    assert activation_bytes(c, s)["scores"] == 0


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("sgd", torch.optim.SGD, {}),
        ("momentum", torch.optim.SGD, {"momentum": 0.9}),
        ("adamw", torch.optim.AdamW, {}),
    ],
)
def test_state_is_what_torch_holds_after_a_step(name, kind, options):
    c = config(activation="swiglu", n_kv_heads=1)
    model = TransformerLM(c)
    optimiser = kind(model.parameters(), lr=0.1, **options)
    model(torch.randint(V, (B, T))).sum().backward()
    optimiser.step()
    states = [x for state in optimiser.state.values() for x in state.values()]
    found = {
        "weights": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(p.grad.nbytes for p in model.parameters()),
        "optimiser": sum(x.nbytes for x in states if isinstance(x, torch.Tensor) and x.ndim),
    }
    assert state_bytes(c, optimiser=name) == found | {"total": sum(found.values())}


def test_adam_holds_sixteen_bytes_for_each_parameter_in_single_and_in_mixed_precision():
    c = preset("gpt3", n_layers=4)
    n, half = parameters(c)["total"], state_bytes(c, dtype=torch.bfloat16)
    assert state_bytes(c)["total"] == half["total"] == 16 * n
    assert half["weights"] == 2 * n
    assert state_bytes(c, dtype=torch.bfloat16, optimiser="sgd")["optimiser"] == 4 * n
    assert state_bytes(preset("t5-small"), "encoder-decoder")["weights"] == 4 * 60_506_624
