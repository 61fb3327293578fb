"""Floor 4: figures, checks and exercises around the chapters."""
