"""Exercises of chapter 11, in the order of the book."""

order = (
    "lstm_by_hand",
    "bias_for_half_life",
    "block_order",
    "counts_to",
    "lstm_step_vjp",
)
