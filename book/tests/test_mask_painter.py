"""The mask to paint in chapter 15 computes what the library computes, by mouse and by keyboard."""

from __future__ import annotations

import json

import pytest
import torch
from unrolled.models.attention import attend

PAGE = "chapters/15_masking.html"


@pytest.fixture
def page(open_page):
    return open_page(PAGE, "phone")


@pytest.fixture
def data(page):
    return json.loads(page.inner_text(".u-paint script[type='application/json']"))


def table(page) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The mask, the weights in per cent and the leaks, as the page shows them."""
    found = page.evaluate(
        """[...document.querySelectorAll('.u-paint tbody tr')].map(tr =>
             [...tr.querySelectorAll('button')].map(b => [b.getAttribute('aria-pressed') === 'true',
               Number(b.textContent), b.parentNode.classList.contains('u-leak')]))"""
    )
    mask, weights, leaks = torch.tensor(found, dtype=torch.float64).unbind(-1)
    return mask.bool(), weights, leaks.bool()


def expected(data, mask) -> tuple[torch.Tensor, torch.Tensor]:
    q, k, v = (torch.tensor(data[name], dtype=torch.float64) for name in "qkv")
    weights = attend(q, k, v, mask, return_weights=True)[1]
    return 100 * weights, mask & torch.ones_like(mask).triu(1)


def agrees(page, data) -> None:
    mask, weights, leaks = table(page)
    want, later = expected(data, mask)
    assert (weights - want).abs().max() <= 0.51  # whole numbers are shown
    assert torch.equal(leaks, later)
    fails = "test fails" in page.inner_text(".u-paint-says")
    assert fails == bool(later.any())


def test_every_mask_that_has_a_button(page, data):
    for name, mask in data["masks"].items():
        page.click(f".u-paint-masks button:text-is('{name}')")
        assert torch.equal(table(page)[0], torch.tensor(mask).bool())
        agrees(page, data)


def test_cells_are_painted_one_by_one(page, data):
    cells = page.query_selector_all(".u-paint td button")
    assert len(cells) == len(data["words"]) ** 2
    for n in (5, 7, 0, 29, 20):
        before = table(page)[0].flatten()[n]
        cells[n].click()
        assert table(page)[0].flatten()[n] != before
        agrees(page, data)


def test_it_is_painted_by_keyboard_and_empty_rows_are_named(page, data):
    page.focus(".u-paint td button[tabindex='0']")
    page.keyboard.press("Enter")  # the first word no longer sees itself
    says = page.inner_text(".u-paint-says")
    assert "Empty: row 1." in says
    assert "passes" in says
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert "row 2, “dog”, changes with word 3, “bit”" in page.inner_text(".u-paint-says")
    agrees(page, data)
