"""Exercises of chapter 20, in the order of the book."""

order = (
    "gpt_size",
    "causal_loss",
    "induction_weight",
    "choice_rows",
    "copy_gain",
)
