"""Exercises of chapter 12, in the order of the book."""

order = (
    "rnn_lm_size",
    "sharpen",
    "context_given",
    "tied_gradient",
    "memory_length",
)
