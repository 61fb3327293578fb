"""Exercises of chapter 21, in the order of the book."""

order = (
    "search_by_hand",
    "nucleus_ids",
    "greedy_loop",
    "cache_in_window",
    "speculation_on_paper",
)
