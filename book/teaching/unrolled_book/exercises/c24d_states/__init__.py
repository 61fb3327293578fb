"""Exercises of chapter 24d, in the order of the book."""

order = (
    "state_or_cache",
    "selective_channel",
    "many_steps_as_one",
    "states_of_packed_texts",
)
