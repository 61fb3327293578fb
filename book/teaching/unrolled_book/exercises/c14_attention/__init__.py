"""Exercises of chapter 14, in the order of the book."""

order = (
    "attention_by_hand",
    "mended_attention",
    "lookup_by_distance",
    "effective_share",
    "self_attention_vjp",
)
