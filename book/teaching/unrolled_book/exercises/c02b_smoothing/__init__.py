"""Exercises of chapter 2b, in the order of the book."""

order = ("additive_rows", "kneser_ney_by_hand", "kneser_ney", "interpolation_weight")
