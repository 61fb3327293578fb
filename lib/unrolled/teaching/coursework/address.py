"""Where the book and its library are published; `make address` writes it.

git clone https://github.com/unrolled-book/unrolled
"""

LIBRARY = "git+https://github.com/unrolled-book/unrolled#subdirectory=lib"
PAGES = "https://unrolled-book.github.io/unrolled"
