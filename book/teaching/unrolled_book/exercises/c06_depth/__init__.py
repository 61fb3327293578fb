"""Exercises of chapter 6, in the order of the book."""

order = ("units_by_hand", "softplus_and_slope", "start_variance", "folded_line")
