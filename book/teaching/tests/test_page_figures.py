"""Figures that a script moves in the page: what they write, and what they refuse.

A browser tests the scripts themselves.
"""

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
import unrolled_book.moving as moving
from bs4 import BeautifulSoup
from unrolled.data.bpe import BPETokenizer
from unrolled.models.attention import attend
from unrolled.models.masks import causal_mask
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.moving import mask_painter, page_model, shannon_game, typed_tokens
from unrolled_book.moving.embed import embed

from lib.tests.comparing import refuses


def scripts(page: str) -> list[str]:
    return [script.string for script in BeautifulSoup(page, "html.parser")("script")]


@pytest.fixture
def files(tmp_path):
    style, script = tmp_path / "a.css", tmp_path / "a.js"
    style.write_text(".a{color:red}\n", encoding="utf-8")
    script.write_text('"run"\n', encoding="utf-8")
    return {"style": style, "script": script}


@pytest.mark.parametrize(
    "text", ["</script>", "</SCRIPT ", "<!--<script>", "<!-- ", "é “ü” \u2028"]
)
def test_data_come_out_of_the_page_as_they_went_in(text, files):
    data = {"text": text, text: [1.5, None, True]}
    page = embed("u-a", "<p>still</p>", data=data, caption="<figcaption>c</figcaption>\n", **files)
    written, script = scripts(page)
    assert json.loads(written) == data
    assert script == '\n"run"\n'
    assert "<!" not in written


def test_style_data_body_script_and_caption_stand_in_this_order(files):
    page = embed("u-a u-b", "BODY", data=["DATA"], caption="CAPTION", **files)
    places = [page.index(s) for s in (".a{color:red}", '["DATA"]', "BODY", '"run"', "CAPTION")]
    assert places == sorted(places)
    assert page.startswith('<figure class="u-a u-b">\n<style>\n@media screen')
    assert page.endswith("CAPTION</figure>")
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed("u-a", "", data=[float("nan")], **files)


def test_no_other_module_writes_a_script_into_a_page():
    sources = {p.name: p.read_text("utf8") for p in Path(moving.__file__).parent.rglob("*.py")}
    assert [name for name, text in sources.items() if re.search("<script", text)] == ["embed.py"]


WORDS = ("a", "</script>", "b")
Q, K, V = torch.arange(9.0).view(3, 3).sin(), torch.eye(3), torch.ones(3, 2)
MASK = causal_mask(3)
TEXT = "an ant <b>"
COMMON = dict.fromkeys(sorted(set(TEXT)), 1 / len(set(TEXT)))
MODELS = {"uniform": np.full(7, 3.0), "better": np.array([1.0, 2, 0, 1, 2, 1, 0])}
TOKENIZER = BPETokenizer.train("low lower lowest <b>é</b> " * 3, 12)
LEARNT, VOCAB = TOKENIZER.merges, TOKENIZER.vocab


def paint(**changes):
    options = {"words": WORDS, "q": Q, "k": K, "v": V, "masks": {"causal": MASK}} | changes
    mask_painter.paint(**options)


def play(text=TEXT, start=3, **changes):
    shannon_game.play(text, start, **({"models": MODELS, "common": COMMON} | changes))


def type_in(tokenizer=TOKENIZER, text="a", **changes):
    typed_tokens.show(tokenizer, text, **({"merges": (0, 4), "start": 4} | changes))


def test_the_still_of_a_mask_to_paint_has_the_weights_of_the_first(displayed):
    paint(caption="What it says.")
    (bundle,) = displayed
    _, weights = attend(Q, K, V, MASK, return_weights=True)
    row = ", ".join(f"{100 * x:.0f}" for x in weights[2].tolist())
    assert f"b: {row}." in bundle["text/plain"]
    for part in (f">{100 * weights[2, 1]:.0f}</td>", "What it says.", "&lt;/script&gt;"):
        assert part in bundle["text/html"]
    assert json.loads(scripts(bundle["text/html"])[0])["words"] == [*WORDS]


