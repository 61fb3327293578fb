/* The knobs of `unrolled.generation.samplers` for the model in the page, in the library's order. */
(() => {
  const KNOBS = {  // name: [label, choices, the one that changes nothing]
    repetition_penalty: ["repetition penalty", [1, 1.2, 1.5, 2], 1],
    temperature: ["temperature", [0, 0.5, 0.7, 1, 1.3, 2], 1],
    top_k: ["top-k", ["off", 1, 3, 10, 30], "off"],
    top_p: ["top-p", ["off", 0.5, 0.8, 0.9, 0.95], "off"],
    min_p: ["min-p", ["off", 0.02, 0.1, 0.3], "off"],
  };
  const ROUNDING = 16 * 2 ** -52;
  const softmax = (x) => {
    const top = Math.max(...x), e = Array.from(x, (v) => Math.exp(v - top));
    const sum = e.reduce((a, b) => a + b);
    return e.map((v) => v / sum);
  };
  const falling = (x) => x.map((_, i) => i).sort((a, b) => x[b] - x[a]);  // of equal ones the first
  const only = (logits, keep) => logits.map((z, i) => keep.has(i) ? z : -Infinity);
  const FILTERS = {
    top_k: (logits, k) => only(logits, new Set(falling(logits).slice(0, k))),
    top_p: (logits, p) => {
      if (p === 1) return logits;
      const probs = softmax(logits), keep = new Set();
      let before = 0;  // the probability of all likelier tokens
      for (const i of falling(logits)) {
        if (keep.size && !(before < p - ROUNDING)) break;
        keep.add(i);
        before += probs[i];
      }
      return only(logits, keep);
    },
    min_p: (logits, share) => {
      const probs = softmax(logits), mark = share * Math.max(...probs) * (1 - ROUNDING);
      return logits.map((z, i) => probs[i] < mark ? -Infinity : z);
    },
  };
  function sampled(given, tokens, { repetition_penalty: theta = 1, temperature = 1, ...cuts }) {
    let logits = Array.from(given);
    for (const i of new Set(tokens)) logits[i] = logits[i] < 0 ? logits[i] * theta : logits[i] / theta;
    if (temperature === 0) {
      const best = logits.indexOf(Math.max(...logits));
      return logits.map((_, i) => i === best ? 1 : 0);
    }
    const top = Math.max(...logits);
    logits = logits.map((z) => (z - top) / temperature);
    for (const name in FILTERS) if (cuts[name] !== undefined) logits = FILTERS[name](logits, cuts[name]);
    return softmax(logits);
  }

  for (const figure of document.querySelectorAll("figure.u-model-sampling:not([data-knobs])")) {
    figure.dataset.knobs = "";
    figure.sampled = sampled;
    let last;
    const knobs = () => Object.fromEntries([...figure.querySelectorAll("[data-knob]")]
      .filter(({ value }) => value !== "off").map(({ dataset, value }) => [dataset.knob, Number(value)]));
    figure.choose = (logits, tokens) => sampled(logits, tokens, knobs());
    const show = () => {
      const probs = figure.choose(last.logits, last.tokens), n = probs.filter((p) => p > 0).length;
      const order = falling(Array.from(last.logits)).sort((a, b) => probs[b] - probs[a]);
      const rows = order.slice(0, 8).map((i) => {
        const row = document.createElement("li"), p = probs[i];
        row.dataset.q = p;
        row.style.setProperty("--p", `${100 * p}%`);
        row.innerHTML = "<span></span><b></b>";
        row.firstChild.textContent = { "\n": "line end", " ": "space" }[last.vocab[i]] || last.vocab[i];
        row.lastChild.textContent = p ? `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %` : "cut off";
        return row;
      });
      figure.querySelector(".u-chosen").replaceChildren(...rows);
      figure.querySelector(".u-kept").textContent = `${n} of ${probs.length} characters possible`;
    };
    const build = () => {
      const form = figure.querySelector("form"), two = form.querySelector(".u-model-two");
      form.querySelector(".u-t").closest("label").remove();
      two.lastElementChild.hidden = true;
      two.firstElementChild.querySelector(".u-model-head").textContent = "The model's distribution";
      two.insertAdjacentHTML("beforeend", `<div><p class="u-model-head">What is drawn from</p>
        <ol class="u-next u-chosen"></ol><p class="u-kept" role="status"></p></div>`);
      const choices = Object.entries(KNOBS).map(([name, [label, values, off]]) => `<label>${label} <select data-knob="${name}">${
        values.map((v) => `<option${v === off ? " selected" : ""}>${v}</option>`).join("")}</select></label>`);
      two.insertAdjacentHTML("beforebegin", `<p class="u-model-row">${choices.join("")}</p>`);
      const area = form.querySelector("textarea"), { prompt } = JSON.parse(figure.querySelector("script").textContent);
      area.rows = 6;
      form.querySelector("button").parentElement.insertAdjacentHTML("beforeend",
        '<button type="button" class="u-back">Back to the prompt</button>');
      form.querySelector(".u-back").addEventListener("click", () => {
        area.value = prompt;
        area.dispatchEvent(new Event("input"));
      });
      for (const select of [...figure.querySelectorAll("[data-knob]"), form.querySelector(".u-back")]) {
        select.dataset.lmSuppressShortcuts = "true";
        select.addEventListener("change", show);
      }
    };
    figure.addEventListener("read", ({ detail }) => {
      last = detail;
      if (!figure.querySelector("[data-knob]")) build();
      show();
      const area = figure.querySelector("textarea");
      if (document.activeElement !== area) area.scrollTop = area.scrollHeight;
    });
  }
})();
