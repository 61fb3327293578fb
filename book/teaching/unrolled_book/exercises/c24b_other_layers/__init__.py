"""Exercises of chapter 24b, in the order of the book."""

order = (
    "routing_by_hand",
    "seats_for_tokens",
    "many_steps_as_one",
    "image_of_patches",
    "folds_by_writer",
)