def test_the_still_of_the_game_has_the_text_and_the_models_mean_bits(displayed):
    play(caption="What it says.")
    (bundle,) = displayed
    assert "uniform 21.0 bits, 3.00 each; better 7.0 bits, 1.00 each." in bundle["text/plain"]
    for part in ("an␣<b>ant␣&lt;b&gt;</b></p>", "<td>3.00</td>", "What it says."):
        assert part in bundle["text/html"]
    data = json.loads(scripts(bundle["text/html"])[0])
    assert data["text"] == TEXT
    assert data["models"] == {name: paid.tolist() for name, paid in MODELS.items()}
    text = TEXT.capitalize()  # what is given may have capitals
    play(text, common=dict.fromkeys(sorted(set(text)), 1 / len(set(text))))


def test_numbers_are_stored_with_the_digits_that_every_processor_gives(displayed):
    for much in (0, 1):
        paint(q=Q + much * 1e-6)
        play(models={"better": MODELS["better"] + much * 1e-7})
    assert displayed[:2] == displayed[2:]
    assert "0.8415," in displayed[0]["text/html"]


def test_the_still_of_typed_tokens_has_those_of_the_start(displayed):
    type_in(text="low <b>é\n", merges=(0, 4, 10), caption="So it is.")
    (bundle,) = displayed
    page = bundle["text/html"]
    ids = BPETokenizer(TOKENIZER.merges[:4]).encode("low <b>é\n").tolist()
    assert [int(i) for i in re.findall(r"<small>(\d+)</small>", page)] == ids
    for part in (f"4 merges: {len(ids)} tokens for 10 bytes", "&lt;", "↵", "So it is."):
        assert part in page
    assert "4 merges cut" in bundle["text/plain"]
    data = json.loads(scripts(page)[0])
    pairs = [TOKENIZER.vocab.index(token) for pair in TOKENIZER.merges[:10] for token in pair]
    assert data["merges"] == pairs
    assert (data["stops"], data["start"]) == ([0, 4, 10], 1)
    type_in(BPETokenizer([]), "é", merges=(0,), start=0)  # the bytes of a cut character
    assert '<span class="u-typed-bytes">C3</span>' in displayed[1]["text/html"]
    assert typed_tokens.written(b" a\n") == ("␣a↵", True)
    assert typed_tokens.written(b" \xf0") == ("20 F0", False)


test_what_the_page_cannot_follow_is_refused = refuses(
    (paint, {"masks": {}}, "masks must hold at least one mask, got none"),
    (paint, {"masks": {"wide": causal_mask(3, 4)}}, r"'wide' must be booleans of .*\(3, 3\)"),
    (paint, {"masks": {"ints": MASK.int()}}, r"got \(3, 3\) of torch.int32"),
    (paint, {"v": V[:2]}, r"v must be floats of shape \(3, width\) for 3 words, got \(2, 2\)"),
    (paint, {"q": Q.long()}, "got .* of torch.int64"),
    (paint, {"k": K[:, :2]}, r"of one shape, got \(3, 3\) and \(3, 2\)"),
    (play, {"start": 0}, r"start must lie in 1 … 9, got 0"),
    (play, {"start": 10}, r"got 10"),
    (play, {"models": {"short": np.ones(6)}}, r"'short' must pay .* for 7 .* \(6,\)"),
    (play, {"models": {"sure": np.full(7, np.inf)}}, "finite bits"),
    (play, {"models": {"gains": np.full(7, -1.0)}}, "finite bits"),
    (play, {"common": COMMON | {"a": 0.5}}, "sum to 1, got 1.3"),
    (play, {"common": dict.fromkeys(COMMON, np.nan)}, "sum to 1, got nan"),
    (play, {"common": COMMON | {"a": 1e-7, "n": COMMON["n"] + COMMON["a"]}}, "1e-07 for 'a'"),
    (play, {"text": "an aNt <b>"}, "one lower-case character at a time; .* 'aNt <b>'"),
    (play, {"text": "a\U0001f41c ant <b>", "start": 4}, "one lower-case character"),
    (play, {"common": {"a": 1.0}}, r"lacks the characters \[' ', '<'"),
    (play, {"common": COMMON | {"a": 0.0, "n": COMMON["a"] * 2}}, "must be positive"),
    (type_in, {"text": ""}, r"1 … 300 characters"),
    (type_in, {"text": "a" * 301}, r"1 … 300 characters"),
    (type_in, {"text": "a\r\n"}, "no carriage return"),
    (type_in, {"merges": (0, 99)}, "a number of merges"),
    (type_in, {"merges": (4, 0)}, r"must rise and hold 4, the start, got \[4, 0\]"),
    (type_in, {"merges": (0, 5)}, "must rise and hold 4"),
    (type_in, {"tokenizer": BPETokenizer(LEARNT, ["<s>"])}, "GPT-2's pattern only"),
    (type_in, {"tokenizer": BPETokenizer(LEARNT, pattern="none")}, "GPT-2's pattern only"),
    (type_in, {"tokenizer": BPETokenizer([], vocab=VOCAB[255::-1]), "merges": (0,), "start": 0},
     "in their order"),
    (type_in, {"tokenizer": BPETokenizer(LEARNT, vocab=(*VOCAB[:256], *VOCAB[:255:-1]))},
     "in the order of the merges"),
    of=lambda call, changes: call(**changes),
)  # fmt: skip


