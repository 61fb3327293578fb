"""What a tool writes is what the tool would write today."""

from __future__ import annotations

import re
import tomllib
from contextlib import nullcontext

import pytest
from book.tools.generate import fresh, generators, guide
from book.tools.notebooks import ROOT
from unrolled_book import figures


@pytest.mark.stored
@pytest.mark.parametrize("name", generators())
def test_what_a_tool_writes_is_up_to_date(name):
    module = generators()[name]
    renew = f"{module.TARGET.relative_to(ROOT)} is stale; write it with: make pages"
    assert module.TARGET.read_bytes() == fresh(module), renew


def test_the_pages_and_the_figures_share_one_palette():
    style = (ROOT / "book" / "assets" / "unrolled.css").read_text("utf8")
    light, dark = (dict(re.findall(r"--u-([a-z]+): (#[0-9a-f]{6});", block))
                   for block in re.findall(r"\{([^}]*--u-ink[^}]*)\}", style)[:2])  # fmt: skip
    in_figures = dict(re.findall(r"--u-([a-z]+):(#[0-9a-f]{6})", figures.css().split("}")[0]))
    shared = sorted(in_figures.keys() & dark.keys())
    assert len(shared) >= 7
    assert [dark[role] for role in shared] == [in_figures[role] for role in shared]
    assert [light[role] for role in shared] == [figures.PALETTE[role] for role in shared]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"exhibit": "What goes write"}, "has no heading 'What goes write'"),
        ({"exercise": "shfit"}, "did you mean 'shift'"),
        ({"mistake": "nobody makes this one"}, "has no mistake 'nobody makes this one'"),
    ],
)
def test_what_cures_a_belief_is_there(change, says):
    belief = {"believes": "A.", "cure": "B.", "exhibit": "What goes wrong"}
    belief |= {"exercise": "shift", "mistake": "the targets are the inputs"} | change
    with pytest.raises(ValueError, match=says) if says else nullcontext():
        assert "`shift` names it" in guide.belief("01_chain_rule", belief)


def test_predictions_ask_for_more_than_half_of_what_students_believe():
    every = tomllib.loads(guide.BELIEFS.read_text("utf8"))
    found = [bool(guide.asked(stem, one["believes"])) for stem in every for one in every[stem]]
    assert sum(found) > len(found) / 2
