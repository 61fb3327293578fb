"""Exercises of chapter 13, in the order of the book."""

order = (
    "step_by_hand",
    "score_gradients",
    "read_memory",
    "additive_scores",
    "crossings",
)
