"""The whole book on paper, from the built pages: `make pdf`.

    python -m book.tools.paper         _build/html → _build/unrolled.pdf

The articles of the pages become one document (document.py, front.py, index.py, on_paper.py), which
Chromium prints twice, with the pages' own styles, paper.css and faces from npm (faces.py): the
second print knows the pages of the first. Running heads are laid over it (heads.py). Mathematics
and diagrams stay vectors, of a figure that moves its start is left, folded code is left out, and
the solutions stand at the end, before the index.
"""
