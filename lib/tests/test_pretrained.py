"""Published families: our models give the logits that the library `transformers` gives.

Its models are made here from small random configurations; nothing is downloaded.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained import FAMILIES, config_from, load
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import PRESETS

V, LAYERS, B, T, S, CONTEXT, HIDDEN = 53, 3, 2, 11, 13, 17, 37
GPT2 = {"vocab_size": V, "n_positions": CONTEXT, "n_layer": LAYERS, "n_embd": 20, "n_head": 5}
ENDS = {"bos_token_id": 0, "eos_token_id": 0}
LLAMA = ENDS | {
    "vocab_size": V, "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 6,
    "intermediate_size": HIDDEN, "max_position_embeddings": CONTEXT,
}  # fmt: skip
BLOOM = ENDS | {"vocab_size": V, "hidden_size": 24, "n_layer": LAYERS}
OPT = ENDS | {
    "vocab_size": V, "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 6,
    "ffn_dim": HIDDEN, "max_position_embeddings": CONTEXT, "pad_token_id": 1,
}  # fmt: skip
T5 = {
    "vocab_size": V, "d_model": 24, "d_kv": 5, "d_ff": HIDDEN, "num_layers": LAYERS, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 11,
}  # fmt: skip
BERT = {
    "vocab_size": V, "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 6,
    "intermediate_size": HIDDEN, "max_position_embeddings": CONTEXT, "type_vocab_size": 3,
}  # fmt: skip
# family, what its classes are called there, and sizes
CASES = {
    "bert": ("bert", "Bert", BERT),
    "bert relu": ("bert", "Bert", BERT | {"hidden_act": "relu", "layer_norm_eps": 1e-3}),
    "gpt2": ("gpt2", "GPT2", GPT2 | ENDS | {"n_inner": HIDDEN}),
    "gpt2 relu": ("gpt2", "GPT2", GPT2 | ENDS | {"activation_function": "relu"}),
    "gpt2 untied": ("gpt2", "GPT2", GPT2 | ENDS | {"tie_word_embeddings": False}),
    "gpt": ("openai-gpt", "OpenAIGPT", GPT2 | ENDS),
    "llama": ("llama", "Llama", LLAMA),
    "llama grouped": ("llama", "Llama", LLAMA | {"num_key_value_heads": 2}),
    "llama wide": ("llama", "Llama", LLAMA | {
        "num_key_value_heads": 1, "head_dim": 10, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    }),
    "bloom 6": ("bloom", "Bloom", BLOOM | {"n_head": 6}),
    "bloom 8": ("bloom", "Bloom", BLOOM | {"n_head": 8}),
    "opt": ("opt", "OPT", OPT),
    "t5 relu": ("t5", "T5", T5),
    "t5 gated": ("t5", "T5", T5 | {"feed_forward_proj": "gated-gelu",
                                   "tie_word_embeddings": False}),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES)
HEADS = {
    "Bert": "Model", "GPT2": "LMHeadModel", "OpenAIGPT": "LMHeadModel", "Llama": "ForCausalLM",
    "Bloom": "ForCausalLM", "OPT": "ForCausalLM", "T5": "ForConditionalGeneration",
}  # fmt: skip
# In double precision: theirs compute angles (LLaMA) and the softmax (BLOOM) in single precision.
EXACT = {"llama": 1e-5, "bloom": 1e-5}


@pytest.fixture
def exact_norms(transformers, monkeypatch):
    """Theirs compute an RMS norm in single precision on purpose; here it keeps its input's."""

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.variance_epsilon)

    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    monkeypatch.setattr(LlamaRMSNorm, "forward", forward)
    monkeypatch.setattr(T5LayerNorm, "forward", forward)


def close(got, expected, tolerance):
    assert_close(got, expected, rtol=0, atol=tolerance)


def reference(transformers, case, dtype=torch.float64, **changes):
    """Their model with random weights, biases and norms included, and its configuration."""
    _, name, sizes = CASES[case]
    configuration = getattr(transformers, name + "Config")(**(sizes | changes))
    torch.manual_seed(0)
    model = getattr(transformers, name + HEADS[name])(configuration).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter, std=0.2)
            if parameter.ndim == 1 and name.endswith("weight"):
                parameter.add_(1)
    return model, configuration


def ours_like(theirs, configuration, family, dtype=torch.float64, **changes):
    kind = {"t5": EncoderDecoder, "bert": Encoder}.get(family, TransformerLM)
    model = kind(config_from(configuration, family).replace(**changes)).to(dtype).eval()
    load(model, theirs.state_dict(), family)
    return model


