"""Exercises of chapter 8, in the order of the book."""

order = (
    "language_network_by_hand",
    "adagrad",
    "table_gradient",
    "lowest_loss",
    "steps_in_numbers",
    "with_direct_connections",
)
