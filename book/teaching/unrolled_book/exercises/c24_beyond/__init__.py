"""Exercises of chapter 24, in the order of the book."""

order = (
    "preferences_by_hand",
    "targets_of_a_chat",
    "best_of_n",
    "dpo_pull",
    "shared_windows",
)