def logits(ours, theirs, family, device="cpu"):
    """(ours, theirs) for the same random tokens."""
    tokens, source = torch.randint(V, (B, T)), torch.randint(V, (B, S))
    tokens, source = tokens.to(device), source.to(device)
    with torch.no_grad():
        if family == "t5":
            expected = theirs(input_ids=source, decoder_input_ids=tokens).logits
            return ours(source, tokens), expected
        if family == "bert":
            return ours(tokens), theirs(tokens).last_hidden_state
        return ours(tokens), theirs(tokens).logits


# --- parity --------------------------------------------------------------------------------------


@every_case
def test_logits_are_the_references_in_double_precision(transformers, exact_norms, case, device):
    family = CASES[case][0]
    theirs, configuration = reference(transformers, case)
    ours = ours_like(theirs, configuration, family).to(device)
    got, expected = logits(ours, theirs.to(device), family, device)
    assert expected.std() > 0.1
    close(got, expected, EXACT.get(family, 1e-12))


@every_case
def test_logits_are_the_references_in_single_precision(transformers, case):
    family = CASES[case][0]
    theirs, configuration = reference(transformers, case, torch.float32)
    ours = ours_like(theirs, configuration, family, torch.float32)
    close(*logits(ours, theirs, family), 1e-4)


@pytest.mark.parametrize("case", ["gpt2", "t5 relu", "t5 gated"])
def test_gradients_are_the_references(transformers, exact_norms, case):
    """After one backward pass the references' gradients, loaded as weights, are ours."""
    family = CASES[case][0]
    theirs, configuration = reference(transformers, case)
    ours = ours_like(
        theirs, configuration, family, tie_embeddings=True
    )  # as theirs are in any case
    tokens, source = torch.randint(V, (B, T)), torch.randint(V, (B, S))
    if family == "t5":
        got, expected = ours(source, tokens), theirs(input_ids=source, decoder_input_ids=tokens)
    else:
        got, expected = ours(tokens), theirs(tokens)
    weights = torch.linspace(-1, 2, got.numel(), dtype=got.dtype).view(got.shape)
    (weights * got).sum().backward()
    (weights * expected.logits).sum().backward()
    named = theirs.named_parameters(remove_duplicate=False)
    gradients = ours_like(theirs, configuration, family, tie_embeddings=True)
    load(gradients, {name: p.grad for name, p in named}, family)
    for name, parameter in ours.named_parameters():
        close(parameter.grad, gradients.get_parameter(name).data, 1e-12)


@pytest.mark.parametrize("case", ["bert", "bert relu"])
def test_berts_vectors_under_padding_and_types_are_the_references(transformers, case, device):
    theirs, configuration = reference(transformers, case)
    ours = ours_like(theirs, configuration, "bert").to(device)
    tokens, types = torch.randint(V, (4, T)), torch.randint(3, (4, T))
    mask = torch.arange(T) < torch.tensor([T, 5, 1, 8])[:, None]
    tokens, types, mask = (x.to(device) for x in (tokens, types, mask))
    with torch.no_grad():
        got = ours(tokens, mask, types)
        expected = theirs.to(device)(
            tokens, attention_mask=mask.long(), token_type_ids=types
        ).last_hidden_state
    assert expected.std() > 0.1
    close(got[mask], expected[mask], 1e-10)


@pytest.mark.parametrize("case", ["llama", "llama grouped"])
def test_llamas_weights_load_into_the_interleaved_layout(transformers, exact_norms, case):
    theirs, configuration = reference(transformers, case)
    ours = ours_like(theirs, configuration, "llama", position="rotary-interleaved")
    close(*logits(ours, theirs, "llama"), 1e-5)
    halves = ours_like(theirs, configuration, "llama")
    tokens = torch.randint(V, (B, T))
    close(ours(tokens), halves(tokens), 1e-12)


