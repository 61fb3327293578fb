"""The whole book on paper, from the built pages: `make pdf`.

    python -m book.tools.paper         _build/html → _build/unrolled.pdf

The articles of all pages become one document (document.py), which Chromium prints with the pages'
own styles and those of paper.css: mathematics and diagrams stay vectors, of a figure that moves its
start is left, folded code is left out, and the solutions stand at the end.
"""
