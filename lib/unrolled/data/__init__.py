"""Floor 1: text, tokens and batches."""