@pytest.mark.parametrize(
    ("case", "where"),
    [("gpt2", "h"), ("llama grouped", "layers"), ("bloom 6", "h"), ("bert", "encoder.layer")],
)
def test_a_block_loads_alone(transformers, case, where):
    theirs, configuration = reference(transformers, case)
    family = CASES[case][0]
    whole = ours_like(theirs, configuration, family)
    layer = theirs.base_model.get_submodule(where)[1]
    block = Block(whole.config.replace(vocab_size=None), causal=family != "bert").double()
    load(block, layer.state_dict(), family)
    for name, expected in whole.stack.blocks[1].state_dict().items():
        close(block.state_dict()[name], expected, 0)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_block_of_either_side_loads_alone(transformers, side):
    theirs, configuration = reference(transformers, "t5 relu")
    whole, decodes = ours_like(theirs, configuration, "t5"), side == "decoder"
    layer = theirs.base_model.get_submodule(f"{side}.block")[1]
    block = Block(whole.config.replace(vocab_size=None), causal=decodes, cross=decodes).double()
    load(block, layer.state_dict(), "t5")
    for name, expected in getattr(whole, side).blocks[1].state_dict().items():
        close(block.state_dict()[name], expected, 0)


def test_a_run_of_fifty_steps_keeps_the_loss_of_the_reference(transformers):
    """AdamW in single precision from the same weights, on the same batches, without dropout."""
    off = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    configuration = transformers.GPT2Config(**(GPT2 | ENDS | off))
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(configuration).train()
    ours = ours_like(theirs, configuration, "gpt2", torch.float32).train()
    optimisers = [torch.optim.AdamW(m.parameters(), lr=3e-3) for m in (ours, theirs)]
    order, losses = torch.randperm(V), []
    for _ in range(50):
        tokens = order[(torch.randint(V, (7, 1)) + torch.arange(CONTEXT + 1)) % V]
        x, y = tokens[:, :-1], tokens[:, 1:]
        losses.append([])
        for scores, optimiser in zip((ours(x), theirs(x).logits), optimisers, strict=True):
            loss = F.cross_entropy(scores.flatten(0, 1), y.flatten())
            losses[-1].append(loss.item())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    got, expected = torch.tensor(losses).T
    assert expected[0] > 3.9  # ln 53 is 3.97
    assert expected[-1] < 2
    close(got, expected, 1e-5)


# --- configurations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "name", "changes", "expected"),
    [
        ("gpt2", "GPT2", {}, "gpt2"),
        ("bert", "Bert", {}, "bert-base"),
        ("llama", "Llama", {}, "llama-7b"),
        ("t5", "T5", {}, "t5-small"),
    ],
)  # fmt: skip
def test_presets_are_the_references_configurations(transformers, family, name, changes, expected):
    theirs = getattr(transformers, name + "Config")(**changes)
    ours, known = config_from(theirs, family), PRESETS[expected]
    rates = ("dropout", "attention_dropout", "residual_dropout", "embedding_dropout")
    assert ours == known.replace(**{name: getattr(ours, name) for name in (*rates, "init_std")})


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_configuration_leaves_out_is_what_theirs_is_then(transformers, family):
    """Files of old leave out whatever had its default."""
    class_of = {case[0]: case[1] for case in CASES.values()}
    whole = getattr(transformers, f"{class_of[family]}Config")().to_dict()
    sizes = {name for small in SMALL.values() for name in small}
    short = {name: whole[name] for name in sizes & whole.keys()}
    assert config_from(short, family) == config_from(whole, family)


def test_each_rate_of_dropout_is_taken_over():
    rates = {"resid_pdrop": 0.2, "attn_pdrop": 0.3, "embd_pdrop": 0.0}
    c = config_from(SMALL["gpt2"] | rates, "gpt2")
    assert (c.residual_dropout, c.attention_dropout, c.embedding_dropout) == (0.2, 0.3, 0.0)


