"""Exercises of chapter 7b, in the order of the book."""

order = (
    "stable_loss",
    "worst_entry",
    "step_size",
    "loss_hessian",
)
