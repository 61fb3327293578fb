"""Published families: our models give the logits that the library `transformers` gives.

Its models are made here from small random configurations; nothing is downloaded.
"""

import pytest
import torch
from comparing import close, randomised, refuses, up_to
from torch.nn import functional as F
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
    "gpt": ("openai-gpt", "OpenAIGPT", GPT2 | ENDS), "llama": ("llama", "Llama", LLAMA),
    "llama grouped": ("llama", "Llama", LLAMA | {"num_key_value_heads": 2}),
    "llama wide": ("llama", "Llama", LLAMA | {
        "num_key_value_heads": 1, "head_dim": 10, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    }),
    "bloom 6": ("bloom", "Bloom", BLOOM | {"n_head": 6}),
    "bloom 8": ("bloom", "Bloom", BLOOM | {"n_head": 8}), "opt": ("opt", "OPT", OPT),
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


SMALL = {
    "gpt2": GPT2 | {"n_layer": 2}, "llama": LLAMA, "opt": OPT, "bloom": BLOOM | {"n_head": 6},
    "t5": T5,
}  # fmt: skip


def reference(transformers, case, dtype=torch.float64):
    """Their model with random weights, biases and norms included, and its configuration."""
    _, name, sizes = CASES[case]
    configuration = getattr(transformers, name + "Config")(**sizes)
    model = getattr(transformers, name + HEADS[name])(configuration).to(dtype).eval()
    for name, parameter in randomised(model, 0.2).named_parameters():
        if parameter.ndim == 1 and name.endswith("weight"):
            parameter.data.add_(1)
    return model, configuration


def ours_like(theirs, configuration, family, dtype=torch.float64, **changes):
    kind = {"t5": EncoderDecoder, "bert": Encoder}.get(family, TransformerLM)
    model = kind(config_from(configuration, family).replace(**changes)).to(dtype).eval()
    load(model, theirs.state_dict(), family)
    return model


def logits(ours, theirs, family, device="cpu"):
    """(ours, theirs) for the same random tokens."""
    tokens, source = (torch.randint(V, (B, n)).to(device) for n in (T, S))
    if family == "t5":
        expected = theirs(input_ids=source, decoder_input_ids=tokens).logits
        return ours(source, tokens), expected
    expected = theirs(tokens)
    return ours(tokens), expected.last_hidden_state if family == "bert" else expected.logits


@every_case
def test_logits_are_the_references_in_double_precision(transformers, exact_norms, case, device):
    family = CASES[case][0]
    theirs, configuration = reference(transformers, case)
    ours = ours_like(theirs, configuration, family).to(device)
    got, expected = logits(ours, theirs.to(device), family, device)
    assert expected.std() > 0.1
    close(got, expected, EXACT.get(family, 1e-12))
    if family == "llama":
        other = ours_like(theirs, configuration, "llama", position="rotary-interleaved")
        close(*logits(other, theirs.cpu(), "llama"), 1e-5)


@pytest.mark.parametrize("case", ["gpt2", "t5 gated"])
def test_gradients_are_the_references(transformers, exact_norms, case):
    """After one backward pass the references' gradients, loaded as weights, are ours."""
    family, tied = CASES[case][0], {"tie_embeddings": True}  # as theirs are in any case
    theirs, configuration = reference(transformers, case)
    ours, gradients = (ours_like(theirs, configuration, family, **tied) for _ in range(2))
    for found in logits(ours, theirs, family):
        weights = torch.linspace(-1, 2, found.numel(), dtype=found.dtype).view(found.shape)
        (weights * found).sum().backward()
    named = theirs.named_parameters(remove_duplicate=False)
    load(gradients, {name: p.grad for name, p in named}, family)
    for name, parameter in ours.named_parameters():
        theirs_found = gradients.get_parameter(name).data
        largest = theirs_found.abs().max().item()  # about 170 in t5's table
        close(parameter.grad, theirs_found, 1e-12 * max(1, largest))


