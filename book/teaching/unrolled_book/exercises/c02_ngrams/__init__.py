"""Exercises of chapter 2, in the order of the book."""

order = ("shared_parameters", "roll", "bits_of_line", "bigram_matrix", "longest_copy")
