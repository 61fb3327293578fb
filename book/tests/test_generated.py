"""What a tool writes is what the tool would write today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from unrolled.teaching import figures

BOOK = Path(__file__).resolve().parents[1]


TOOLS = {
    "landing": "landing.html",
    "ladder": "ladder.md",
    "page_model": "assets/ladder_transformer.bin",
}


@pytest.mark.parametrize(("tool", "target"), TOOLS.items())
def test_what_a_tool_writes_is_up_to_date(tool, target):
    spec = importlib.util.spec_from_file_location(tool, BOOK / "tools" / f"{tool}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    renew = f"book/{target} is stale; renew it with: python book/tools/{tool}.py"
    written = module.page()
    written = written if isinstance(written, bytes) else written.encode()
    assert (BOOK / target).read_bytes() == written, renew


def test_the_pages_and_the_figures_share_one_palette():
    style = (BOOK / "assets" / "unrolled.css").read_text("utf8")
    light, dark = (dict(re.findall(r"--u-([a-z]+): (#[0-9a-f]{6});", block))
                   for block in re.findall(r"\{([^}]*--u-ink[^}]*)\}", style)[:2])  # fmt: skip
    in_figures = dict(re.findall(r"--u-([a-z]+):(#[0-9a-f]{6})", figures.css().split("}")[0]))
    shared = sorted(in_figures.keys() & dark.keys())
    assert len(shared) >= 7
    assert [dark[role] for role in shared] == [in_figures[role] for role in shared]
    assert [light[role] for role in shared] == [figures.PALETTE[role] for role in shared]
