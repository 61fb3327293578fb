/* Starts a deck: slides that fit, figures that keep their keys, steps that a clicker can take. */
(function () {
  "use strict";
  const page = document.documentElement;
  const FIGURES = ".u-explore, .u-model, .u-game, .u-typed, .u-paint";

  // Letters as large as the slide has room for, down to 17 of its 720 pixels; a drawing takes what is left.
  const fits = (body) => [body, ...body.querySelectorAll("div.highlight")].every((part) =>
    part.scrollHeight <= part.clientHeight + 1 && part.scrollWidth <= part.clientWidth + 1);
  const isHigh = (body) => {
    const drawings = body.querySelectorAll(":scope > .u-figure > svg, :scope > .u-explore > .u-frame > svg");
    const { width, height } = drawings[0]?.viewBox.baseVal || {};
    return drawings.length === 1 && width < 1.35 * height && !body.querySelector(":scope > :not(p, figure)");
  };
  const fit = (slide) => {
    const body = slide.querySelector(".s-body");
    if (!body || !body.clientHeight) return;
    body.classList.toggle("s-beside", isHigh(body));
    body.style.setProperty("--s-high", `${body.clientHeight}px`);
    body.style.fontSize = "";
    const full = parseFloat(getComputedStyle(body).fontSize);
    body.style.removeProperty("--s-more");
    for (let size = full; size >= 17 && !fits(body); size -= 1) body.style.fontSize = `${size}px`;
    if (body.matches(".s-beside")) return;
    const used = [...body.children].reduce((low, child) => Math.max(low, child.offsetTop + child.offsetHeight), 0) -
      Math.min(...[...body.children].map((child) => child.offsetTop));
    for (let more = body.clientHeight - used; more >= 8; more = more < 16 ? 0 : more / 2) {
      body.style.setProperty("--s-more", `${more}px`);
      if (fits(body)) return;
    }
    body.style.removeProperty("--s-more");
  };
  const fitAll = () => document.querySelectorAll("section.s-slide").forEach(fit);

  // A figure with one slider goes on with the slides, a step for each press of the key.
  for (const figure of document.querySelectorAll(".u-explore")) {
    const sliders = figure.querySelectorAll("form input");
    const [slider] = sliders;
    if (sliders.length !== 1 || slider.type !== "range") continue;
    const steps = slider.max - slider.value;
    if (steps > 6) continue;
    for (let k = 1; k <= steps; k++) {
      const step = document.createElement("i");
      step.className = "fragment s-step";
      step.dataset.at = Number(slider.value) + k;
      figure.append(step);
    }
  }
  const step = (fragment, back) => {
    if (!fragment.classList.contains("s-step")) return;
    const slider = fragment.closest(FIGURES).querySelector("form input");
    slider.value = fragment.dataset.at - back;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  };

  const dark = () => {
    page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
  };
  const deck = new Reveal(document.querySelector(".reveal"), {
    width: 1280, height: 720, margin: 0, center: false, display: "flex", transition: "none",
    hash: true, slideNumber: "c/t", plugins: [RevealNotes], pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1,
    // What a figure or a form has the focus of, its keys belong to.
    keyboardCondition: (event) => !event.target.closest?.(`${FIGURES}, input, textarea, select`),
    keyboard: { 68: dark },
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest?.(FIGURES)) event.target.blur();
  });
  deck.on("ready", () => fit(deck.getCurrentSlide()));
  deck.on("slidechanged", ({ currentSlide }) => fit(currentSlide));
  deck.on("fragmentshown", ({ fragments }) => fragments.forEach((f) => step(f, 0)));
  deck.on("fragmenthidden", ({ fragments }) => fragments.forEach((f) => step(f, 1)));
  deck.on("pdf-ready", () => {
    for (const slide of document.querySelectorAll(".s-slide")) { // on paper all are seen
      slide.hidden = false;
      slide.removeAttribute("aria-hidden");
    }
    fitAll();
    page.dataset.fitted = "";
  });
  window.deck = deck;
  window.fitAll = fitAll;
  document.fonts.ready.then(() => deck.initialize());
})();
