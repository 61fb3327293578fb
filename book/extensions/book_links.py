"""Links to a source or a term: ``cite:key`` and ``term:slug``, or the published page's address.

A chapter is read in Jupyter, in Colab and in the web book, so it holds plain Markdown only:
``[Shannon (1948)](cite:shannon1948)`` and ``[**perplexity**](term:perplexity)``, on disk with
whole addresses (``book/tools/notebooks/links.py``). Here such a link becomes one to the
bibliography or the glossary, with the reference or the definition as its title. A key that neither
page knows is a warning, and the book is built with warnings as errors.
"""

from __future__ import annotations

import re

from docutils import nodes
from pybtex.backends.plaintext import Backend
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
GLOSSARY = "book/glossary"
WHOLE = re.compile(r"^https?://.*/book/(?:bibliography|glossary)\.html#(cite|term)-")


def slug(text: str) -> str:
    """`Kneser–Ney smoothing` -> `kneser-ney-smoothing`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def terms(app: Sphinx) -> dict[str, tuple[str, str, str]]:
    """slug -> (docname, anchor, definition), read from the glossary page.

    A key may also be Sphinx's own form of the term, which drops dashes and keeps capitals.
    """
    found = {}
    if GLOSSARY in app.env.found_docs:
        for item in app.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
            said = item.next_node(nodes.definition).children
            text = " ".join(p.astext() for p in said if not isinstance(p, nodes.comment))
            definition = " ".join(text.split())
            for term in item.findall(nodes.term):
                anchor = term["ids"][0]
                entry = (GLOSSARY, anchor, definition)
                found[slug(term.astext())] = found[anchor.removeprefix("term-")] = entry
    return found


def sources(app: Sphinx) -> dict[str, tuple[str, str, str]]:
    """key -> (docname, anchor, reference), read from the bibliography page."""
    plain = Backend()
    return {
        c.key: (
            c.bibliography_key.docname,
            c.citation_id,
            c.formatted_entry.text.render(plain).replace("URL: ", ""),
        )
        for c in app.env.get_domain("cite").citations
    }


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    known = {"cite": sources(app), "term": terms(app)}
    for node in doctree.findall(nodes.reference):
        scheme, _, key = WHOLE.sub(r"\1:", node.get("refuri", "")).partition(":")
        if scheme not in known:
            continue
        if key not in known[scheme]:
            LOG.warning("%s: unknown %s key %r", docname, scheme, key, location=node)
            continue
        target, anchor, title = known[scheme][key]
        node["refuri"] = f"{app.builder.get_relative_uri(docname, target)}#{anchor}"
        node["internal"] = True
        node["reftitle"] = title
        node["classes"].append(f"u-{scheme}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
