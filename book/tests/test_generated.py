"""Pages that a tool writes are what the tool would write today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("tool", "target"), [("landing", "landing.html"), ("ladder", "ladder.md")])
def test_a_generated_page_is_up_to_date(tool, target):
    spec = importlib.util.spec_from_file_location(tool, BOOK / "tools" / f"{tool}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    renew = f"book/{target} is stale; renew it with: python book/tools/{tool}.py"
    assert (BOOK / target).read_text("utf8") == module.page(), renew