LETTERS = tuple("abcdefg")
SIZES = {  # some matrices have no multiple of four entries, so that they are padded
    "vocab_size": 7, "d_model": 30, "n_layers": 2, "n_heads": 5, "context_length": 11, "d_ff": 13,
    "activation": "swiglu", "norm": "rms", "position": "rotary", "bias": False, "init_std": 0.2,
}  # fmt: skip


def model(**changes) -> TransformerLM:
    torch.manual_seed(3)
    return TransformerLM(TransformerConfig(**SIZES | changes)).eval()


def test_a_packed_model_comes_back_with_every_weight_within_half_a_step():
    ours = model()
    with torch.no_grad():
        ours.embedding.weight[2] = 0  # a row of zeros stays one
    again, vocab = page_model.unpack(page_model.pack(ours, LETTERS))
    assert vocab == LETTERS
    assert again.config == ours.config
    for (name, weight), rounded in zip(
        ours.state_dict().items(), again.state_dict().values(), strict=True
    ):
        step = weight.abs().amax(-1, keepdim=True) / 127 if weight.ndim == 2 else 0 * weight
        assert (weight - rounded).abs().le(step / 2 + 1e-7).all(), name
    assert (again.embedding.weight[2] == 0).all()
    assert again.head.weight is again.embedding.weight


def test_the_file_is_a_header_and_a_byte_for_each_entry_of_a_matrix():
    ours = model()
    data = page_model.pack(ours, LETTERS)
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    assert length % 4 == 0
    assert all(tensor["at"] % 4 == 0 for tensor in header["tensors"])
    sizes = [4 * len(p) + (-(-p.numel() // 4) * 4 if p.ndim == 2 else 0) for p in ours.parameters()]
    assert len(data) == 4 + length + sum(sizes)


@pytest.mark.parametrize(
    "changes",
    [{"activation": "gelu"}, {"norm": "layer"}, {"position": "learned"}, {"tie_embeddings": False},
     {"bias": True}, {"n_kv_heads": 1}, {"rotary_dim": 2}, {"window": 3}, {"parallel": True}],
)  # fmt: skip
def test_what_the_page_does_not_know_is_refused(changes):
    with pytest.raises(ValueError, match="the page knows"):
        page_model.pack(model(**changes), LETTERS)
    with pytest.raises(ValueError, match="expected 7 tokens, got 6"):
        page_model.pack(model(), LETTERS[1:])


def test_what_is_shown_names_the_file_and_brings_the_knobs_only_when_they_are_asked_for(displayed):
    page_model.show("any", "</script>", caption="What it says.", head=(3, 2))
    page_model.show("any", "a", knobs=True)
    with pytest.raises(ValueError, match=r"counted from 1, got layer and head \(0, 2\)"):
        page_model.show("any", "a", head=(0, 2))
    plain, with_knobs = (bundle["text/html"] for bundle in displayed)
    for part in ('"file":"any.bin"', '"head":[3,2]', "What it says."):
        assert part in plain
    assert '</script>"' not in plain
    assert "web book" in displayed[0]["text/plain"]  # where it cannot run
    assert "u-model-sampling" in with_knobs
    assert "repetition_penalty" in with_knobs
    assert "repetition_penalty" not in plain
    assert with_knobs.count("<figure") == with_knobs.count("</figure>") == 1
