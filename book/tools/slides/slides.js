/* Starts a deck: slides that fit, figures that keep their keys, steps that a clicker can take. */
(function () {
  "use strict";
  const page = document.documentElement;
  const FIGURES = ".u-explore, .u-model, .u-game, .u-typed, .u-paint";

  // Letters as large as the slide has room for, down to half.
  const fits = (body) => body.scrollHeight <= body.clientHeight + 1 &&
    body.scrollWidth <= body.clientWidth + 1;
  const fit = (slide) => {
    const body = slide.querySelector(".s-body");
    if (!body || !body.clientHeight) return;
    body.style.fontSize = "";
    const full = parseFloat(getComputedStyle(body).fontSize);
    for (let size = full; size >= full / 2 && !fits(body); size -= 1) body.style.fontSize = `${size}px`;
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
