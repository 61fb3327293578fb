"""What Shannon's game writes into a page, and what it refuses; a browser tests the rest."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from unrolled_book.moving import shannon_game

TEXT = "an ant <b>"
COMMON = dict.fromkeys(sorted(set(TEXT)), 1 / len(set(TEXT)))
MODELS = {"uniform": np.full(7, 3.0), "better": np.array([1.0, 2, 0, 1, 2, 1, 0])}


def test_the_still_has_the_text_and_the_models_mean_bits(displayed):
    shannon_game.play(TEXT, 3, models=MODELS, common=COMMON, caption="What it says.")
    (bundle,) = displayed
    assert "uniform 21.0 bits, 3.00 each; better 7.0 bits, 1.00 each." in bundle["text/plain"]
    assert "an␣<b>ant␣&lt;b&gt;</b></p>" in bundle["text/html"]
    assert "<td>3.00</td>" in bundle["text/html"]
    assert "What it says." in bundle["text/html"]


def test_the_page_has_the_numbers_with_digits_that_every_processor_gives(displayed):
    for paid in (MODELS["better"], MODELS["better"] + 1e-7):
        shannon_game.play(TEXT, 3, models={"better": paid}, common=COMMON)
    one, other = (bundle["text/html"] for bundle in displayed)
    assert one == other
    (written,) = re.findall(r'(?s)<script type="application/json">(.*?)</script>', one)
    data = json.loads(written)
    assert data["text"] == TEXT
    assert data["models"]["better"] == MODELS["better"].tolist()


def test_what_is_given_may_have_capitals(displayed):
    text = TEXT.capitalize()
    common = dict.fromkeys(sorted(set(text)), 1 / len(set(text)))
    shannon_game.play(text, 3, models=MODELS, common=common)
    assert displayed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": 0}, r"start must lie in 1 … 9, got 0"),
        ({"start": 10}, r"got 10"),
        ({"models": {"short": np.ones(6)}}, r"'short' must pay finite bits for 7 .* \(6,\)"),
        ({"models": {"sure": np.full(7, np.inf)}}, "finite bits"),
        ({"models": {"gains": np.full(7, -1.0)}}, "finite bits"),
        ({"common": COMMON | {"a": 0.5}}, "sum to 1, got 1.3"),
        ({"common": dict.fromkeys(COMMON, np.nan)}, "sum to 1, got nan"),
        ({"common": COMMON | {"a": 1e-7, "n": COMMON["n"] + COMMON["a"]}}, "1e-07 for 'a'"),
        ({"text": "an aNt <b>"}, "one lower-case character at a time; .* 'aNt <b>'"),
        ({"text": "a\U0001f41c ant <b>", "start": 4}, "one lower-case character"),
        ({"common": {"a": 1.0}}, r"lacks the characters \[' ', '<'"),
        ({"common": COMMON | {"a": 0.0, "n": COMMON["a"] * 2}}, "must be positive"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    options = {"text": TEXT, "start": 3, "models": MODELS, "common": COMMON} | changes
    text, start = options.pop("text"), options.pop("start")
    with pytest.raises(ValueError, match=message):
        shannon_game.play(text, start, **options)
