"""Exercises of chapter 20b, in the order of the book."""

order = (
    "induction_weight",
    "lens_bits",
    "choice_rows",
    "copy_gain",
)
