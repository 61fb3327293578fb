"""Exercises of chapter 15, in the order of the book."""

order = (
    "masked_by_hand",
    "safe_weights",
    "document_mask",
    "low_enough",
    "query_stream",
)
