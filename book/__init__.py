"""The book's own code: what builds and checks it, and the verbs of `python -m book`."""