def test_a_file_may_spell_and_leave_out_what_older_ones_do():
    gpt2 = {"n_embd": 20, "n_layer": 2, "n_head": 5, "vocab_size": 53, "n_positions": 17}
    ours = config_from(gpt2, "gpt2")
    assert (ours.d_ff, ours.activation, ours.norm_eps) == (80, "gelu-tanh", 1e-5)
    bloom = {"n_embed": 24, "n_layer": 2, "num_attention_heads": 6, "vocab_size": 53}
    assert config_from(bloom, "bloom").context_length == 2048
    old = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "vocab_size": 53,
           "intermediate_size": 37, "max_position_embeddings": 17, "rope_theta": 500.0,
           "rope_scaling": None, "head_dim": None}  # fmt: skip
    ours = config_from(old, "llama")
    assert (ours.rope_theta, ours.head_dim, ours.n_kv_heads) == (500.0, 4, 6)
    t5 = {"d_model": 24, "d_kv": 5, "d_ff": 37, "num_layers": 2, "num_heads": 4, "vocab_size": 53}
    for changes, expected in (
        ({}, (True, True, "relu")),
        ({"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
         (False, False, "geglu-tanh")),
        ({"feed_forward_proj": "gated-silu"}, (True, True, "swiglu")),
    ):  # fmt: skip
        ours = config_from(t5 | changes, "t5")
        assert (ours.tie_embeddings, ours.scale_logits, ours.activation) == expected


SMALL = {
    "gpt2": {"n_embd": 20, "n_layer": 2, "n_head": 5, "vocab_size": 53, "n_positions": 17},
    "llama": {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
              "intermediate_size": 37, "max_position_embeddings": 17, "vocab_size": 53},
    "opt": {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "ffn_dim": 37,
            "max_position_embeddings": 17, "vocab_size": 53},
    "bloom": {"hidden_size": 24, "n_layer": 2, "n_head": 6, "vocab_size": 53},
    "t5": {"d_model": 24, "d_kv": 5, "d_ff": 37, "num_layers": 2, "num_heads": 4, "vocab_size": 53},
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("mamba", {}, "one of bert, gpt2, openai-gpt, opt, bloom, llama, t5, got 'mamba'"),
        ("gpt2", {"model_type": "opt"}, "configuration of gpt2, got one of opt"),
        ("gpt2", {"n_embd": None}, "configuration of gpt2 has no hidden_size or n_embd"),
        ("gpt2", {"n_head": 3}, "n_heads=3 does not divide d_model=20"),
        ("gpt2", {"activation_function": "tanh"}, "one of relu, .*, got 'tanh'"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx=False only"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention=False only, got True"),
        ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before=True only, got False"),
        ("opt", {"word_embed_proj_dim": 12}, "word_embed_proj_dim=24 only, got 12"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "layernorm=False only"),
        (
            "llama",
            {"rope_scaling": {"type": "linear", "factor": 2}},
            "rope_type .* got 'lin",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "llama3"}},
            "rope_type .* got 'llama3'",
        ),
        ("llama", {"attention_bias": True}, "our llama has mlp_bias=True only, got False"),
        ("t5", {"num_decoder_layers": 3}, "num_decoder_layers=2 only, got 3"),
    ],
)
def test_configurations_that_ours_cannot_be_are_refused(family, changes, message):
    with pytest.raises(ValueError, match=message):
        config_from(SMALL.get(family, {}) | changes, family)


# --- state dicts ---------------------------------------------------------------------------------


def small_gpt2(**changes) -> tuple[TransformerLM, dict[str, torch.Tensor]]:
    """A model of ours, and random weights by the names of theirs."""
    model = TransformerLM(config_from(SMALL["gpt2"], "gpt2"))
    shapes = {"wte.weight": (53, 20), "wpe.weight": (17, 20)}
    for layer in range(2):
        for name, shape in {
            "attn.c_attn": (20, 60), "attn.c_proj": (20, 20), "mlp.c_fc": (20, 80),
            "mlp.c_proj": (80, 20), "ln_1": (20,), "ln_2": (20,),
        }.items():  # fmt: skip
            shapes[f"h.{layer}.{name}.weight"] = shape
            shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
    shapes |= {"ln_f.weight": (20,), "ln_f.bias": (20,)}
    return model, {name: torch.randn(shape) for name, shape in (shapes | changes).items()}


def test_matrices_are_transposed_and_queries_keys_and_values_parted():
    model, given = small_gpt2()
    load(model, given, "gpt2")
    fused, block = given["h.1.attn.c_attn.weight"], model.stack.blocks[1]
    close(block.attention.q_proj.weight.data, fused[:, :20].T, 0)
    close(block.attention.k_proj.weight.data, fused[:, 20:40].T, 0)
    close(block.attention.v_proj.bias.data, given["h.1.attn.c_attn.bias"][40:], 0)
    close(block.feed_forward.down.weight.data, given["h.1.mlp.c_proj.weight"].T, 0)
    close(model.head.weight.data, given["wte.weight"], 0)


