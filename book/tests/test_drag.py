"""The query of chapter 14 is dragged over the plane of the keys; the sliders follow."""

from __future__ import annotations

import pytest

PAGE = "chapters/14_attention.html"
FIGURE = ".u-explore:has(.u-handle)"


@pytest.fixture
def page(open_page):
    return open_page(PAGE, "desktop")


def shown(page) -> tuple[list[int], str]:
    sliders = page.query_selector_all(f"{FIGURE} input[type=range]")
    alt = page.get_attribute(f"{FIGURE} svg", "aria-label")
    return [int(slider.input_value()) for slider in sliders], alt


def test_the_handle_follows_the_pointer_to_the_nearest_state(page):
    handle = page.locator(f"{FIGURE} .u-handle")
    handle.scroll_into_view_if_needed()
    (across, up), _ = shown(page)
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 300)  # far above the plane: the highest state
    (across_now, up_now), alt = shown(page)
    page.mouse.up()
    assert across_now == across
    assert up_now > up
    assert "weights" in alt
    page.mouse.move(x, y)  # let go: it stays
    assert shown(page)[0] == [across_now, up_now]


def test_only_the_handle_drags(page):
    before = shown(page)
    box = page.locator(f"{FIGURE} svg").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.up()
    assert shown(page) == before
