"""Exercises of chapter 16b, in the order of the book."""

order = ("lucky_maps", "contributions", "mean_ablation", "same_output")
