"""Exercises of chapter 16, in the order of the book."""

order = ("heads_and_bytes", "unmix", "wrong_view", "grouped_heads")
