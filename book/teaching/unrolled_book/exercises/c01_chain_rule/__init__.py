"""Exercises of chapter 1, the chain rule of language."""

order = ("two_roads", "shift", "bits_per_byte", "posterior", "endless", "both_ways")
