"""Exercises of chapter 24b, in the order of the book."""

order = (
    "routing_by_hand",
    "bill_of_a_token",
    "seats_for_tokens",
    "pull_of_balance",
)
