"""Exercises of chapter 23b, in the order of the book."""

order = ("loss_of_rank", "zero_step", "what_each_holds", "token_batches")
