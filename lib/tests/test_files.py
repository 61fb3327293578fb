"""Tokenisers and models in files: what is saved comes back, and other files are refused."""

import json

import pytest
import torch
from comparing import randomised
from unrolled.data.bpe import BPETokenizer
from unrolled.data.tokenizer_files import load_tokenizer, save_tokenizer
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained import load_pretrained
from unrolled.models.recurrent_cells import LSTMCell
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training import checkpoint
from unrolled.training.checkpoint import load_model, save_model

TEXT = "To be, or not to be:\nthat is the Question — “mögen” 𝔸 \ud800"
TOKENIZERS = {
    "characters": CharTokenizer.train(TEXT),
    "words": WordTokenizer.train(TEXT, 1, lowercase=False),
    "word pieces": WordPieceTokenizer.train(TEXT[:-1], 40, lowercase=False),
    "bytes": BPETokenizer.train(TEXT[:-1], 9, ["<s>"], min_count=1),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokeniser_comes_back(name, tmp_path):
    ours = TOKENIZERS[name]
    save_tokenizer(ours, tmp_path / "t.json")
    again = load_tokenizer(tmp_path / "t.json")
    assert (type(again), again.vocab) == (type(ours), ours.vocab)
    text = TEXT if name == "characters" else TEXT[:-1]
    assert again.encode(text).tolist() == ours.encode(text).tolist()


def test_a_file_that_is_no_tokeniser_is_refused_by_its_name(tmp_path):
    for content, said in (("{", "damaged or no JSON"), ("[1]", "no tok"), ('{"a": 1}', "no tok")):
        (tmp_path / "t.json").write_text(content, "utf8")
        with pytest.raises(ValueError, match=f"t.json is {said}"):
            load_tokenizer(tmp_path / "t.json")


SIZES = {"vocab_size": 31, "d_model": 12, "n_layers": 2, "n_heads": 3, "context_length": 16}
MODELS = {
    "gpt2": lambda: TransformerLM(preset("gpt2", **SIZES, d_ff=13)),
    "llama": lambda: TransformerLM(preset("llama-7b", **SIZES, d_ff=13, n_kv_heads=1)),
    "bert": lambda: Encoder(preset("bert-base", **SIZES, d_ff=13)),
    "t5": lambda: EncoderDecoder(preset("t5-small", **SIZES, d_ff=13, head_dim=5)),
    "lstm": lambda: RecurrentLM(31, embedding_dim=5, hidden_size=7, n_layers=2, dropout=0.1),
    "elman": lambda: RecurrentLM(31, "elman", embedding_dim=5, hidden_size=5, tie_embeddings=True,
                                 nonlinearity="relu"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_in_evaluation_mode_compiled_or_not(name, tmp_path):
    ours, ids = randomised(MODELS[name]()), torch.randint(31, (2, 9))
    given = (ids, ids[:, :4]) if name == "t5" else (ids,)
    for saved in (ours, torch.compile(ours, backend="eager")):
        save_model(saved, tmp_path / "m.pt")
        again = load_model(tmp_path / "m.pt")
        assert not again.training
        assert torch.equal(again(*given), ours.eval()(*given))
        ours.train()


def test_other_models_and_other_files_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"one of RecurrentLM, TransformerLM, .* got Linear"):
        save_model(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    mine = RecurrentLM(5, type("Mine", (LSTMCell,), {}), embedding_dim=2, hidden_size=3)
    with pytest.raises(TypeError, match="with a cell of the library"):
        save_model(mine, tmp_path / "m.pt")
    checkpoint.save(tmp_path / "run", {"step": 3, "model": {}})
    with pytest.raises(ValueError, match="run holds step, model, and not a model of `save_model`"):
        load_model(tmp_path / "run")


def test_a_folder_as_it_was_downloaded(tmp_path, transformers):
    config = transformers.GPT2Config(vocab_size=53, n_embd=20, n_layer=2, n_head=5, n_positions=31)
    theirs, ids = transformers.GPT2LMHeadModel(config).eval(), torch.randint(53, (2, 9))
    expected, parts, old = theirs(ids).logits, tmp_path / "parts", tmp_path / "old"
    theirs.save_pretrained(parts, max_shard_size="20KB")
    assert len(list(parts.glob("*.safetensors"))) > 1
    torch.testing.assert_close(load_pretrained(parts)(ids), expected)
    old.mkdir()
    (old / "config.json").write_text((parts / "config.json").read_text("utf8"), "utf8")
    with pytest.raises(FileNotFoundError, match="old has neither"):
        load_pretrained(old)
    torch.save(theirs.state_dict(), old / "pytorch_model.bin")
    torch.testing.assert_close(load_pretrained(old)(ids), expected)
    (old / "config.json").write_text(json.dumps({"model_type": "mamba"}), "utf8")
    with pytest.raises(ValueError, match=r"family must be one of .* got 'mamba'"):
        load_pretrained(old)
