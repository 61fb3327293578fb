"""Floor 5: what a model costs: parameters, operations, bytes."""
