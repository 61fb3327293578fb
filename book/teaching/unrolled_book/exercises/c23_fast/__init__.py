"""Exercises of chapter 23, in the order of the book."""

order = ("roof_on_paper", "where_it_stops", "round_to_bf16", "merge_tiles")
