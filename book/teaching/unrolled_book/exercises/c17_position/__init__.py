"""Exercises of chapter 17, in the order of the book."""

order = (
    "positions_by_hand",
    "two_way_bucket",
    "half_from_interleaved",
    "steps_between",
    "scheme_inside",
)
