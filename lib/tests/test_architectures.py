"""Published models: each comes out to the printed digits or says why not, and each runs tiny."""

import re
from dataclasses import fields, replace

import pytest
import torch
from torch.nn import functional as F
from unrolled.accounting.cost import MODELS, counted, flops, parameters
from unrolled.models.architectures import ARCHITECTURES, printed, tiny
from unrolled.models.transformer_config import PRESETS, TransformerConfig

every_row = pytest.mark.parametrize("name", ARCHITECTURES)


def of_layers(count, config, **changes) -> int:
    """What `count` gives, which grows by the same number with each layer: from one and from two."""
    one, two = (count(config.replace(**changes | {"n_layers": n})) for n in (1, 2))
    return one + (config.n_layers - 1) * (two - one)


@pytest.fixture(scope="module")
def counts():
    """Of every row, built without memory."""
    return {
        name: of_layers(lambda config, row=row: counted(replace(row, config=config)), row.config)
        for name, row in ARCHITECTURES.items()
    }


@every_row
def test_a_row_comes_out_to_the_printed_digits_or_says_why_not(name, counts):
    row = ARCHITECTURES[name]
    if row.config.n_layers <= 12:
        assert counts[name] == counted(row)
    comes_out = printed(counts[name], row.parameters) == row.parameters
    assert comes_out == (row.miss == "")
    if row.miss.startswith("Cut"):  # and it comes out when it is cut
        digits = len(row.parameters.removesuffix("B").partition(".")[2])
        last = 10 ** (9 - digits)
        assert printed(counts[name] // last * last, row.parameters) == row.parameters


def test_no_miss_is_large_but_of_those_whose_positions_ours_lack(counts):
    for name, row in ARCHITECTURES.items():
        unit = {"M": 1e6, "B": 1e9}.get(row.parameters[-1], 1)
        size = float(row.parameters.rstrip("MB").replace(",", "")) * unit
        off = counts[name] / size - 1
        limit = 0.17 if name == "GPT-3 1.3B" else 0.08 if "Transformer-XL" in row.miss else 0.065
        assert abs(off) < limit, name


def test_six_operations_for_each_parameter_and_token_are_what_papers_print(counts):
    """Table D.1 of GPT-3 is that rule to its three digits."""
    for name, row in ARCHITECTURES.items():
        if row.tokens and row.compute and not row.miss:
            assert 6 * counts[name] * row.tokens / row.compute == pytest.approx(1, abs=0.003), name
    by_hand = 6 * 174_600e6 * 300e9
    assert by_hand == pytest.approx(ARCHITECTURES["GPT-3 175B"].compute, rel=0.002)


def count(name: str, **changes) -> int:
    row = ARCHITECTURES[name]
    return of_layers(lambda config: parameters(config, row.kind)["total"], row.config, **changes)


def test_gpt3_s_other_table_comes_out():
    """Brown et al. (2020), table D.1, in millions."""
    table = {"350M": 356, "760M": 760, "2.7B": 2650, "6.7B": 6660, "175B": 174_600}
    for name, expected in table.items():
        assert count(f"GPT-3 {name}") / 1e6 == pytest.approx(expected, abs=5)
    assert round(count("GPT-3 1.3B", n_heads=16) / 1e6, -1) == 1320
    assert round(count("GPT-3 13B", d_model=5120) / 1e6, -1) == 12_850


def test_what_ours_lacks_or_has_besides_closes_the_gap(counts):
    def close_with(name, more, like):
        assert printed(counts[name] + more, like) == like

    for name, like in {"Gopher": "280B", "Chinchilla": "70B"}.items():
        c = ARCHITECTURES[name].config
        close_with(name, c.n_layers * c.d_model**2, like)  # positions of Transformer-XL
    close_with("T5 Large", 32_128 * 1024, "770.6M")  # two embeddings
    close_with("Gemma 2 2B", 26 * 2 * 2304, ARCHITECTURES["Gemma 2 2B"].parameters)  # norms
    palm = ARCHITECTURES["PaLM 540B"]
    norms = of_layers(lambda config: parameters(config)["norms"], palm.config)
    assert printed(norms, "2.2M") == "2.2M"
    close_with("PaLM 540B", -norms, palm.parameters)
    c = ARCHITECTURES["Galactica"].config  # its layers alone are more than its name
    assert printed(c.n_layers * 12 * c.d_model**2, "120.8B") == "120.8B"


def test_weights_of_gpt_j_and_qwen_by_their_biases(transformers, counts):
    config = transformers.GPTJConfig()
    with torch.device("meta"):
        theirs = sum(p.numel() for p in transformers.GPTJForCausalLM(config).parameters())
    assert theirs == counts["GPT-J"] - 28 * 4 * 4096 + 50_400 == 6_050_882_784
    assert counts["Qwen2.5 7B"] + 28 * (3584 + 2 * 4 * 128) == 7_615_616_512


def test_what_the_files_hold_comes_out_exactly(counts):
    said = {n: re.findall(r"files hold ([\d,]+)", row.miss) for n, row in ARCHITECTURES.items()}
    holding = {name: found for name, found in said.items() if found}
    assert holding == {name: [f"{counts[name]:,}"] for name in ("LLaMA 65B", "Llama 2 70B")}


# What no count tells, written a second time from the papers.
VOCABULARY_AND_CONTEXT = {
    "GPT-1": (40_478, 512), "GPT-2": (50_257, 1024), "GPT-3": (50_257, 2048), "T5": (32_128, 512),
    "PanGu": (40_000, 1024), "Jurassic": (256_000, 2048), "Gopher": (32_000, 2048),
    "GPT-J": (50_400, 2048), "MT-NLG": (50_257, 2048), "Chinchilla": (32_000, 2048),
    "LaMDA": (32_000, 1024), "PaLM": (256_000, 2048), "OPT": (50_272, 2048),
    "BLOOM": (250_880, 2048), "GLM": (150_528, 2048), "Galactica": (50_000, 2048),
    "LLaMA": (32_000, 2048), "Llama 2": (32_000, 4096), "Mistral": (32_000, 8192),
    "Llama 3": (128_256, 8192), "Gemma 2": (256_128, 8192), "Qwen2.5": (152_064, 32_768),
    "OLMo 2": (100_352, 4096),
}  # fmt: skip


PRESETS_CONTEXT = {
    "transformer-2017": 512, "bert-base": 512, "gpt2": 1024, "gpt3": 2048, "llama-7b": 2048,
    "llama2-70b": 4096, "t5-small": 512,
}  # fmt: skip


def test_vocabulary_and_context_are_the_papers():
    for name, row in ARCHITECTURES.items():
        (written,) = (both for of, both in VOCABULARY_AND_CONTEXT.items() if name.startswith(of))
        assert (row.config.vocab_size, row.config.context_length) == written, name
    assert {name: config.context_length for name, config in PRESETS.items()} == PRESETS_CONTEXT


def test_which_rotations_are_slower_than_usual():
    rotations = {name: row.config.rope_theta for name, row in ARCHITECTURES.items()}
    assert {name: theta for name, theta in rotations.items() if theta != 10_000} == {
        "Llama 3 8B": 500_000, "Llama 3 405B": 500_000, "Qwen2.5 7B": 1_000_000,
        "OLMo 2 7B": 500_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "family", "missing"),
    [
        ("GPT-1", "OpenAIGPTLMHeadModel", 0), ("GPT-2 117M", "GPT2LMHeadModel", 0),
        ("LLaMA 7B", "LlamaForCausalLM", 0), ("Mistral 7B", "MistralForCausalLM", 0),
        ("Gemma 2 2B", "Gemma2ForCausalLM", 26 * 2 * 2304 - 128 * 2304),  # norms; 128 rows of ours
    ],
)  # fmt: skip
def test_the_public_implementation_holds_as_many(transformers, name, family, missing):
    kind = getattr(transformers, family)
    with torch.device("meta"):
        theirs = kind(kind.config_class())
    assert sum(p.numel() for p in theirs.parameters()) == count(name) + missing


