/* Shannon's game: guess the next character, say how sure you are, pay for the right one in bits. */
(() => {
  const SURE = [["no idea", 0], ["a hunch, 30%", 0.3], ["likely, 60%", 0.6], ["sure, 90%", 0.9], ["certain, 99%", 0.99]];
  const show = (text) => text.replaceAll(" ", "␣");
  const sum = (x) => x.reduce((a, b) => a + b, 0);
  const mean = (bits) => (bits.length ? (sum(bits) / bits.length).toFixed(2) : "–");

  for (const figure of document.querySelectorAll("figure.u-game:not([data-ready])")) {
    figure.dataset.ready = "";
    const { text, start, models, common } = JSON.parse(figure.querySelector("script").textContent);
    const line = figure.querySelector(".u-game-text"), body = figure.querySelector("tbody");
    const form = document.createElement("form"), says = document.createElement("p");
    form.className = "u-game-form";
    form.innerHTML = `<label>the next character <input maxlength="1" size="2" autocapitalize="off" autocomplete="off" autocorrect="off" spellcheck="false"></label>
      <label>how sure are you? <select>${SURE.map(([name], i) => `<option value="${i}"${i === 2 ? " selected" : ""}>${name}</option>`).join("")}</select></label>
      <button type="submit">Bet</button> <button type="button">Start again</button>`;
    says.className = "u-game-says";
    says.setAttribute("role", "status");
    const [input, select, again] = ["input", "select", "button[type=button]"].map((q) => form.querySelector(q));
    for (const one of form.querySelectorAll("input, select, button")) one.dataset.lmSuppressShortcuts = "true";
    const you = document.createElement("tr");
    you.innerHTML = '<th scope="row">you</th><td></td><td></td><td></td>';
    body.prepend(you);
    line.after(form, says);
    let paid = [];

    const draw = () => {
      const n = paid.length, at = start + n;
      const letters = paid.map((bits, i) => {
        const one = document.createElement("span");
        one.textContent = show(text[start + i]);
        one.style.setProperty("--a", `${Math.min(100, 10 * bits).toFixed(0)}%`);
        return one;
      });
      const gap = document.createElement("span");
      gap.className = "u-game-gap";
      gap.textContent = at < text.length ? "?" : "";
      line.replaceChildren(show(text.slice(0, start)), ...letters, gap);
      [...body.rows].forEach((row) => {
        const bits = row === you ? paid : models[row.cells[0].textContent].slice(0, n);
        row.cells[1].textContent = n ? sum(bits).toFixed(1) : "–";
        row.cells[2].textContent = mean(bits);
        if (row === you) row.cells[3].textContent = at < text.length ? "" : mean(bits);
      });
      for (const one of [input, select, form.querySelector("[type=submit]")]) one.disabled = at >= text.length;
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = input.value.toLowerCase(), [name, sure] = SURE[select.value], right = text[start + paid.length];
      if (sure && !(guess in common)) {
        says.textContent = "Type one letter, or a space; or say that you have no idea.";
        input.value = "";
        input.focus();
        return;
      }
      const p = (guess === right ? sure : 0) + (1 - sure) * common[right], bits = -Math.log2(p);
      paid = [...paid, bits];
      says.textContent = `${guess === right ? "Right: it" : sure ? "No: it" : "It"} is “${show(right)}”. You gave it ${p.toPrecision(2)}, and pay ${bits.toFixed(2)} bits.`;
      if (start + paid.length === text.length) says.textContent += " That was the last one.";
      input.value = "";
      draw();
      if (!input.disabled) input.focus();
    });
    again.addEventListener("click", () => {
      paid = [];
      says.textContent = "";
      draw();
    });
    draw();
  }
})();
