"""Exercises of chapter 9, in the order of the book."""

order = (
    "three_steps",
    "both_ends",
    "likeliest_path",
    "undecided_share",
    "balance_weights",
)
