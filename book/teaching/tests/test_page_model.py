"""The model in the page: packed into eight bits, close to the original, refused where unknown."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.moving import page_model

VOCAB = tuple("abcdefg")
SIZES = {
    "vocab_size": 7, "d_model": 20, "n_layers": 2, "n_heads": 5, "context_length": 11, "d_ff": 13,
    "activation": "swiglu", "norm": "rms", "position": "rotary", "bias": False, "init_std": 0.2,
}  # fmt: skip


def model(**changes) -> TransformerLM:
    torch.manual_seed(3)
    return TransformerLM(TransformerConfig(**SIZES | changes)).eval()


def test_a_packed_model_comes_back_with_every_weight_within_half_a_step():
    ours = model()
    again, vocab = page_model.unpack(page_model.pack(ours, VOCAB))
    assert vocab == VOCAB
    assert again.config == ours.config
    for (name, weight), rounded in zip(
        ours.state_dict().items(), again.state_dict().values(), strict=True
    ):
        step = weight.abs().amax(-1, keepdim=True) / 127 if weight.ndim == 2 else 0 * weight
        assert (weight - rounded).abs().le(step / 2 + 1e-7).all(), name
    assert again.head.weight is again.embedding.weight


def test_the_file_is_a_header_and_a_byte_for_each_entry_of_a_matrix():
    ours = model()
    data = page_model.pack(ours, VOCAB)
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    assert length % 4 == 0
    assert all(tensor["at"] % 4 == 0 for tensor in header["tensors"])
    matrices = {name: p for name, p in ours.named_parameters() if p.ndim == 2}
    rows = sum(len(p) for p in matrices.values())
    vectors = sum(p.numel() for p in ours.parameters() if p.ndim == 1)
    padded = sum(-(-p.numel() // 4) * 4 for p in matrices.values())
    assert len(data) == 4 + length + padded + 4 * (rows + vectors)


def test_a_row_of_zeros_stays_one():
    ours = model()
    with torch.no_grad():
        ours.embedding.weight[2] = 0
    again, _ = page_model.unpack(page_model.pack(ours, VOCAB))
    assert (again.embedding.weight[2] == 0).all()


@pytest.mark.parametrize(
    "changes",
    [{"activation": "gelu"}, {"norm": "layer"}, {"position": "learned"}, {"tie_embeddings": False},
     {"bias": True}, {"n_kv_heads": 1}, {"rotary_dim": 2}, {"window": 3}, {"parallel": True}],
)  # fmt: skip
def test_what_the_page_does_not_know_is_refused(changes):
    with pytest.raises(ValueError, match="the page knows"):
        page_model.pack(model(**changes), VOCAB)


def test_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match="expected 7 tokens, got 6"):
        page_model.pack(model(), VOCAB[1:])


def test_what_is_shown_names_the_file_and_says_what_it_is_where_it_cannot_run(displayed):
    page_model.show("any", "</script>", caption="What it says.")
    (bundle,) = displayed
    assert '"file":"any.bin"' in bundle["text/html"]
    assert '</script>"' not in bundle["text/html"]
    assert "What it says." in bundle["text/html"]
    assert "web book" in bundle["text/plain"]


def test_the_head_to_open_on_is_counted_from_one(displayed):
    page_model.show("any", "a", head=(3, 2))
    assert '"head":[3,2]' in displayed[0]["text/html"]
    with pytest.raises(ValueError, match=r"counted from 1, got layer and head \(0, 2\)"):
        page_model.show("any", "a", head=(0, 2))


def test_the_knobs_come_with_a_script_and_a_class_of_their_own(displayed):
    page_model.show("any", "a")
    page_model.show("any", "a", knobs=True)
    plain, with_knobs = (bundle["text/html"] for bundle in displayed)
    assert "u-model-sampling" in with_knobs
    assert "repetition_penalty" in with_knobs
    assert "repetition_penalty" not in plain
    assert with_knobs.count("<figure") == with_knobs.count("</figure>") == 1
