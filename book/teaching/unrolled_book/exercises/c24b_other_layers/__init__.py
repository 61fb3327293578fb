"""Exercises of chapter 24b, in the order of the book."""

order = (
    "routing_by_hand",
    "seats_for_tokens",
    "bill_of_a_token",
    "many_steps_as_one",
    "selective_channel",
)
