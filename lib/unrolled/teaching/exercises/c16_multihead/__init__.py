"""Exercises of chapter 16, in the order of the book."""

order = ("heads_and_bytes", "unmix", "grouped_heads")
left_out = ("mean_ablation", "lucky_maps", "same_output")  # of chapter 16b, to come
