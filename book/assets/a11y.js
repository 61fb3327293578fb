/* What the theme leaves open for readers who use a keyboard or a screen reader. */
(function () {
  "use strict";
  // The theme's three dialogs have no name.
  const names = {
    "pst-search-dialog": "Search",
    "pst-primary-sidebar-modal": "Contents of the book",
    "pst-secondary-sidebar-modal": "Contents of this page",
  };
  for (const [id, name] of Object.entries(names))
    document.getElementById(id)?.setAttribute("aria-label", name);

  // The empty corner of a table with row names is no heading.
  for (const corner of document.querySelectorAll("th"))
    if (!corner.textContent.trim()) {
      const cell = document.createElement("td");
      cell.className = corner.className;
      corner.replaceWith(cell);
    }

  // Paper is white: a dark page prints in its light colours.
  const page = document.documentElement;
  let theme;
  addEventListener("beforeprint", () => { theme = page.dataset.theme; page.dataset.theme = "light"; });
  addEventListener("afterprint", () => { page.dataset.theme = theme; });

  // What scrolls must take the focus, or only a pointer could scroll it; and where it goes on
  // sideways, its edge says so.
  const boxes = "div.math, pre, .text_html, .u-frame, .u-editor textarea, .pst-scrollable-table-container";
  const scrolls = (box, way) => /auto|scroll/.test(getComputedStyle(box)[`overflow${way}`]);
  const edge = (box) => {
    const more = box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
    box.classList.toggle("u-before", box.scrollLeft > 1);
    box.classList.toggle("u-more", more && scrolls(box, "X"));
  };
  const mend = () => {
    for (const box of document.querySelectorAll(boxes)) {
      edge(box);
      const tall = box.scrollHeight > box.clientHeight + 1 && scrolls(box, "Y");
      if (tall || box.scrollWidth > box.clientWidth + 1 && scrolls(box, "X")) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  addEventListener("scroll", (event) => event.target.matches?.(boxes) && edge(event.target), true);
  addEventListener("toggle", mend, true);  // what was folded had no width
  for (const box of document.querySelectorAll(".cell_output pre")) {
    box.classList.toggle("u-lines", !/(^|\n|\S) {2,}\S/.test(box.textContent));  // no columns
  }
  let timer;
  addEventListener("load", () => document.fonts.ready.then(mend));
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(mend, 200);
  });
})();
