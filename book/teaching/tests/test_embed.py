"""Figures in a page are written by one writer, and no data can break out of its script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import unrolled_book.moving as moving
from unrolled_book.moving.embed import embed


class Scripts(HTMLParser):
    """The texts of a page's scripts, as a browser's parser cuts them out."""

    def __init__(self, page: str):
        super().__init__()
        self.found, self.inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script"
        self.found += [""] * self.inside

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.found[-1] += data


@pytest.fixture
def files(tmp_path):
    style, script = tmp_path / "a.css", tmp_path / "a.js"
    style.write_text(".a{color:red}\n", encoding="utf-8")
    script.write_text('"run"\n', encoding="utf-8")
    return {"style": style, "script": script}


@pytest.mark.parametrize(
    "text", ["</script>", "</SCRIPT ", "<!--<script>", "<!-- ", "é “ü” \u2028"]
)
def test_data_come_out_of_the_page_as_they_went_in(text, files):
    data = {"text": text, text: [1.5, None, True]}
    page = embed("u-a", "<p>still</p>", data=data, caption="<figcaption>c</figcaption>\n", **files)
    written, script = Scripts(page).found
    assert json.loads(written) == data
    assert script == '\n"run"\n'
    assert "<!" not in written


def test_style_data_body_script_and_caption_stand_in_this_order(files):
    page = embed("u-a u-b", "BODY", data=["DATA"], caption="CAPTION", **files)
    places = [page.index(s) for s in (".a{color:red}", '["DATA"]', "BODY", '"run"', "CAPTION")]
    assert places == sorted(places)
    assert page.startswith('<figure class="u-a u-b">\n<style>\n@media screen')
    assert page.endswith("CAPTION</figure>")


def test_numbers_that_json_does_not_know_are_refused(files):
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed("u-a", "", data=[float("nan")], **files)


def test_no_other_module_writes_a_script_into_a_page():
    sources = {p.name: p.read_text("utf8") for p in Path(moving.__file__).parent.rglob("*.py")}
    assert [name for name, text in sources.items() if re.search("<script", text)] == ["embed.py"]
