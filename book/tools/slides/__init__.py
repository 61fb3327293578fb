"""A deck of slides for each chapter, made from its built page: `make slides`.

    python -m book.tools.slides [07 …] [--pdf]     _build/html → _build/html/slides/07_backprop.html

A page is read as a row of blocks, each with what its cell's metadata says of slides (blocks.py).
Of these the deck is chosen, and what is not shown stands in the speaker's notes (deck.py); each
sentence on a slide is one of the chapter (words.py). reveal.js, from npm, shows it (document.py).
CONTRIBUTING.md says what the metadata can ask for.
"""
