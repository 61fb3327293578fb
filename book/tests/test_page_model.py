"""The model in the pages of chapters 20 to 21 says what torch and the library's samplers say."""

from __future__ import annotations

import math
import re

import pytest
import torch
from conftest import SITE
from unrolled.generation.generate import generate
from unrolled.generation.samplers import Sampling
from unrolled.models.heads import attention_weights
from unrolled_book.moving import page_model

PAGE = "chapters/20_transformer_lm.html"
TEXTS = ("", "ROMEO:\nWhat ", "The king, the k")


@pytest.fixture(scope="module")
def page(open_page):
    tab = open_page(PAGE, "phone")
    tab.click(".u-model-place button")
    tab.wait_for_selector(".u-next li")
    return tab


@pytest.fixture(scope="module")
def packed():
    return page_model.unpack((SITE / "_static" / "ladder_transformer.bin").read_bytes())


@pytest.mark.parametrize("text", TEXTS)
def test_its_probabilities_and_its_attention_are_those_of_torch(text, page, packed):
    model, vocab = packed
    page.fill(".u-model textarea", text)
    shown = page.evaluate("[...document.querySelectorAll('.u-next li')].map(i => +i.dataset.p)")
    ids = torch.tensor([[vocab.index(c) for c in "\n" + text]])
    with torch.no_grad(), attention_weights(model) as weights:
        expected = model(ids)[0, -1].softmax(-1).sort(descending=True).values
    torch.testing.assert_close(torch.tensor(shown), expected[: len(shown)], rtol=0, atol=1e-4)
    last = model.config.n_layers
    page.select_option(".u-l", str(last))
    page.select_option(".u-h", "2")
    top = weights[-1][0, 1, -1].argmax().item()
    first = re.search(r"\((\d+)\): ", page.inner_text(".u-model-says"))
    assert int(first[1]) == top + 1


def test_it_writes_into_the_text_and_can_be_used_by_keyboard(page):
    page.fill(".u-model textarea", "HAMLET:\n")
    page.focus(".u-model button[value='40']")
    page.keyboard.press("Enter")
    assert len(page.input_value(".u-model textarea")) == len("HAMLET:\n") + 40
    says = page.inner_text(".u-model-says")
    page.focus(".u-model .u-from input")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".u-model-says") != says


def test_a_sign_it_does_not_know_is_named_and_left_out(page):
    page.fill(".u-model textarea", "aßb")
    assert "no such character: ß" in page.inner_text(".u-model-says")


def test_it_says_when_a_text_is_cut(page):
    page.fill(".u-model textarea", "o" * 119)
    assert page.inner_text(".u-cut") == ""
    page.fill(".u-model textarea", "o" * 125)
    assert "reads its last 119 of 125 characters" in page.inner_text(".u-cut")
    page.fill(".u-model textarea", "o")
    assert page.inner_text(".u-cut") == ""


def test_it_opens_on_the_head_that_the_chapter_names(open_page, packed):
    tab = open_page("chapters/20b_inside.html", "phone")
    tab.click(".u-model-place button")
    tab.wait_for_selector(".u-next li")
    assert (tab.input_value(".u-l"), tab.input_value(".u-h")) == ("3", "1")
    says = tab.inner_text(".u-model-says")
    assert says.startswith("Layer 3, head 1 looks most at line end (41)")


SAMPLING = "chapters/21_generation.html"
KNOBS = [
    {"temperature": 0.7, "top_k": 10},
    {"temperature": 2, "top_p": 0.9},
    {"min_p": 0.1, "repetition_penalty": 1.5},
    {"temperature": 0},
    {"top_k": 30, "top_p": 0.8, "min_p": 0.02, "temperature": 1.3},
]
LOGITS = [
    [0.3, -1.2, 2.5, 0.3, -4.0, 1.1],
    [1.0, 1.0, 1.0, 1.0, 0.0, 0.0],  # equal ones
    [math.log(p) for p in (0.3, 0.6, 0.05, 0.02, 0.02, 0.01)],  # 0.6 + 0.3 is 0.9 but for rounding
]


