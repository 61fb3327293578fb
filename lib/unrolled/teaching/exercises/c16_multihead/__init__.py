"""Exercises of chapter 16, in the order of the book."""

order = (
    "heads_and_bytes",
    "grouped_heads",
    "mean_ablation",
    "lucky_maps",
    "same_output",
)
