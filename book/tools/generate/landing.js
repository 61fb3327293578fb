/* The landing figure: a line of words, and for each place what the model expects there. */
(function () {
  const figure = document.querySelector(".u-next");
  const { words, reach, guesses, own } = JSON.parse(figure.querySelector("script").textContent);
  const one = (query) => figure.querySelector(query), all = (query) => [...figure.querySelectorAll(query)];
  const slider = one("input[type=range]"), chips = all(".u-line li"), rows = all(".u-bars li");
  const [back, on] = all(".u-track button");
  const percent = (p) => (p >= 0.0995 ? Math.round(100 * p) : (100 * p).toPrecision(p < 0.0001 ? 1 : 2)) + " %";
  const bits = (p) => -Math.log2(p);
  let timer;
  const update = () => {
    const at = Number(slider.value), k = Number(one("input:checked").value), chance = own[k][at];
    chips.forEach((chip, i) => {
      chip.className = i < at ? (i >= at - reach[k] ? "u-seen" : "u-past") : i === at ? "u-now" : "u-later";
      chip.lastChild.textContent = i < at ? bits(own[k][i]).toFixed(1) : i === at ? "?" : "";
    });
    const list = guesses[k][at].map(([word, p]) => [word, p, word === words[at]]);
    if (!list.some(([, , right]) => right)) list.push([words[at], chance, true]);
    rows.forEach((row, i) => {
      row.hidden = i >= list.length;
      if (row.hidden) return;
      const [word, p, right] = list[i], name = row.firstChild, [bar, number] = row.lastChild.children;
      row.className = (right ? "u-right" : "") + (i === guesses[k][at].length ? " u-far" : "");
      name.textContent = word;
      bar.style.setProperty("--p", p);
      number.textContent = percent(p);
    });
    const past = own[k].slice(0, at + 1).reduce((sum, p) => sum + bits(p), 0);
    one(".u-sum").textContent = `Up to “${words[at]}” the line costs ${past.toFixed(1)} bits: the sum of −log₂ of each word’s probability.`;
    const [first, p] = list[0];
    const alt = `Word ${at + 1} of ${words.length}, after “${words.slice(0, at).join(" ")}”, looking back ` +
      `${reach[k] || "no"} word${reach[k] === 1 ? "" : "s"}: the likeliest next word is “${first}” with ${percent(p)}; ` +
      `the line goes on with “${words[at]}”, which has ${percent(chance)}. So far ${past.toFixed(1)} bits.`;
    one(".u-stage").setAttribute("aria-label", alt);
    one("output").textContent = `${at + 1} of ${words.length}`;
    slider.setAttribute("aria-valuetext", `${at + 1} of ${words.length}: ${words[at]}`);
    back.setAttribute("aria-disabled", at === 0);
    on.setAttribute("aria-disabled", at === words.length - 1);
    clearTimeout(timer);
    if (figure.dataset.ready === "") timer = setTimeout(() => { one("[role=status]").textContent = alt; }, 600);
  };
  one("form").addEventListener("input", update);
  one("form").addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    slider.stepUp(Number(button.value));
    update();
  });
  update();
  figure.dataset.ready = "";
})();
