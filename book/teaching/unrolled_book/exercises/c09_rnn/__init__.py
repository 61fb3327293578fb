"""Exercises of chapter 9, in the order of the book."""

order = (
    "three_steps",
    "final_states",
    "parity_weights",
    "undecided_share",
    "balance_weights",
)
