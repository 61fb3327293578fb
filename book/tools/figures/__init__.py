"""The book's figures for other people's pages and slides, from the built pages: `make figures`.

    python -m book.tools.figures         _build/html → _build/unrolled-figures.zip

Each figure that is a drawing, as SVG and as PDF, in the colours of a light page and named by its
number: `unrolled-figure-14-3.svg`. Of a figure that moves it is the still that print and EPUB
show. `index.html` shows them all, `figures.csv` lists them with their captions, alternative texts,
licence and addresses. A figure that the page makes of text and tables has a line in the list and
no drawing.
"""
