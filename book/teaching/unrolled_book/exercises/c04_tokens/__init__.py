"""Exercises of chapter 4, Tokens."""

order = (
    "merges_by_hand",
    "replay_merges",
    "longest_match",
    "characters_whole",
    "bytes_of_context",
)
