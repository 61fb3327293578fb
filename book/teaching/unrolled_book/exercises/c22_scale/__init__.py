"""Exercises of chapter 22, in the order of the book."""

order = (
    "cost_by_hand",
    "training_days",
    "largest_batch",
    "layers_to_hear",
    "size_for_tonight",
)
