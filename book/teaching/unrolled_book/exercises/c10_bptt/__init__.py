"""Exercises of chapter 10, in the order of the book."""

order = (
    "three_losses",
    "clip_together",
    "truncated_slope",
    "leaky_bptt",
    "settling_points",
)
