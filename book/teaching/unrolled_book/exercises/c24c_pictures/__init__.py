"""Exercises of chapter 24c, in the order of the book."""

order = (
    "patches_on_paper",
    "image_of_patches",
    "positions_for_size",
    "mean_of_patches",
    "folds_by_writer",
)