SIZES = {
    "vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "head_dim", "d_ff", "rotary_dim",
    "context_length", "window", "n_buckets", "max_distance",
}  # fmt: skip


@every_row
def test_a_tiny_model_with_the_same_switches_runs_and_learns(name):
    row = ARCHITECTURES[name]
    c = tiny(row.config)
    for field in fields(TransformerConfig):
        same = getattr(c, field.name) == getattr(row.config, field.name)
        assert same or field.name in SIZES, field.name
    assert (c.window is None) == (row.config.window is None)
    for few, many in ("n_kv_heads", "n_heads"), ("rotary_dim", "head_dim"):
        numbers = [(getattr(config, few), getattr(config, many)) for config in (c, row.config)]
        assert (numbers[0][0] < numbers[0][1]) == (numbers[1][0] < numbers[1][1])
    own_width = [config.n_heads * config.head_dim != config.d_model for config in (c, row.config)]
    assert own_width[0] == own_width[1]
    model, tokens = MODELS[row.kind](c), torch.randint(29, (2, 11))
    given = (tokens, tokens[:, :7]) if row.kind == "encoder-decoder" else (tokens,)
    logits = model(*given)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), given[-1][:, 1:].flatten())
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.any() or key.endswith("k_proj.bias"), key


@pytest.mark.parametrize(
    ("count", "like", "expected"),
    [
        (116_534_784, "117M", "117M"), (1_557_611_200, "1542M", "1558M"),
        (8_632_012_800, "8.63B", "8.63B"), (2_024_398_080, "2,000M", "2,024M"),
        (1234, "6,053,381,344", "1,234"), (49_000_000_000, "1.0B", "49.0B"),
        (10**15, "1M", "1000000000M"), (10**18, "1B", "1000000000B"),
    ],
)  # fmt: skip
def test_a_count_is_printed_as_the_paper_prints_it(count, like, expected):
    assert printed(count, like) == expected


@every_row
def test_a_row_is_whole(name):
    row = ARCHITECTURES[name]
    assert 2018 <= row.year <= 2024
    published = 2023 if name == "GLM-130B" else row.year  # its paper came after the model
    assert f"({published}" in row.source
    assert all(text == "" or text.endswith(".") for text in (row.miss, row.note))
    assert row.compute is None or row.tokens is None or row.compute > row.tokens
    for number in (row.tokens, row.compute):  # of at most three digits
        assert number is None or float(f"{number:.3g}") == number
    assert flops(row.config, 8, kind=row.kind, n_source=8 * (row.kind != "decoder"))["total"] > 0
