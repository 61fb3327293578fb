"""Draw the pages' cards: what a messenger or a feed shows for a link, 1200 × 630 pixels.

A card holds the page's title and its first drawn figure, as the page itself shows it in Chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from book.extensions.publishing import CARD_SIZE
from book.tools.site.faults import UNLISTED, pages

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
# A wide figure goes below the title, a tall one beside it: where it comes out larger.
CARD = """([width, height]) => {
  document.documentElement.dataset.theme = "light";
  const box = (css, ...inside) => {
    const made = document.createElement("div");
    made.style.cssText = css;
    made.append(...inside);
    return made;
  };
  const mark = (size) => {
    const made = document.querySelector(".u-mark").cloneNode(true);
    made.style.cssText = `height:${size}px;width:auto;flex:none`;
    return made;
  };
  const heading = document.querySelector("article h1").cloneNode(true);
  heading.querySelectorAll(".headerlink").forEach((link) => link.remove());
  const title = heading.textContent.trim();
  const name = document.querySelector(".u-brand__name").textContent;
  const promise = document.querySelector("article h1 ~ p, article h1 ~ div p");
  const found = [...document.querySelectorAll("article figure svg, article .u-frame svg")].find(
    (svg) => !svg.closest("table, .u-controls") && svg.clientWidth > 200 && svg.clientHeight > 60);
  let figure, tall = false;
  if (found) {
    const drawn = found.getBBox();
    figure = found.cloneNode(true);
    figure.setAttribute("viewBox", [drawn.x - 4, drawn.y - 4, drawn.width + 8, drawn.height + 8]);
    figure.style.cssText = "width:100%;height:100%;max-width:none";
    const fits = (w, h) => Math.min(w / drawn.width, h / drawn.height);
    tall = fits(0.5 * width, 0.84 * height) > fits(0.9 * width, 0.54 * height);
  }
  const words = box("display:flex;flex-direction:column;gap:26px;" + (tall ? "flex:0 0 40%" : ""),
    box("display:flex;align-items:center;gap:16px;font-size:30px;font-weight:700", mark(38), name));
  if (title !== name) words.append(
    box("font-size:56px;line-height:1.12;font-weight:700;overflow-wrap:anywhere", title));
  if (!figure && promise) {
    const size = title === name ? 60 : 32;
    words.append(box(`font-size:${size}px;line-height:1.35`, promise.textContent));
  }
  const card = box(`position:fixed;inset:0;z-index:9999;width:${width}px;height:${height}px;` +
    "box-sizing:border-box;padding:48px 60px;background:#fff;color:#1f2328;display:flex;gap:32px;" +
    `border-bottom:12px solid #4f46e5;overflow:hidden;flex-direction:${tall ? "row" : "column"}`,
    words);
  if (figure) card.append(box("flex:1;min-height:0;min-width:0", figure));
  else card.append(box("margin-top:auto;align-self:flex-end", mark(150)));
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
