"""The built book in a real browser: offline, accessible, legible in both themes, and it moves."""

from __future__ import annotations

import functools
import io
import re

import pytest
import yaml
from conftest import ROOT, SITE, pages, soup
from PIL import Image

from book.tools.notebooks import published, read
from book.tools.notebooks.weight import weigh

PAGES = pages()
CHAPTERS = [name for name in PAGES if name.startswith("chapters/")]
FIGURES = "figure.u-explore, figure.u-figure, .cell_output img"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))


@functools.cache
def tags(name: str) -> str:
    """The page's tags, without its scripts; a hundred times faster than a whole parse."""
    text = re.sub(r"<script\b.*?</script>", "", (SITE / name).read_text("utf8"), flags=re.DOTALL)
    return "\n".join(re.findall(r"<[a-z][^<>]*>", text))


def having(pattern: str) -> list[str]:
    """The pages with a tag in which the pattern is found."""
    return [name for name in PAGES if re.search(pattern, tags(name))]


def test_the_book_has_its_pages():
    wanted = {"how-to-use", "notation", "glossary", "bibliography", "ladder", "about"}
    assert {"index.html", *(f"book/{name}.html" for name in wanted)} <= set(PAGES)
    assert len(CHAPTERS) == len(published()) > 0


def test_the_landing_page_is_the_root_of_the_site(open_page):
    page = open_page("")
    assert page.inner_text("h1").startswith(CONFIG["title"])
    assert page.is_visible("text=The chain rule of language >> visible=true")
    assert not page.query_selector("meta[http-equiv=refresh]")


# What a page does while it loads is the same in each view, but for scripts that ask for it.
@pytest.mark.parametrize(
    ("name", "loaded"),
    [*((name, "desktop") for name in PAGES), ("index.html", "phone"), ("index.html", "dark"),
     (CHAPTERS[0], "phone"), (CHAPTERS[0], "dark")],
)  # fmt: skip
def test_a_page_is_whole_offline_and_accessible(name, loaded, visit, address):
    seen = visit(name, loaded)
    abroad = [u for u in seen.requests if not u.startswith((address, "data:", "blob:", "about:"))]
    assert abroad == [], "a page may ask no other host for anything"
    assert seen.complaints == []
    assert seen.unset == []
    assert seen.violations == []
    assert seen.too_wide == [], "the page scrolls sideways"


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_what_scrolls_sideways_shows_it(name, visit):
    assert visit(name, "desktop").unmarked == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_mark_stays_on_the_line_of_its_formula(name, visit):
    assert visit(name, "desktop").fallen == []


@pytest.mark.parametrize("name", pages())
def test_no_label_of_a_drawing_is_tiny_on_a_phone(name, visit):
    assert visit(name, "desktop").tiny == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_table_s_caption_is_no_wider_than_a_phone(name, visit):
    assert visit(name, "desktop").half_seen == []


@pytest.mark.parametrize("view", ["desktop", "dark"])
def test_the_link_past_the_contents_can_be_read(open_page, view):
    page = open_page("", view)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to main content"
    shades = page.evaluate("""() => ["color", "backgroundColor"].map(part =>
      getComputedStyle(document.activeElement)[part].match(/[\\d.]+/g).slice(0, 3))""")
    dark, light = sorted(luminance(*map(float, rgb)) for rgb in shades)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(*rgb: float) -> float:
    """Of WCAG, for channels from 0 to 255."""
    shares = [c / 255 for c in rgb]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_light(name, visit):
    figures = len(soup(name).select(".u-explore, .u-paint"))  # those that move
    limit = 250 + 150 * figures  # so two figures that move stay under 700, fonts included
    assert visit(name, "desktop").kilobytes < limit, "kB, gzipped"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_begins_with_words_and_its_set_up_is_one_line(name):
    first = soup(name).select_one("article div.cell")
    assert first.summary.get_text(strip=True) == "Set-up: what this chapter imports"


@pytest.mark.parametrize(
    "name", [f"chapters/{path.stem}.html" for path in published() if not weigh(read(path)).wide]
)
def test_lines_of_eighty_columns_do_not_scroll_on_a_desktop(name, visit):
    assert visit(name, "desktop").cut == []


@pytest.mark.parametrize("name", PAGES)
def test_no_page_names_an_outside_script_style_or_image(name):
    found = soup(name).select("script[src], link[href], img[src], iframe, source, video, audio")
    outside = [str(tag)[:120] for tag in found if tag.get("rel") != ["canonical"]
               and re.match(r"(https?:)?//", tag.get("src") or tag.get("href") or "")]  # fmt: skip
    assert outside == []


@pytest.mark.parametrize("name", PAGES)
def test_every_image_has_alternative_text(name):
    silent = [str(tag)[:100] for tag in soup(name).select("main img") if not tag.get("alt")]
    silent += [str(tag)[:100] for tag in soup(name).select("figure > svg, .u-frame > svg")
               if not (tag.get("role") == "img" and tag.get("aria-label"))]  # fmt: skip
    assert silent == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_opens_in_colab_and_downloads_its_notebook(name):
    notebook = name.replace(".html", ".ipynb")
    user, repository = CONFIG["repository"]["url"].rstrip("/").split("/")[-2:]
    branch = CONFIG["repository"]["branch"]
    colab, download = soup(name).select("a.u-action")
    base = "https://colab.research.google.com/github"
    assert colab["href"] == f"{base}/{user}/{repository}/blob/{branch}/{notebook}"
    offered = (SITE / name).parent / download["href"]
    assert offered.read_bytes() == (ROOT / notebook).read_bytes()


