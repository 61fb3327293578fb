"""Exercises of chapter 20, in the order of the book."""

order = (
    "gpt_size",
    "training_budget",
    "causal_loss",
    "gpt_logits",
)