@pytest.fixture(scope="module")
def knobs(open_page):
    tab = open_page(SAMPLING, "phone")
    tab.click(".u-model-place button")
    tab.wait_for_selector(".u-chosen li")
    return tab


@pytest.mark.parametrize("settings", [*KNOBS, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.02}])
@pytest.mark.parametrize("logits", LOGITS)
def test_the_knobs_give_the_probabilities_of_the_library(logits, settings, knobs):
    tokens = [2, 4, 4]
    found = knobs.evaluate(
        "([z, ids, s]) => document.querySelector('.u-model-sampling').sampled(z, ids, s)",
        [logits, tokens, settings],
    )
    sampling = Sampling(**settings)
    ids, given = torch.tensor([tokens]), torch.tensor([logits], dtype=torch.float64)
    expected = sampling.probs(sampling.penalise(given, ids, torch.ones_like(ids, dtype=bool)))[0]
    given = torch.tensor(found, dtype=torch.float64)
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", KNOBS)
def test_what_is_drawn_from_is_that_of_torch_and_the_library(settings, knobs, packed):
    model, vocab = packed
    text = "ROMEO:\nWhat "
    knobs.fill(".u-model textarea", text)
    usual = {"repetition_penalty": 1, "temperature": 1, "top_k": "off", "top_p": "off",
             "min_p": "off"}  # fmt: skip
    for name, value in (usual | settings).items():
        knobs.select_option(f"[data-knob={name}]", str(value))
    shown = knobs.evaluate("[...document.querySelectorAll('.u-chosen li')].map(i => +i.dataset.q)")
    ids = torch.tensor([[vocab.index(c) for c in "\n" + text]])
    sampling = Sampling(**settings)
    with torch.no_grad():
        logits = sampling.penalise(model(ids)[:, -1], ids, torch.ones_like(ids, dtype=bool))
    expected = sampling.probs(logits)[0]
    best = expected.sort(descending=True).values[: len(shown)]
    torch.testing.assert_close(torch.tensor(shown).float(), best, rtol=0, atol=1e-4)
    n = int((expected > 0).sum())
    assert knobs.inner_text(".u-kept").startswith(f"{n} of {len(vocab)} ")


def test_with_the_temperature_at_0_it_writes_what_greedy_search_writes(knobs, packed):
    model, vocab = packed
    knobs.fill(".u-model textarea", "The king ")
    knobs.select_option("[data-knob=temperature]", "0")
    for name in ("top_k", "top_p", "min_p"):
        knobs.select_option(f"[data-knob={name}]", "off")
    knobs.select_option("[data-knob=repetition_penalty]", "1")
    knobs.click(".u-model button[value='40']")
    prompt = torch.tensor([[vocab.index(c) for c in "\nThe king "]])
    expected = "".join(vocab[i] for i in generate(model, prompt, 40, temperature=0)[0, 1:])
    assert knobs.input_value(".u-model textarea") == expected


def test_what_is_cut_off_stands_in_the_models_order(knobs):
    knobs.fill(".u-model textarea", "To be, or not to be, that is the qu")
    for name, value in {"repetition_penalty": "1", "temperature": "1", "top_k": "1"}.items():
        knobs.select_option(f"[data-knob={name}]", value)
    lists = [knobs.inner_text(f"{at} li:nth-child({k})").split()[0]
             for at in (".u-next:not(.u-chosen)", ".u-chosen") for k in range(1, 9)]  # fmt: skip
    assert lists[:8] == lists[8:]
    assert "cut off" in knobs.inner_text(".u-chosen li:nth-child(2)")


def test_the_prompt_comes_back(knobs):
    knobs.fill(".u-model textarea", "another text")
    knobs.click(".u-back")
    assert knobs.input_value(".u-model textarea") == "To be, or not to be, that is the "
    assert len(knobs.query_selector_all(".u-chosen li")) == 8
