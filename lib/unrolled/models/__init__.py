"""Floor 2: the models of the book, from n-grams up."""
