"""What `make check-links` asks of a DOI: whether it is registered.

Publishers turn programs away, so following a DOI to its end would fail for good articles too.
"""

from __future__ import annotations

from sphinx.application import Sphinx

_RESOLVER = "https://doi.org/"


def registered(app: Sphinx, uri: str) -> str | None:
    """The address at which the resolver says whether it knows the DOI; None for another link."""
    if uri.startswith(_RESOLVER):
        return f"{_RESOLVER}api/handles/{uri.removeprefix(_RESOLVER)}"
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("linkcheck-process-uri", registered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