def test_berts_vectors_under_padding_and_types_are_the_references(transformers, device):
    theirs, configuration = reference(transformers, "bert")
    ours, theirs = ours_like(theirs, configuration, "bert").to(device), theirs.to(device)
    tokens = torch.randint(V, (4, T), device=device)
    types = torch.randint(3, (4, T), device=device)
    mask = up_to(T, 5, 1, 8, width=T, device=device)
    with torch.no_grad():
        got = ours(tokens, mask, types)
        expected = theirs(tokens, attention_mask=mask.long(), token_type_ids=types)
    close(got[mask], expected.last_hidden_state[mask], 1e-10)


@pytest.mark.parametrize(
    ("case", "where"),
    [("gpt2", "h"), ("bert", "encoder.layer"), ("t5 relu", "encoder.block"),
     ("t5 relu", "decoder.block")],
)  # fmt: skip
def test_a_block_loads_alone(transformers, case, where):
    theirs, configuration = reference(transformers, case)
    family, side = CASES[case][0], where.partition(".")[0]
    whole = ours_like(theirs, configuration, family)
    layer, cross = theirs.base_model.get_submodule(where)[1], side == "decoder"
    options = {"causal": side != "encoder", "cross": cross}
    block = Block(whole.config.replace(vocab_size=None), **options).double()
    load(block, layer.state_dict(), family)
    stack = getattr(whole, side) if family == "t5" else whole.stack
    close(block.state_dict(), stack.blocks[1].state_dict(), 0)
    if family == "gpt2":
        with pytest.raises(ValueError, match=r"this family has no (norm_)?cross"):
            load(Block(whole.config, causal=True, cross=True), {}, "gpt2")


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [("gpt2", "GPT2", "gpt2"), ("bert", "Bert", "bert-base"), ("llama", "Llama", "llama-7b"),
     ("t5", "T5", "t5-small")],
)  # fmt: skip
def test_presets_are_the_references_configurations(transformers, family, name, expected):
    ours = config_from(getattr(transformers, name + "Config")(), family)
    rates = ("dropout", "attention_dropout", "residual_dropout", "embedding_dropout", "init_std")
    assert ours == PRESETS[expected].replace(**{name: getattr(ours, name) for name in rates})


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_configuration_leaves_out_is_what_theirs_is_then(transformers, family):
    """Files of old leave out whatever had its default."""
    class_of = {case[0]: case[1] for case in CASES.values()}  # every family is tested
    whole = getattr(transformers, f"{class_of[family]}Config")().to_dict()
    sizes = {name for small in SMALL.values() for name in small}
    short = {name: whole[name] for name in sizes & whole.keys()}
    assert config_from(short, family) == config_from(whole, family)


LEFT_OUT = [
    ("gpt2", {"resid_pdrop": 0.2, "attn_pdrop": 0.3, "embd_pdrop": 0.0},
     {"residual_dropout": 0.2, "attention_dropout": 0.3, "embedding_dropout": 0.0}),
    ("bloom", {"n_embed": 24, "num_attention_heads": 6}, {"context_length": 2048, "d_model": 24}),
    ("llama", {"rope_theta": 500.0, "rope_scaling": None, "head_dim": None},
     {"rope_theta": 500.0, "head_dim": 4, "n_kv_heads": 6}),
    ("t5", {"feed_forward_proj": "gated-silu"}, {"scale_logits": True, "activation": "swiglu"}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "changes", "expected"), LEFT_OUT)
def test_a_file_may_spell_and_leave_out_what_older_ones_do(family, changes, expected):
    given = SMALL[family] | changes
    if "n_embed" in given:  # bloom's older names
        given = {name: given[name] for name in given if name not in ("hidden_size", "n_head")}
    ours = config_from(given, family)
    assert {name: getattr(ours, name) for name in expected} == expected


