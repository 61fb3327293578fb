"""Exercises of chapter 18b, in the order of the book."""

order = (
    "two_paths",
    "rate_2017",
    "fold_norm",
    "norm_places",
    "largest_size",
)
