"""Exercises of chapter 6b, in the order of the book."""

order = ("way_around_by_hand", "residual_sizes", "gradient_by_branches", "insert_layer")
