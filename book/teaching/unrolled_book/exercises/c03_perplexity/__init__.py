"""Exercises of chapter 3, How good is a model? Perplexity."""

order = (
    "perplexity_by_hand",
    "pooled_perplexity",
    "perplexity_per_word",
    "context_seen",
    "best_bet",
)
