"""Floor 3: what is measured and how a model is trained."""