def test_names_may_have_a_prefix_and_older_files_constants():
    one, given = small_gpt2()
    other, _ = small_gpt2()
    load(one, given, "gpt2")
    longer = {f"transformer.{name}": tensor for name, tensor in given.items()}
    longer["transformer.h.0.attn.bias"] = torch.ones(1, 1, 17, 17)
    longer["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    longer["lm_head.weight"] = given["wte.weight"].clone()
    load(other, longer, "gpt2")
    for got, expected in zip(other.parameters(), one.parameters(), strict=True):
        close(got, expected, 0)


def test_weights_of_another_precision_are_converted():
    model, given = small_gpt2()
    load(model, {n: x.to(torch.float16) for n, x in given.items()}, "gpt2")
    assert model.embedding.weight.dtype == torch.float32
    close(model.embedding.weight.data, given["wte.weight"].half().float(), 0)


def without(given, *names):
    return {name: x for name, x in given.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: without(g, "ln_f.bias", "wpe.weight"), "ln_f.bias, wpe.weight missing$"),
        (lambda g: g | {"h.2.ln_1.weight": torch.ones(20)}, "no place for h.2.ln_1.weight$"),
        (
            lambda g: without(g, "wte.weight") | {"wte": torch.ones(53, 20)},
            "wte.weight missing; the model has no place for wte$",
        ),
        (lambda g: {}, "h.0.attn.c_attn.bias, .* and 20 more missing$"),
        (
            lambda g: g | {"wte.weight": torch.ones(54, 20)},
            r"wte.weight \(54, 20\) cannot fill embedding.weight \(53, 20\)",
        ),
        (
            lambda g: g | {"h.0.mlp.c_fc.weight": torch.ones(80, 20)},
            r"h.0.mlp.c_fc.weight \(80, 20\) cannot fill stack.blocks.0.feed_forward.up.weight "
            r"\(80, 20\)",
        ),
        (
            lambda g: g | {"h.0.attn.c_attn.weight": torch.ones(())},
            r"c_attn.weight \(\) cannot fill",
        ),
        (
            lambda g: g | {"lm_head.weight": torch.ones(53, 20)},
            "lm_head.weight is another matrix than wte.weight: .* with tie_embeddings=False",
        ),
        (
            lambda g: g | {"transformer.wte.weight": torch.ones(53, 20)},
            "wte.weight is there twice",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(change, message):
    model, given = small_gpt2()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        load(model, change(given), "gpt2")
    for name, x in model.state_dict().items():
        close(x, before[name], 0)


def test_an_untied_model_needs_a_head():
    _, given = small_gpt2()
    model = TransformerLM(config_from(SMALL["gpt2"], "gpt2").replace(tie_embeddings=False))
    with pytest.raises(ValueError, match=r"lm_head.weight missing; .* tie_embeddings=True"):
        load(model, given, "gpt2")


def test_bloom_needs_as_many_heads_as_its_matrix_has():
    model = TransformerLM(config_from(SMALL["bloom"], "bloom"))
    state = {"h.0.self_attention.query_key_value.weight": torch.ones(71, 24)}
    layer = {"self_attention.dense": (24, 24), "mlp.dense_h_to_4h": (96, 24),
             "self_attention.query_key_value": (72, 24), "input_layernorm": (24,),
             "post_attention_layernorm": (24,), "mlp.dense_4h_to_h": (24, 96)}  # fmt: skip
    shapes = {f"h.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
    shapes |= {"word_embeddings": (53, 24), "word_embeddings_layernorm": (24,), "ln_f": (24,)}
    whole = {f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}
    whole |= {f"{name}.bias": torch.ones(shape[0]) for name, shape in shapes.items()}
    del whole["word_embeddings.bias"]
    load(model, whole, "bloom")
    with pytest.raises(ValueError, match=r"query_key_value.weight \(71, 24\) cannot fill"):
        load(model, whole | state, "bloom")


def test_a_family_goes_into_a_model_of_its_form():
    model, given = small_gpt2()
    with pytest.raises(TypeError, match="t5 goes into EncoderDecoder, got TransformerLM"):
        load(model, given, "t5")
    with pytest.raises(ValueError, match="got 'gpt4'"):
        load(model, given, "gpt4")
    for changes, message in (
        ({"norm_first": False}, "gpt2 has norm_first=True, not False"),
        ({"position": "alibi"}, "gpt2 has position='learned', not 'alibi'"),
        ({"position": "rotary"}, "gpt2 has position='learned', not 'rotary'"),
    ):
        other = TransformerLM(model.config.replace(**changes))
        with pytest.raises(ValueError, match=message):
            load(other, given, "gpt2")


def test_a_block_with_a_source_takes_no_weights_of_a_family_without():
    block = Block(small_gpt2()[0].config, causal=True, cross=True)
    with pytest.raises(ValueError, match=r"this family has no (norm_)?cross"):
        load(block, {}, "gpt2")


def test_every_family_is_tested():
    assert {family for family, *_ in CASES.values()} == set(FAMILIES)