test_configurations_that_ours_cannot_be_are_refused = refuses(
    ("gpt2", {"model_type": "opt"}, "configuration of gpt2, got one of opt"),
    ("gpt2", {"n_embd": None}, "configuration of gpt2 has no hidden_size or n_embd"),
    ("gpt2", {"activation_function": "tanh"}, "one of relu, .*, got 'tanh'"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx=False only"),
    ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before=True only, got False"),
    ("opt", {"word_embed_proj_dim": 12}, "word_embed_proj_dim=24 only, got 12"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "layernorm=False only"),
    ("llama", {"rope_scaling": {"type": "linear", "factor": 2}}, "rope_type .* got 'lin"),
    ("llama", {"rope_parameters": {"rope_type": "llama3"}}, "rope_type .* got 'llama3'"),
    ("llama", {"attention_bias": True}, "our llama has mlp_bias=True only, got False"),
    ("t5", {"num_decoder_layers": 2}, "num_decoder_layers=3 only, got 2"),
    of=lambda family, changes: config_from(SMALL.get(family, {}) | changes, family),
)


def small_gpt2(**changes) -> tuple[TransformerLM, dict[str, torch.Tensor]]:
    """A model of ours, and random weights by the names of theirs."""
    model = TransformerLM(config_from(SMALL["gpt2"], "gpt2").replace(**changes))
    shapes = {"wte.weight": (53, 20), "wpe.weight": (17, 20)}
    linears = {"attn.c_attn": (20, 60), "attn.c_proj": (20, 20), "mlp.c_fc": (20, 80),
               "mlp.c_proj": (80, 20), "ln_1": (20,), "ln_2": (20,)}  # fmt: skip
    of = {f"h.{i}.{name}": shape for i in range(2) for name, shape in linears.items()}
    for name, shape in (of | {"ln_f": (20,)}).items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[-1:]}
    return model, {name: torch.randn(shape) for name, shape in shapes.items()}


def test_names_may_have_a_prefix_files_hold_constants_and_precisions_are_converted():
    (model, given), (other, _) = small_gpt2(), small_gpt2()
    load(model, given, "gpt2")
    longer = {f"transformer.{name}": tensor.double() for name, tensor in given.items()}
    longer["transformer.h.0.attn.bias"] = torch.ones(1, 1, 17, 17)
    longer["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    longer["lm_head.weight"] = given["wte.weight"].double()
    load(other, longer, "gpt2")
    close(other.state_dict(), model.state_dict(), 0)
    assert other.embedding.weight.dtype == torch.float32


def without(given, *names):
    return {name: x for name, x in given.items() if name not in names}


GIVEN_TO = [  # the family, changes to the configuration, and what is said
    ("t5", {}, "t5 goes into EncoderDecoder, got TransformerLM"),
    ("gpt2", {"norm_first": False}, "gpt2 has norm_first=True, not False"),
    ("gpt2", {"position": "alibi"}, "gpt2 has position='learned', not 'alibi'"),
    ("gpt2", {"tie_embeddings": False}, "lm_head.weight missing; .* tie_embeddings=True"),
]
CHANGED = [
    (lambda g: without(g, "ln_f.bias", "wpe.weight"), "ln_f.bias, wpe.weight missing$"),
    (lambda g: g | {"h.2.ln_1.weight": torch.ones(20)}, "no place for h.2.ln_1.weight$"),
    (lambda g: {}, "h.0.attn.c_attn.bias, .* and 20 more missing$"),
    (lambda g: g | {"wte.weight": torch.ones(54, 20)},
     r"wte.weight \(54, 20\) cannot fill embedding.weight \(53, 20\)"),
    (lambda g: g | {"h.0.attn.c_attn.weight": torch.ones(())},
     r"c_attn.weight \(\) cannot fill"),
    (lambda g: g | {"lm_head.weight": torch.ones(53, 20)},
     "lm_head.weight is another matrix than wte.weight: .* with tie_embeddings=False"),
    (lambda g: g | {"transformer.wte.weight": torch.ones(53, 20)}, "wte.weight is there twice"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "changes", "change", "message"),
    [*((*given, dict, message) for *given, message in GIVEN_TO),
     *(("gpt2", {}, *row) for row in CHANGED)],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused_and_change_nothing(family, changes, change, message):
    model, given = small_gpt2(**changes)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with pytest.raises((ValueError, TypeError), match=message):
        load(model, change(given), family)
    close(model.state_dict(), before, 0)
