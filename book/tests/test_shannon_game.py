"""Shannon's game in chapter 3 keeps its accounts: bits, and their mean."""

from __future__ import annotations

import json
import math

import pytest

PAGE = "chapters/03_perplexity.html"


@pytest.fixture
def page(open_page):
    return open_page(PAGE, "phone")


@pytest.fixture
def data(page):
    return json.loads(page.inner_text(".u-game script[type='application/json']"))


def accounts(page) -> dict[str, list[str]]:
    """By player: bits so far, their mean, the mean of the whole text, as shown."""
    rows = page.evaluate(
        """[...document.querySelectorAll('.u-game tbody tr')].map(
             tr => [...tr.cells].map(cell => cell.textContent))"""
    )
    return {name: numbers for name, *numbers in rows}


def bet(page, character: str, sureness: int) -> None:
    """A guess, typed, with a sureness so many steps from “no idea”; Enter places the bet."""
    page.select_option(".u-game select", str(sureness))
    page.focus(".u-game input")
    page.keyboard.type(character)
    page.keyboard.press("Enter")


def test_before_the_first_bet_only_the_models_whole_text_is_known(page, data):
    shown = accounts(page)
    assert shown.pop("you") == ["–", "–", ""]
    for name, (bits, mean, whole) in shown.items():
        assert (bits, mean) == ("–", "–")
        paid = data["models"][name]
        assert float(whole) == pytest.approx(sum(paid) / len(paid), abs=0.0051)


def test_a_bet_costs_what_its_distribution_says(page, data):
    right, common = data["text"][data["start"] :], data["common"]
    other = next(c for c in common if c not in (right[1], " "))
    bet(page, right[0], 2)
    bet(page, other, 3)
    bet(page, "", 0)
    p = [0.6 + 0.4 * common[right[0]], 0.1 * common[right[1]], common[right[2]]]
    bits = -sum(map(math.log2, p))
    you = accounts(page)["you"]
    assert float(you[0]) == pytest.approx(bits, abs=0.051)
    assert float(you[1]) == pytest.approx(bits / 3, abs=0.0051)
    for name, paid in data["models"].items():
        assert float(accounts(page)[name][0]) == pytest.approx(sum(paid[:3]), abs=0.051)
    assert f"pay {-math.log2(p[2]):.2f} bits" in page.inner_text(".u-game-says")


def test_a_bet_is_told_whether_it_was_right(page, data):
    right = data["text"][data["start"] :]
    for sureness, character, said in (
        (2, right[0], "Right: it is"),
        (0, right[1], "Right: it is"),
        (0, "", "It is"),
        (1, "q", "No: it is"),
    ):
        bet(page, character, sureness)
        assert page.inner_text(".u-game-says").startswith(said)


def test_what_is_no_character_is_not_a_bet(page):
    bet(page, "7", 2)
    assert "Type one letter" in page.inner_text(".u-game-says")
    assert accounts(page)["you"][0] == "–"
    bet(page, "e", 2)
    assert accounts(page)["you"][0] != "–", "the wrong character is gone, and one can type another"


def test_the_game_ends_and_begins_again(page, data):
    for character in data["text"][data["start"] :]:
        bet(page, character, 4)
    you = accounts(page)["you"]
    assert you[1] == you[2] != ""
    assert page.is_disabled(".u-game [type=submit]")
    assert "the last one" in page.inner_text(".u-game-says")
    page.click(".u-game-form button[type=button]")
    assert accounts(page)["you"] == ["–", "–", ""]
    assert page.is_enabled(".u-game [type=submit]")
