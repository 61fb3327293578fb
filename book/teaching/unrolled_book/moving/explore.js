/* Sets every figure.u-explore on the page going that is not yet: a state is one frame of the table. */
for (const figure of document.querySelectorAll("figure.u-explore:not([data-ready])")) {
  const { lines, frames, alts, axes } = JSON.parse(figure.querySelector("script").textContent);
  const [form, host, status] = ["form", ".u-frame", "[role=status]"].map((q) => figure.querySelector(q));
  const controls = axes.map((_, k) => [...form.querySelectorAll(`[data-axis="${k}"] input`)]);
  const chosen = (inputs) => Number((inputs.find((input) => input.checked) || inputs[0]).value);
  // JupyterLab would take the arrow keys to move between cells.
  for (const part of form.querySelectorAll("input, button")) part.dataset.lmSuppressShortcuts = "true";
  let timer;
  const update = () => {
    let frame = 0;
    controls.forEach((inputs, k) => {
      const at = chosen(inputs), { texts } = axes[k];
      frame = frame * texts.length + at;
      if (inputs[0].type !== "range") return;
      const row = inputs[0].closest(".u-axis"), [back, on] = row.querySelectorAll("button");
      inputs[0].setAttribute("aria-valuetext", texts[at]);
      row.querySelector("output").textContent = texts[at];
      back.setAttribute("aria-disabled", at === 0);
      on.setAttribute("aria-disabled", at === texts.length - 1);
    });
    const runs = frames[frame], svg = [];
    for (let j = 0; j < runs.length; j += 2) svg.push(...lines.slice(runs[j], runs[j + 1]));
    host.innerHTML = svg.join("\n");
    host.firstElementChild.setAttribute("role", "img");
    host.firstElementChild.setAttribute("aria-label", alts[frame]);
    clearTimeout(timer);
    timer = setTimeout(() => { status.textContent = alts[frame]; }, 600);
  };
  form.addEventListener("input", update);
  form.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const input = button.closest(".u-axis").querySelector("input");
    input.stepUp(Number(button.value));
    update();
  });
  figure.dataset.ready = "";
}