def state(figure) -> tuple[str, str, str]:
    """What a moving figure shows, says and reads out."""
    return figure.evaluate(
        """f => [f.querySelector('.u-frame').innerHTML,
                 f.querySelector('.u-frame [role=img]').getAttribute('aria-label'),
                 [...f.querySelectorAll('output')].map(o => o.textContent).join('|') +
                 [...f.querySelectorAll(':checked')].map(o => o.parentNode.textContent).join()]"""
    )


@pytest.mark.parametrize("name", having(r'class="[^"]*\bu-explore\b'))
def test_every_moving_figure_moves_by_keyboard(name, open_page):
    page = open_page(name, again=False)
    for figure in page.query_selector_all(".u-explore"):
        axes = figure.query_selector_all("[data-axis]")
        assert axes, "a figure that moves has a control"
        for axis in axes:
            before = state(figure)
            control = axis.query_selector("input[type=range], input:checked")
            control.focus()
            at_end = control.evaluate("c => c.type === 'range' && c.value === c.max")
            page.keyboard.press("ArrowLeft" if at_end else "ArrowRight")
            after = state(figure)
            for what, old, new in zip(("drawing", "alt", "read-out"), before, after, strict=True):
                assert old != new, f"the {what} stayed as it was: {old[:80]}"


# The figures alone, so that one picture of the page has them all.
ALONE = (
    f"body :not(:is({FIGURES}), :is({FIGURES}) *, :has({FIGURES})) {{ display: none !important }}"
)
BOXES = """figures => [...document.querySelectorAll(figures)].map(f => f.getBoundingClientRect())
  .map(b => [b.left + scrollX, b.top + scrollY, b.right + scrollX, b.bottom + scrollY])"""


@pytest.mark.parametrize("name", having(r"<figure[^>]*\bu-(explore|figure)\b|<img"))
def test_no_figure_is_a_white_slab_on_a_dark_page(name, open_page):
    page = open_page(name, "dark", again=False)
    style = page.add_style_tag(content=ALONE)
    whole = Image.open(io.BytesIO(page.screenshot(full_page=True, type="jpeg"))).convert("L")
    boxes = page.evaluate(BOXES, FIGURES)
    style.evaluate("style => style.remove()")
    assert boxes
    for box in boxes:
        picture = whole.crop(box)
        bright = sum(picture.histogram()[225:]) / (picture.width * picture.height)
        assert bright < 0.15, f"{bright:.0%} of a figure is nearly white"


# What stays on paper of a page: moving figures without a drawing, and controls.
PRINTED = """() => {
  const seen = all => [...document.querySelectorAll(all)].filter(e => e.checkVisibility());
  const figures = [...document.querySelectorAll(".u-explore")];
  const still = f => f.querySelector(".u-still > *") ?? f.querySelector(".u-frame > *");
  const drawn = e => e?.checkVisibility({visibilityProperty: true}) &&
    e.getBoundingClientRect().width && e.getBoundingClientRect().height;
  return {
    blank: figures.filter(f => !drawn(still(f))).length,
    controls: seen(".u-explore :is(input, button), .bd-header-article, .bd-sidebar")
      .filter(e => e.getClientRects().length).map(e => e.outerHTML.slice(0, 90)),
    paper: getComputedStyle(document.body).backgroundColor,
  };
}"""


@pytest.mark.parametrize("name", having(r'class="[^"]*\bu-explore\b'))
def test_print_has_the_still_and_no_controls(name, open_page):
    page = open_page(name, "dark", again=False)
    page.emulate_media(media="print")
    try:
        printed = page.evaluate(PRINTED)
    finally:
        page.emulate_media(media="screen")
    assert printed["blank"] == 0, "a figure without its still"
    assert printed["controls"] == []
    assert printed["paper"] in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}, "paper is white"


def test_search_opens_with_the_keyboard_and_closes(open_page):
    page = open_page("book/about.html")
    page.keyboard.press("Control+k")
    assert page.is_visible("#pst-search-dialog input")
    page.keyboard.press("Escape")
    assert not page.is_visible("#pst-search-dialog input")


def test_the_theme_button_goes_round_and_is_remembered(open_page):
    page = open_page("book/about.html")
    seen = []
    for _ in range(3):
        page.click(".theme-switch-button")
        seen.append(page.evaluate("document.documentElement.dataset.mode"))
    assert sorted(seen) == ["auto", "dark", "light"]


def test_the_menu_on_a_phone_names_every_part(open_page):
    page = open_page("book/about.html", "phone")
    page.click("button.primary-toggle >> visible=true")
    menu = page.locator("#pst-primary-sidebar-modal")
    assert menu.get_attribute("aria-label")
    captions = " ".join(menu.locator(".caption-text").all_inner_texts()).lower()
    assert "part i — language as probability" in captions
    assert "part ii — learning by gradients" in captions
    page.keyboard.press("Escape")


def test_the_reference_tells_what_is_ours():
    """A docstring that torch wrote for its own classes is none of ours."""
    assert "ScriptModule" not in soup("book/api.html").get_text()
