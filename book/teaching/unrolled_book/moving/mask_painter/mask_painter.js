/* Attention under a mask that is painted, and the leak test: change a word, see which outputs change. */
(() => {
  const dot = (x, y) => x.reduce((sum, a, i) => sum + a * y[i], 0);
  const attend = ({ q, k, v }, mask) => q.map((x, i) => {  // a row that may see nothing gives zeros
    const scores = k.map((y, j) => (mask[i][j] ? dot(x, y) / Math.sqrt(x.length) : -Infinity));
    const top = Math.max(...scores), e = scores.map((s) => (s === -Infinity ? 0 : Math.exp(s - top)));
    const sum = e.reduce((a, b) => a + b), weights = e.map((a) => (sum ? a / sum : 0));
    return { weights, output: v[0].map((_, c) => weights.reduce((s, a, j) => s + a * v[j][c], 0)) };
  });
  const readBy = (data, mask) => {  // [i][j]: does output i change with word j?
    const before = attend(data, mask);
    const after = data.words.map((_, j) => attend({
      q: data.q,
      k: data.k.map((x, n) => (n === j ? x.map((a) => a + 1) : x)),
      v: data.v.map((x, n) => (n === j ? x.map((a) => a - 1) : x)),
    }, mask));
    return before.map(({ output }, i) => after.map((all) => all[i].output.some((a, c) => a !== output[c])));
  };

  for (const figure of document.querySelectorAll("figure.u-paint:not([data-ready])")) {
    figure.dataset.ready = "";
    const data = JSON.parse(figure.querySelector("script").textContent), { words, masks } = data;
    const table = figure.querySelector("table"), says = document.createElement("p");
    const choices = document.createElement("p"), T = words.length;
    let mask = Object.values(masks)[0].map((row) => [...row]);
    says.className = "u-paint-says";
    says.setAttribute("role", "status");
    choices.className = "u-paint-masks";
    const button = (label, act) => {
      const one = document.createElement("button");
      one.type = "button";
      one.textContent = label;
      one.dataset.lmSuppressShortcuts = "true";
      one.addEventListener("click", act);
      return one;
    };
    const cells = [...table.tBodies[0].rows].map((row, i) => [...row.querySelectorAll("td")].map((td, j) => {
      const one = button("", () => { mask[i][j] = mask[i][j] ? 0 : 1; draw(); focus(i, j); });
      one.addEventListener("keydown", (event) => {
        const [di, dj] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [];
        if (di === undefined) return;
        event.preventDefault();
        focus(Math.min(T - 1, Math.max(0, i + di)), Math.min(T - 1, Math.max(0, j + dj)));
      });
      td.replaceChildren(one);
      return one;
    }));
    const focus = (i, j) => {  // one stop for the tabulator; the arrows go on from there
      cells.flat().forEach((one) => { one.tabIndex = -1; });
      cells[i][j].tabIndex = 0;
      cells[i][j].focus();
    };
    const draw = () => {
      const found = attend(data, mask), reads = readBy(data, mask), leaks = [];
      cells.forEach((row, i) => row.forEach((one, j) => {
        const share = 100 * found[i].weights[j], leak = reads[i][j] && j > i;
        if (leak) leaks.push([i, j]);
        one.textContent = mask[i][j] ? share.toFixed(0) : "";
        one.parentNode.style.setProperty("--a", `${share}%`);
        one.parentNode.classList.toggle("u-leak", leak);
        one.setAttribute("aria-pressed", String(Boolean(mask[i][j])));
        const state = mask[i][j] ? `${share.toFixed(0)} %` : "hidden";
        one.setAttribute("aria-label", `row ${i + 1}, ${words[i]}, column ${j + 1}, ${words[j]}: ${state}${leak ? ", leak" : ""}`);
      }));
      const empty = mask.flatMap((row, i) => (row.some(Boolean) ? [] : [i + 1]));
      const [first] = leaks;
      const verdict = first
        ? `The leak test fails: the output of row ${first[0] + 1}, “${words[first[0]]}”, changes with word ${first[1] + 1}, “${words[first[1]]}”.`
        : "The leak test passes: no output changes with a later word.";
      says.textContent = verdict + (empty.length ? ` Empty: row${empty.length > 1 ? "s" : ""} ${empty.join(", ")}.` : "");
      for (const one of choices.children) {
        one.setAttribute("aria-pressed", String(JSON.stringify(masks[one.textContent]) === JSON.stringify(mask)));
      }
    };
    choices.append(...Object.entries(masks).map(([name, start]) => button(name, () => {
      mask = start.map((row) => [...row]);
      draw();
    })));
    table.before(choices);
    table.after(says);
    cells.flat().forEach((one, n) => { one.tabIndex = n ? -1 : 0; });
    draw();
  }
})();
