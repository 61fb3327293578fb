"""`python -m book.tools.site`: make the folder, draw the cards, check all addresses."""

from __future__ import annotations

import sys

from book.extensions.publishing import CARDS, site_address
from book.tools.notebooks import ROOT
from book.tools.notebooks.address import repository_url
from book.tools.site import HTML, OUT, assemble
from book.tools.site.cards import draw_all
from book.tools.site.faults import faults

if not (HTML / "index.html").is_file():
    sys.exit(f"site: there are no pages in {HTML}; build them with: make html")
editions = assemble(HTML, HTML.parent, OUT)
drawn = draw_all(OUT, OUT / CARDS)
site = site_address(repository_url())
if found := faults(OUT, site):
    sys.exit("\n".join([*found, f"site: {len(found)} addresses are wrong"]))
size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file()) / 1e6
also = f", {' and '.join(editions)}" if editions else ""
print(f"site: {OUT.relative_to(ROOT)} for {site}: {drawn} pages{also}, {size:.0f} MB")
