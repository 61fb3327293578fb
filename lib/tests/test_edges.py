"""Unusual calls that are allowed, and unusual calls that are refused before anything is lost."""

import copy
import io
import json

import numpy as np
import pytest
import torch
from torch import nn
from unrolled.data.batches import targets_at_end
from unrolled.data.bpe import BPETokenizer
from unrolled.data.tokenizer_files import load_json, load_tokenizer, save_json
from unrolled.generation.generate import generate
from unrolled.generation.samplers import Sampling, suppress
from unrolled.models import autograd as engine
from unrolled.models.attention import attend
from unrolled.models.gradcheck import gradcheck
from unrolled.models.heads import MultiHeadAttention, attention_weights
from unrolled.models.kv_cache import LayerCache
from unrolled.models.lora import add_lora
from unrolled.models.masks import prepare
from unrolled.models.moe import balance_loss
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.nf4 import QuantisedLinear
from unrolled.models.positions import Rotary, alibi_bias
from unrolled.models.seq2seq import MemoryAttention
from unrolled.models.ssm import Mamba
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.checkpoint import load_model, save, save_model
from unrolled.training.evaluate import evaluate
from unrolled.training.fit import FitConfig, fit
from unrolled.training.losses import IGNORE
from unrolled.training.preference import answer_batch

TOKENS = torch.arange(8).reshape(2, 4)
ONE, TWO = torch.randn(2, 1, 4), torch.full((2, 2), 0.5)  # for the calls that are refused
NONE = torch.zeros(2, dtype=torch.bool)


def small(**changes) -> TransformerLM:
    sizes = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "n_layers": 2, "context_length": 16}
    return TransformerLM(TransformerConfig(**sizes | changes)).eval()


def test_alibi_s_slopes_survive_a_model_without_memory_and_a_trip_through_bfloat16():
    model = small(position="alibi", n_heads=4)
    with torch.device("meta"):
        empty = small(position="alibi", n_heads=4)
        assert empty(torch.zeros(1, 3, dtype=torch.long)).is_meta
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    assert torch.equal(empty(TOKENS), model(TOKENS))
    odd = small(position="alibi", d_model=12, n_heads=12)
    assert torch.equal(copy.deepcopy(odd).bfloat16().float().stack.slopes, odd.stack.slopes)


def test_a_recording_inside_another_takes_nothing_from_it():
    model = small()
    with attention_weights(model) as outer:
        model(TOKENS)
        with attention_weights(model) as inner:
            model(TOKENS)
        model(TOKENS)
    assert (len(outer), len(inner)) == (6, 2)
    model(TOKENS)
    assert len(outer) == 6


def test_given_positions_go_before_those_of_a_prepared_mask():
    layer, x = MultiHeadAttention(8, 2, rotary=Rotary(4)), torch.randn(1, 5, 8)
    p, mask = 3 * torch.arange(5), prepare(None, None, 5, 5, causal=True)
    torch.testing.assert_close(layer(x, mask=mask, positions=p), layer(x, positions=p, causal=True))
    with pytest.raises(ValueError, match="rotary turns within one sequence"):
        layer(x, torch.randn(1, 4, 8), cache=LayerCache())


def test_a_refused_call_leaves_the_cache_as_it_was():
    model = small()
    cache = model.new_cache()
    with torch.no_grad():
        model(TOKENS, cache=cache)
        with pytest.raises(TypeError):
            model(TOKENS, torch.ones(2, 4), cache=cache)
        with pytest.raises(ValueError, match=r"holds \(B, G\) = \(2, 2\), got \(3, 2\)"):
            model(TOKENS[[0, 0, 1]], torch.ones(3, 4, dtype=torch.bool), cache=cache)
        again = model(TOKENS, cache=cache)
        torch.testing.assert_close(again, model(torch.cat([TOKENS, TOKENS], 1))[:, 4:])
    with pytest.raises(ValueError, match="the cache has 3 layers, the model 2"):
        model(TOKENS, cache=small(n_layers=3).new_cache())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_of_another_dtype_is_cast_by_every_implementation(dtype):
    q = torch.randn(1, 2, 5, 4, dtype=dtype)
    out, weights = attend(q, q, q, bias=alibi_bias(2, 5), return_weights=True)
    assert out.dtype == weights.dtype == dtype
    assert attend(q, q, q, bias=alibi_bias(2, 5), implementation="reference").dtype == dtype


def test_rows_of_a_neural_model_s_cache_are_chosen_as_a_beam_search_does():
    model = NeuralLM(
        NeuralLMConfig(vocab_size=11, embedding_dim=4, hidden_size=5, context_length=3)
    )
    cache = model.new_cache()
    with torch.no_grad():
        model(TOKENS, cache=cache)
        cache.select(torch.tensor([1, 1, 0]))
        got = model(torch.tensor([[3], [4], [5]]), cache=cache)
        texts = torch.cat([TOKENS[[1, 1, 0]], torch.tensor([[3], [4], [5]])], 1)
        torch.testing.assert_close(got[:, -1], model(texts)[:, -1])


