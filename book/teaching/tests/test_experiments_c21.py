"""Chapter 21's recorded experiments: what is measured, on cases counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import c21_cache as cache
from unrolled_book.experiments import c21_mode as mode
from unrolled_book.experiments import c21_writing as writing
from unrolled_book.experiments.ladder import CORPUS


def tiny() -> TransformerLM:
    torch.manual_seed(0)
    vocab_size = CharTokenizer.train(corpora.load(CORPUS).train).vocab_size
    config = TransformerConfig(
        vocab_size=vocab_size, d_model=12, n_layers=1, n_heads=3, context_length=160, init_std=0.3
    )
    return TransformerLM(config).eval()


def test_repeated_counts_what_stood_before_in_the_same_text():
    assert writing.repeated(["abcdefghij"]) == 0
    assert writing.repeated(["a" * 9]) == pytest.approx(1 / 2)  # two pieces, one of them new
    assert writing.repeated(["a" * 9, "abcdefghi"]) == pytest.approx(1 / 4)
    assert writing.repeated(["abcdefgh", "abcdefgh"]) == 0


def test_shared_counts_what_stands_in_another_text():
    assert writing.shared(["abcdefgh", "ijklmnop"]) == 0
    assert writing.shared(["abcdefgh", "abcdefgh", "ijklmnop"]) == pytest.approx(2 / 3)
    assert writing.shared(["a" * 9, "bcdefghij"]) == 0  # twice in one text is not shared


def test_known_leaves_out_words_that_may_be_cut_off():
    assert writing.known(["ct the KING is, king's xyz"], {"the", "king"}) == pytest.approx(3 / 5)


def test_the_human_text_goes_on_from_the_same_prompt_and_sets_differ_by_seed():
    tokens = np.arange(5000)
    starts = writing.contexts(tokens, 2, 30)[:, 0]
    assert (starts.sort().values.diff() >= writing.PROMPT + writing.N_NEW).all()
    human = writing.contexts(tokens, 0, 4)
    assert human.shape == (4, writing.PROMPT + writing.N_NEW)
    assert (human.diff() == 1).all()
    assert not torch.equal(human, writing.contexts(tokens, 1, 4))


def test_each_method_keeps_the_prompt_and_has_a_row_for_each_seed():
    result = writing.run(tiny(), seeds=(0, 3), n_texts=2)
    rows = json.loads(json.dumps(result))["metrics"]["rows"]
    assert [(r["seed"], r["method"]) for r in rows] == [
        (seed, method) for seed in (0, 3) for method in writing.METHODS
    ]
    for seed in (0, 3):
        examples = [r["example"] for r in rows if r["seed"] == seed]
        assert len({example[: writing.PROMPT] for example in examples}) == 1
    for row in rows:
        assert len(row["by_position"]) == writing.N_NEW
        assert row["nats"] == pytest.approx(np.mean(row["by_position"]))


def test_the_cost_is_that_of_the_new_characters_alone():
    model, texts = tiny(), torch.randint(5, (2, writing.PROMPT + writing.N_NEW))
    expected = model(texts)[:, :-1].log_softmax(-1).gather(-1, texts[:, 1:, None])[..., 0]
    found = writing.nats(model, texts)
    torch.testing.assert_close(found, -expected[:, -writing.N_NEW :])


def test_a_line_begins_after_enough_context_and_is_short_enough():
    tokens = np.ones(900, dtype=int)
    tokens[[30, 70, 90, 300, 310, 330, 340]] = 0
    assert mode.line_ends(tokens, 0, 3).tolist() == [70, 300, 310] or (
        set(mode.line_ends(tokens, 0, 3)) <= {70, 300, 310, 330}
    )


def test_the_mode_is_at_least_as_likely_as_what_any_search_finds():
    rows = mode.run(tiny(), n_lines=2, beams=(1, 2), max_reads=20)["metrics"]["rows"]
    for row in json.loads(json.dumps(rows)):
        assert len(row["context"]) == mode.CONTEXT
        assert row["context"].endswith("\n")
        assert row["human"]["text"].endswith("\n")
        assert row["mode"] is None or all(
            row["mode"]["log_prob"] >= row[key]["log_prob"] - 1e-4 for key in ("1", "2", "human")
        )


def test_a_row_of_seconds_for_each_length_and_seed():
    rows = cache.run(seeds=(0, 1), lengths=(2, 3))["metrics"]["rows"]
    assert [(r["seed"], r["length"]) for r in rows] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert all(r["cached"] > 0 and r["uncached"] > 0 for r in rows)
