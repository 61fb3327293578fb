"""Where the book and its library are published; `make address` writes it.

git clone https://github.com/unrolled-book/unrolled
"""

REPOSITORY = "https://github.com/unrolled-book/unrolled"
PAGES = "https://unrolled-book.github.io/unrolled"
