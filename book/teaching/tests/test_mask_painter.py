"""What the mask to paint writes into a page, and what it refuses; a browser tests the rest."""

from __future__ import annotations

import pytest
import torch
from unrolled.models.attention import attend
from unrolled.models.masks import causal_mask
from unrolled_book.moving import mask_painter

WORDS = ("a", "</script>", "b")
Q, K, V = torch.arange(9.0).view(3, 3).sin(), torch.eye(3), torch.ones(3, 2)
MASKS = {"causal": causal_mask(3)}


def test_the_still_has_the_weights_of_the_first_mask(displayed):
    mask_painter.paint(WORDS, Q, K, V, masks=MASKS, caption="What it says.")
    (bundle,) = displayed
    _, weights = attend(Q, K, V, MASKS["causal"], return_weights=True)
    row = ", ".join(f"{100 * x:.0f}" for x in weights[2].tolist())
    assert f"b: {row}." in bundle["text/plain"]
    assert f">{100 * weights[2, 1]:.0f}</td>" in bundle["text/html"]
    assert "What it says." in bundle["text/html"]
    assert "&lt;/script&gt;" in bundle["text/html"]
    assert '</script>"' not in bundle["text/html"]


def test_numbers_are_stored_with_the_digits_that_every_processor_gives(displayed):
    nearly = Q + 1e-6 * torch.randn_like(Q)
    for q in (Q, nearly):
        mask_painter.paint(WORDS, q, K, V, masks=MASKS)
    one, other = displayed
    assert one == other
    assert "0.8415," in one["text/html"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": {}}, "masks must hold at least one mask, got none"),
        ({"masks": {"wide": causal_mask(3, 4)}}, r"'wide' must be booleans of shape \(3, 3\)"),
        ({"masks": {"ints": causal_mask(3).int()}}, r"got \(3, 3\) of torch.int32"),
        ({"v": V[:2]}, r"v must be floats of shape \(3, width\) for 3 words, got \(2, 2\)"),
        ({"q": Q.long()}, "got .* of torch.int64"),
        ({"k": K[:, :2]}, r"of one shape, got \(3, 3\) and \(3, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    options = {"words": WORDS, "q": Q, "k": K, "v": V, "masks": MASKS} | changes
    with pytest.raises(ValueError, match=message):
        mask_painter.paint(**options)
