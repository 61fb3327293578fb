"""`python -m book VERB …`: what `make VERB …` does, on any computer with Python 3.11 to 3.13.

    python -m book                       the list of verbs
    python -m book book PORT=8000        build the book and serve it
    python -m book html test-browser     several, one after the other

It starts with Python alone: no package is imported before `.venv` is made. Values such as PORT=8000
can also stand in the environment, where `make` puts its own.
"""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        "Python 3.11 to 3.13 is needed, {} is {}.{}; try make PYTHON=python3.12, or "
        "python3.12 -m book (Windows: py -3.12 -m book)".format(sys.executable, *sys.version_info)
    )

from book.verbs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
