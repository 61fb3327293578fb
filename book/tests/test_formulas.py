"""Formulas stand in the built pages: nothing has to run before they can be read."""

from __future__ import annotations

import copy
import sys

import pytest
from conftest import PATIENCE, ROOT, SITE, VIEWS, pages, soup

sys.path.append(str(ROOT / "book" / "extensions"))
import formulas
from kept_marks import LONGEST, WHOLE

CHAPTER = "chapters/14_attention.html"


@pytest.mark.parametrize("name", pages())
def test_a_page_asks_for_the_style_of_formulas_if_it_has_some(name):
    page = soup(name)
    styles = any("katex-swap.min.css" in tag["href"] for tag in page.select("link[rel=stylesheet]"))
    cards = page.select_one("#u-cards") is not None  # they bring formulas later
    assert styles == bool(page.select("main .math") or cards)
    scripts = [tag["src"].partition("?")[0] for tag in page.select("script[src]")]
    assert [src for src in scripts if "katex" in src] == (
        [src for src in scripts if src.endswith("_static/katex/copy-tex.min.js")]
    )


@pytest.mark.parametrize("name", pages())
def test_every_script_and_fraction_has_its_parts(name):
    """Firefox calls a formula invalid where one has a part too many, or too few."""
    counts = {2: "msub, msup, mfrac, mover, munder, mroot", 3: "msubsup, munderover"}
    for n, tags in counts.items():
        for tag in soup(name).select(tags):
            assert len(tag.find_all(recursive=False)) == n, f"{tag}"


@pytest.mark.parametrize("name", [name for name in pages() if name.startswith("chapters/")])
def test_short_expressions_stay_on_one_line(name):
    """5 %, 0.74–0.83, 16 × 16, D = 2 and top-p, wherever a paragraph holds one."""
    page = copy.copy(soup(name))  # the other tests read it whole
    for tag in page.select("pre, table, svg, .math, .u-joined, .u-figure, .u-explore, .u-cards"):
        tag.decompose()
    split = [found[0] for p in page.select("main p") for found in WHOLE.finditer(p.get_text())]
    assert [one for one in split if len(one) <= LONGEST] == []


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("about 15 % of 0.74–0.83, from 5\n% on", ["15 %", "0.74–0.83", "5\n%"]),
        ("a grid of 16 × 16, with M = 2.", ["16 × 16", "M = 2"]),
        ("GPT-2 draws by top-p at 1e-5", ["GPT-2", "top-p", "1e-5"]),
        ("two of ten, in a well-known book: no. 5", []),
    ],
)
def test_what_counts_as_a_short_expression(text, whole):
    assert WHOLE.findall(text) == whole


def test_what_sets_formulas_does_not_travel_with_the_pages():
    assert [path.name for path in (SITE / "_static" / "katex").glob("*.js")] == ["copy-tex.min.js"]


def test_formulas_of_texts_and_captions_are_set_and_dollars_stay():
    inline, block = formulas.holder("a < b"), formulas.holder(r"\frac12", display=True)
    caption = '<figcaption class="tex2jax_process">of $d_k &lt; 2$</figcaption>'
    caption += caption.replace("figcaption", "caption").replace("d_k", "d_v")
    text = f"<p>It costs $5, or $6: {inline}</p>{block}{caption}<pre>$ make $HOME</pre>"
    (made,) = formulas.set_all([text])
    assert made.count('class="katex"') == 4
    assert made.count('class="katex-display"') == 1
    for tex in ("a &lt; b", "d_k &lt; 2", "d_v &lt; 2"):
        assert f">{tex}</annotation>" in made
    assert made.startswith("<p>It costs $5, or $6: <span")
    assert made.endswith("<pre>$ make $HOME</pre>")
    assert formulas.set_all([made]) == [made]


def test_a_line_may_end_inside_a_long_formula_of_a_paragraph_alone():
    long, short = "a + b + c + d + e + f = g + h + i + j + k", "a + b = c"
    given = [formulas.holder(long), formulas.holder(short), formulas.holder(long, display=True)]
    assert [text.count("<wbr>") for text in formulas.set_all(given)] == [10, 0, 0]


def test_tex_that_katex_does_not_know_is_an_error():
    with pytest.raises(ValueError, match=r"understand .*nosuchmacro.*Undefined control sequence"):
        formulas.set_all([formulas.holder(r"\nosuchmacro")])


def test_without_a_node_the_error_says_where_one_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(formulas.playwright, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"none in {tmp_path}/driver"):
        formulas.node()


def test_formulas_stand_without_scripts(browser, address):
    context = browser.new_context(**VIEWS["phone"], java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/{CHAPTER}")
    widths = [one.bounding_box()["width"] for one in page.locator("p > .math .katex").all()[:20]]
    assert len(widths) == 20
    assert min(widths) > 4
    context.close()


COPIED = """where => new Promise(done => {
  document.addEventListener("copy", e => done(e.clipboardData.getData("text/plain")));
  getSelection().selectAllChildren(document.querySelector(where));
  document.execCommand("copy");
})"""


def test_a_formula_is_copied_as_its_tex(open_page):
    page = open_page(CHAPTER)
    (first, *_) = (p for p in soup(CHAPTER).select("main p") if p.select("span.math"))
    tex = [one.get_text() for one in first.select("annotation")]
    page.evaluate(
        """() => [...document.querySelectorAll("main p")].find(
             p => p.querySelector("span.math")).id = "copied" """
    )
    copied = page.evaluate(COPIED, "#copied")
    assert all(f"${one}$" in copied for one in tex), copied
    assert page.evaluate("document.querySelector('#copied').innerText") != copied


def test_a_screen_reader_meets_the_formula_once_as_mathml(open_page):
    page = open_page("book/notation.html")
    session = page.context.new_cdp_session(page)
    tree = session.send("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in tree if not node.get("ignored")]
    assert roles.count("MathMLMath") == len(soup("book/notation.html").select("main .math"))
    session.detach()


def test_a_long_formula_scrolls_on_a_phone_and_says_so(open_page):
    page = open_page("chapters/15_masking.html", "phone")
    long = page.locator("div.math.u-more:visible")
    assert long.count() > 0
    assert all(one.get_attribute("tabindex") == "0" for one in long.all())
    assert "inset" in long.first.evaluate("e => getComputedStyle(e).boxShadow")
