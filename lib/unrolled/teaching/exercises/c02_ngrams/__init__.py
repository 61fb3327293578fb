"""Exercises of chapter 2, in the order of the book."""

order = (
    "shared_parameters",
    "roll",
    "bigram_matrix",
    "kneser_ney_by_hand",
    "kneser_ney",
    "interpolation_weight",
)
