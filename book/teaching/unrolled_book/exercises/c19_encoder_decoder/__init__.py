"""Exercises of chapter 19, in the order of the book."""

order = (
    "masks_by_hand",
    "shift_right",
    "cross_attention",
    "named_rows",
    "smoothed_loss",
    "hide_some",
)
