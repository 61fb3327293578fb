"""Floor 4: what a model writes, by drawing or by search."""
