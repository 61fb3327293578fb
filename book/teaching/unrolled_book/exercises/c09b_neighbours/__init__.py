"""Exercises of chapter 9b, in the order of the book."""

order = (
    "two_beliefs",
    "both_ends",
    "fit_lags",
    "inputs_read",
    "likeliest_path",
)
