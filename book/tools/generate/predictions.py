"""The predictions of all chapters, for `unrolled_book.predict` in a notebook: predictions.json."""

from __future__ import annotations

import re

from unrolled_book.predictions import STORED, of_notebook, to_json

from book.tools.notebooks import published

TARGET = STORED
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def page() -> str:
    """The file, with links as plain words: a notebook prints it."""
    return _LINK.sub(r"\1", to_json({path.stem: of_notebook(path) for path in published()}))
