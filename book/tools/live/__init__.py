"""Python, numpy and the book's `check` for the page: `python -m book.tools.live` writes the bundle.

What it writes into `_build/live`, and how a page uses it, stands at the top of `live.mjs`.
"""
