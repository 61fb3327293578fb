"""Draw the pages' cards: what a messenger or a feed shows for a link, 1200 × 630 pixels.

A card holds the page's title and its first drawn figure, as the page itself shows it in Chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from book.extensions.publishing import CARD_SIZE
from book.tools.site.check import UNLISTED, pages

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
CARD = """([width, height]) => {
  document.documentElement.dataset.theme = "light";
  const drawn = [...document.querySelectorAll("article figure svg, article .u-frame svg")].filter(
    svg => !svg.closest("table, .u-controls") && svg.clientWidth > 200 && svg.clientHeight > 60);
  const figure = drawn[0] && drawn[0].cloneNode(true);
  const tall = figure && drawn[0].clientWidth < 1.6 * drawn[0].clientHeight;
  const box = (css, ...inside) => {
    const made = document.createElement("div");
    made.style.cssText = css;
    made.append(...inside);
    return made;
  };
  const heading = document.querySelector("article h1").cloneNode(true);
  heading.querySelectorAll(".headerlink").forEach(link => link.remove());
  const title = heading.textContent.trim();
  const promise = document.querySelector("article h1 ~ p, article h1 ~ div p");
  const words = box("display:flex;flex-direction:column;gap:24px;" + (tall ? "flex:0 0 46%" : ""),
    box("font-size:26px;opacity:.75", title === "Unrolled" ? "a book" : "Unrolled"),
    box("font-size:56px;line-height:1.12;font-weight:700", title));
  if (!figure && promise) words.append(box("font-size:32px;line-height:1.4", promise.textContent));
  const card = box(`position:fixed;inset:0;z-index:9999;width:${width}px;height:${height}px;` +
    `box-sizing:border-box;padding:52px 64px;background:#fff;color:#16213a;display:flex;gap:28px;` +
    `overflow:hidden;flex-direction:${tall ? "row" : "column"}`, words);
  if (figure) {
    figure.style.cssText = "width:100%;height:100%;max-width:none";
    card.append(box("flex:1;min-height:0;min-width:0", figure));
  }
  document.body.append(card);
}"""


def draw(page: Page, path: Path, out: Path) -> None:
    """Draw the card of the page at `path`."""
    page.goto(path.as_uri())
    page.evaluate(CARD, list(CARD_SIZE))
    page.screenshot(path=out, clip={"x": 0, "y": 0, "width": CARD_SIZE[0], "height": CARD_SIZE[1]})


def draw_all(site: Path, out: Path) -> int:
    """Draw the cards of all pages of the built site into `out`; how many there are."""
    texts = [name for name in pages(site) if name not in UNLISTED]
    out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        page = browser.new_page(viewport={"width": CARD_SIZE[0], "height": CARD_SIZE[1]})
        for name in texts:
            draw(page, site / name, out / f"{Path(name).stem}.png")
        browser.close()
    return len(texts)
