/* Lets the reader drag the handle of a figure that moves: the sliders go to the state whose handle is nearest. */
for (const figure of document.querySelectorAll("figure.u-explore:has(.u-handle):not([data-drags])")) {
  const { handles, axes } = JSON.parse(figure.querySelector("script").textContent);
  const [form, host] = ["form", ".u-frame"].map((q) => figure.querySelector(q));
  const drag = ({ clientX, clientY }) => {
    const svg = host.firstElementChild, box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const [x, y] = [clientX - box.left, clientY - box.top].map((distance) => distance * scale);
    const far = handles.map(([left, top]) => Math.hypot(left - x, top - y));
    let state = far.indexOf(Math.min(...far));
    for (let k = axes.length - 1; k >= 0; k--) {
      const n = axes[k].texts.length, inputs = form.querySelectorAll(`[data-axis="${k}"] input`);
      if (inputs[0].type === "range") inputs[0].value = state % n;
      else inputs[state % n].checked = true;
      state = Math.floor(state / n);
    }
    form.dispatchEvent(new Event("input"));
  };
  host.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".u-handle")) return;
    event.preventDefault();
    host.setPointerCapture(event.pointerId); // the drawing is exchanged, its frame stays
  });
  host.addEventListener("pointermove", (event) => { if (host.hasPointerCapture(event.pointerId)) drag(event); });
  figure.dataset.drags = "";
}
