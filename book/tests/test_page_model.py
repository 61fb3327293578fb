"""The model in the page of chapter 20 says what torch says, with the file the page loads."""

from __future__ import annotations

import re

import pytest
import torch
from conftest import SITE
from unrolled.models.heads import attention_weights
from unrolled.teaching.moving import page_model

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
    assert "no such sign: ß" in page.inner_text(".u-model-says")