def test_a_neural_model_is_evaluated_with_all_that_it_reads():
    model = NeuralLM(
        NeuralLMConfig(vocab_size=11, embedding_dim=4, hidden_size=5, context_length=8)
    )
    text = np.random.default_rng(0).integers(11, size=200)
    whole = model(torch.from_numpy(np.append(0, text[:-1]))[None]).double().log_softmax(-1)[0]
    cost = -whole.gather(-1, torch.from_numpy(text)[:, None]).sum().item()
    assert np.isclose(evaluate(model, text, 200, start=0).nats, cost)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_four_bits_and_a_bias_keep_the_dtype_of_the_input(dtype):
    assert QuantisedLinear(nn.Linear(64, 3))(torch.randn(2, 64, dtype=dtype)).dtype == dtype


def test_a_tokeniser_s_file_may_leave_out_its_kind_and_says_what_else_is_missing(tmp_path):
    bpe, path = BPETokenizer([(b"t", b"h"), (b"th", b"e")]), tmp_path / "tokenizer.json"
    save_json(bpe, path)
    content = json.loads(path.read_text("utf8"))
    del content["model"]["type"]
    path.write_text(json.dumps(content), "utf8")
    assert load_json(path).encode("the cat").tolist() == bpe.encode("the cat").tolist()
    path.write_text('{"model": {}}', "utf8")
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokeniser: something is missing"):
        load_tokenizer(path)


def test_a_negative_axis_of_a_transposition_has_its_gradient():
    x = engine.Tensor(np.arange(8.0).reshape(2, 2, 2))
    factor = np.arange(8.0).reshape(2, 2, 2) ** 2
    (x.transpose(0, -1, -2) * engine.Tensor(factor)).sum().backward()
    assert (x.grad == factor.transpose(0, 2, 1)).all()


def test_no_gradient_agrees_where_the_function_is_infinite():
    with np.errstate(all="ignore"):
        assert not gradcheck(lambda x: (1 / x**2).sum(), np.zeros(1), np.array([123.0])).agrees


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_prompts_of_unsigned_ids_are_left_out_of_the_loss(dtype):
    _, targets = answer_batch([np.array([1, 2], dtype)], [np.array([3], dtype)])
    assert targets.tolist() == [[IGNORE, 3]]


def test_a_model_with_numpy_s_numbers_or_in_float64_comes_back_as_it_was(tmp_path):
    model, path = small(d_model=np.int64(8)).double(), tmp_path / "model.pt"
    save_model(model, path)
    assert torch.equal(load_model(path)(TOKENS), model(TOKENS))
    add_lora(model, "*q_proj")
    with pytest.raises(TypeError, match="other parts than its configuration says"):
        save_model(model, path)
    settings = FitConfig(n_steps=np.int64(1), lr=np.float64(1e-3), seed=np.int64(1))
    fit(small(), [(TOKENS, TOKENS)], settings, checkpoint=tmp_path / "c.pt")
    assert (tmp_path / "c.pt").exists()


def test_an_open_file_is_checked_before_it_is_written():
    file = io.BytesIO()
    with pytest.raises(TypeError, match="a checkpoint holds numbers"):
        save(file, {"rng": np.random.default_rng(0)})
    assert not file.getvalue()


def test_rows_that_are_still_read_block_no_draw():
    model = NeuralLM(NeuralLMConfig(vocab_size=3, embedding_dim=2, hidden_size=2, context_length=2))
    for p in model.parameters():
        nn.init.zeros_(p)
    given = {"temperature": 0, "no_repeat_ngram_size": 1, "cache": False}
    assert generate(model, torch.tensor([[0]]), 2, stop=2, min_new_tokens=1, **given).tolist() == [
        [0, 1, 2]
    ]
    cold = Sampling(temperature=1e-50).probs(torch.tensor([0.0, 1.0]))
    assert cold.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: targets_at_end(np.array([[False, True]]), [5]), "True up to a sequence's end"),
        (lambda: Rotary(4)(torch.randn(1, 2, 5, 4), torch.tensor([3])), r"must be \(5,\)"),
        (lambda: add_lora(nn.Linear(4, 4), "*"), "is itself one linear map"),
        (lambda: Mamba(4)(ONE[:, :0]), "T must be at least 1"),
        (lambda: Mamba(4)(ONE, Mamba(4, conv_width=7).new_state(ONE)), "the state must be of"),
        (lambda: balance_loss(TWO, TWO[:, :1].long(), mask=NONE), "not all False"),
        (lambda: MemoryAttention(4, 4)(ONE[:, :, :3], ONE), "expected query"),
        (lambda: suppress(torch.zeros(1, 3), [-1]), "each suppressed id"),
        (lambda: MultiHeadAttention(0, 2, head_dim=2, d_source=4), "d_model"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_words(call, says):
    with pytest.raises(ValueError, match=says):
        call()
