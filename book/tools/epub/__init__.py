"""The whole book as one EPUB 3 file, from the built pages: `make epub`.

    python -m book.tools.epub            _build/html → _build/unrolled.epub

One XHTML file a page, in the book's order. Formulas are MathML,
drawings are SVG files, of a figure that moves its still is left with a link to the live page,
folded code is left out, and the solutions stand at the end. No scripts, nothing from the network,
and the same bytes for the same pages.

Sphinx's own EPUB builder was tried: formulas stayed TeX, code stayed unfolded, scripts and forms
stayed in the pages, and EPUBCheck counted 41 fatal errors and 104 others.
"""
