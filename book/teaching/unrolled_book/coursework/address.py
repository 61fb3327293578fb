"""Where the book and its library are published; `make address` writes it.

git clone https://github.com/unrolled-book/unrolled
"""

SOURCE = "git+https://github.com/unrolled-book/unrolled"
PAGES = "https://unrolled-book.github.io/unrolled"
