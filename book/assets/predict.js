/* Takes the reader's predictions: they commit, then the page says what the chapter found. Below the
title it says where the reader is on the path that they chose on the map.

What is asked and what is right stands in the page: `data-kind`, `data-right`, `data-counts` and
`data-unit` of the frame, `data-see` for the cell that shows it, and the folded answer, whose list says which belief a wrong one betrays.
What was answered stays in this browser, in its storage:

  {"format": "unrolled-predictions", "version": 1,
   "predictions": {"row-sums": {"given", "right", "changed"}}}

given: a letter, "b, a, c", what was typed, "row 2, column 1; …", or "at a, c"; right: true, false, or null for
an open question. The page of progress shows and exports them, a course's teacher tallies exports. */
(function () {
  "use strict";
  const KEY = "unrolled-predictions";
  const NUMBER = "[-−]?(?:\\d[\\d,]*)?\\.?\\d+(?:e[-+]?\\d+)?";
  const SPAN = new RegExp(`^(?:(${NUMBER})(?: to (${NUMBER}))?|(above|below) (${NUMBER}))$`);
  let memory = {};

  function all() {
    try {
      return JSON.parse(localStorage.getItem(KEY) ?? "{}").predictions ?? {};
    } catch {
      return memory;
    }
  }

  function keep(name, given, right) {
    const predictions = { ...all() };
    if (given === null) delete predictions[name];
    else predictions[name] = { given, right, changed: new Date().toISOString() };
    memory = predictions;
    try {
      localStorage.setItem(KEY, JSON.stringify({ format: KEY, version: 1, predictions }));
    } catch {}
  }

  function number(text) {
    if (/,(?!\d{3}(?!\d))/.test(text)) return NaN; // 0,5 is not 5
    const parts = text.replace("−", "-").replace(/[,\s\u202f]|%$/g, "").split("/");
    const [above, below] = parts.map((part) => Number(part || NaN));
    return parts.length === 1 ? above : parts.length === 2 ? above / below : NaN;
  }

  function inside(x, span) {
    const [, low, high, side, bound] = span.trim().match(SPAN);
    if (side) return side === "above" ? x > number(bound) : x < number(bound);
    return number(low) <= x && x <= number(high ?? low);
  }

  /** An answer without what may be written in several ways. */
  function plain(kind, text) {
    if (kind === "places") return letters(text).join(" ");
    const words = kind === "cells" ? text.match(/row \d+, column \d+/g) : text.match(/-?[\p{L}\p{N}_]+(?:\.[\p{L}\p{N}_]+)?/gu);
    return kind === "cells" ? (words ?? []).sort().join(";") : (words ?? []).join(" ");
  }

  function letters(text) {
    return [...new Set(text.match(/\b[a-z]\b/g))].sort();
  }

  function isRight({ kind, right, counts }, given) {
    return kind === "number" ? inside(number(given), counts) : plain(kind, given) === plain(kind, right);
  }

  /** Whether an item of the answer's list, "above 5" or "b before a", is about what was given. */
  function isAbout(kind, when, given) {
    if (kind === "number") return inside(number(given), when);
    const [first, then] = when.split(" before ");
    if (then) return given.indexOf(first) < given.indexOf(then);
    return plain(kind, given) === plain(kind, when);
  }

  function make(tag, className = "", text = "") {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.textContent = text;
    return element;
  }

  function button(text, label) {
    const made = Object.assign(make("button", "", text), { type: "button" });
    if (label) made.setAttribute("aria-label", label);
    return made;
  }

  // ---- the ways to answer: each gives what to place, how to read it, and how to show what was given

  function choice(box, list) {
    const inputs = [...list.children].map((item) => {
      const input = Object.assign(make("input"), { type: "radio", name: box.dataset.name, value: letter(item) });
      const label = make("label");
      label.append(input, ...item.childNodes);
      item.append(label);
      item.setAttribute("role", "none");
      return input;
    });
    list.setAttribute("role", "radiogroup");
    return {
      read: () => inputs.find((input) => input.checked)?.value ?? "",
      show: (given) => inputs.forEach((input) => { input.checked = input.value === given; }),
      wants: "Choose one first.",
      inputs,
    };
  }

  function letter(item) {
    return item.querySelector("strong").textContent.replace(".", "").trim();
  }

  function order(box, list) {
    const start = [...list.children];
    const inputs = [];
    const move = (item, up) => {
      const other = up ? item.previousElementSibling : item.nextElementSibling;
      if (!other) return;
      if (up) other.before(item);
      else other.after(item);
      said.textContent = `${letter(item)} is number ${[...list.children].indexOf(item) + 1} of ${start.length}`;
    };
    const said = make("span", "u-unseen");
    said.setAttribute("role", "status");
    list.after(said);
    for (const item of start) {
      const pair = make("span", "u-moves");
      for (const [sign, word] of [["↑", "up"], ["↓", "down"]]) {
        const one = button(sign, `Move ${letter(item)} ${word}`);
        one.onclick = () => { move(item, word === "up"); one.focus(); };
        pair.append(one);
        inputs.push(one);
      }
      item.prepend(pair);
    }
    return {
      read: () => [...list.children].map(letter).join(", "),
      show: (given) => {
        const letters = given ? given.split(", ") : start.map(letter);
        list.append(...letters.map((one) => start.find((item) => letter(item) === one)).filter(Boolean));
      },
      inputs,
    };
  }

  function typed(box) {
    const input = make("input", "u-guess");
    Object.assign(input, { type: "text", autocomplete: "off", spellcheck: false });
    const isNumber = box.dataset.kind === "number";
    if (isNumber) input.inputMode = "decimal";
    const label = make("label", "", "Your guess ");
    label.append(input);
    if (box.dataset.unit) label.append(` ${box.dataset.unit}`);
    box.querySelector("details").before(label);
    return {
      read: () => (isNumber && !Number.isFinite(number(input.value)) ? "" : input.value.trim()),
      show: (given) => { input.value = given; },
      wants: isNumber ? "Give a number, such as 0.5, 1000 or 1e6." : "Write your guess first.",
      inputs: [input],
    };
  }

  function cells(box, table) {
    const found = new Map();
    const pressed = (one) => one.getAttribute("aria-pressed") === "true";
    const heads = table.querySelectorAll("thead :is(th, td)"), names = {};
    const unnamed = !heads[0]?.textContent.trim();
    [...table.tBodies[0].rows].forEach((row, i) => {
      [...row.cells].slice(unnamed ? 1 : 0).forEach((cell, j) => {
        const name = `row ${i + 1}, column ${j + 1}`;
        const called = unnamed ? `${row.cells[0].textContent.trim()}, ${heads[j + 1]?.textContent.trim()}` : name;
        const one = button("", `${called}: ${cell.textContent.trim() || "empty"}`);
        one.dataset.cell = name;
        names[name] = called;
        one.append(...cell.childNodes);
        one.setAttribute("aria-pressed", "false");
        one.onclick = () => one.setAttribute("aria-pressed", String(!pressed(one)));
        cell.replaceChildren(one);
        cell.classList.add("u-cell");
        found.set(name, one);
      });
    });
    for (const told of box.querySelectorAll("details :is(strong, em)")) {
      const when = told.textContent;
      if (!when.startsWith("row ")) continue;
      told.dataset.when = when;
      told.textContent = when.replace(/row \d+, column \d+/g, (name) => names[name]);
    }
    return {
      read: () => [...found].filter(([, one]) => pressed(one)).map(([name]) => name).join("; "),
      show: (given) => found.forEach((one, name) => one.setAttribute("aria-pressed", String(given.split("; ").includes(name)))),
      mark: (right) => found.forEach((one, name) => one.classList.toggle("u-right", right.split("; ").includes(name))),
      wants: "Mark at least one cell of the table first.",
      inputs: [...found.values()],
    };
  }

  function isBelow(one, other) {
    return !!(one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
  }

  /** A link to the cell that shows the answer; the focus goes there, and can be seen. */
  function see(box) {
    const target = document.getElementById(box.dataset.see);
    const below = isBelow(box, target);
    const link = Object.assign(make("a", "", `See it ${below ? "below" : "above"}`), { href: `#${box.dataset.see}` });
    link.onclick = () => {
      for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      target.tabIndex = -1;
      target.focus();
    };
    return link;
  }

  function ask(box) {
    const { name, kind } = box.dataset;
    const fold = box.querySelector(":scope > details");
    const list = box.querySelector(":scope > ul");
    const way = kind === "choice" ? choice(box, list) : kind === "order" ? order(box, list)
      : kind === "cells" ? cells(box, box.querySelector("table"))
      : kind === "places" ? unrolledPlaces(box, list, letter, letters) : typed(box);
    const bar = make("div", "u-bar");
    const [go, anew] = [button("Commit"), button("Try anew")];
    go.className = "u-go";
    bar.append(go, anew);
    const said = make("div", "u-verdict");
    said.setAttribute("role", "status");
    fold.before(bar, said);

    function draw(given, right) {
      const done = given !== null;
      box.dataset.state = done ? (right ? "right" : "wrong") : "";
      for (const input of way.inputs) input.disabled = done;
      go.hidden = done;
      anew.hidden = !done;
      fold.open = done;
      way.mark?.(done ? box.dataset.right : "", done);
      said.replaceChildren();
      for (const old of fold.querySelectorAll(".u-yours")) old.classList.remove("u-yours");
      if (!done) return;
      const item = right ? null : [...fold.querySelectorAll("li")].find((li) => {
        const when = li.querySelector("em");
        return when && isAbout(kind, (when.dataset.when ?? when.textContent).replace(/\.$/, ""), given);
      });
      item?.classList.add("u-yours");
      const verdict = right ? "✓ Right. " : item ? "✗ Not so; your answer is marked below. " : "✗ Not so. ";
      said.append(make("p", "", verdict));
      said.firstChild.append(see(box), ".");
    }

    go.onclick = () => {
      const given = way.read();
      if (!given) {
        said.replaceChildren(make("p", "", way.wants));
        way.inputs[0].focus();
        return;
      }
      const right = isRight(box.dataset, given);
      keep(name, given, right);
      draw(given, right);
      anew.focus();
    };
    anew.onclick = () => {
      keep(name, null);
      way.show("");
      draw(null);
      way.inputs[0].focus();
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.matches("input")) { event.preventDefault(); go.click(); }
    });
    const kept = all()[name];
    if (kept) way.show(kept.given);
    draw(kept ? kept.given : null, kept?.right);
  }

  /** An open question: a line to write in, kept for a comparison with what follows. */
  function open(prompt, n) {
    const name = `open-${location.pathname.split("/").pop().replace(".html", "")}-${n}`;
    const fold = make("details", "u-open");
    fold.append(make("summary", "", "Write your guess down"));
    const label = make("label", "", "Your guess, to compare with what follows");
    const area = Object.assign(make("textarea"), { rows: 2, value: all()[name]?.given ?? "" });
    area.oninput = () => keep(name, area.value.trim() ? area.value : null, null);
    fold.open = !!area.value;
    label.append(area);
    fold.append(label);
    prompt.append(fold);
  }

  /** One line below the title: where the reader is on the path that they chose on the map. */
  function place() {
    let path;
    try {
      path = JSON.parse(localStorage.getItem("unrolled-path"));
    } catch {}
    const at = path?.stops?.findIndex(({ page }) => page === location.pathname.split("/").pop()) ?? -1;
    if (at < 0) return;
    const line = make("p", "u-on-path");
    line.append(Object.assign(make("a", "", path.title), { href: "../book/map.html" }), `: ${at + 1} of ${path.stops.length}.`);
    const next = path.stops[at + 1];
    if (next) line.append(" Next: ", Object.assign(make("a", "", `${next.n}. ${next.title}`), { href: next.page }), ".");
    document.querySelector("main h1")?.after(line);
  }

  place();
  document.querySelectorAll(".u-asked").forEach(ask);
  document.querySelectorAll("p.u-predict").forEach((prompt, n) => {
    const box = make("div", "u-predict");
    prompt.replaceWith(box);
    prompt.classList.remove("u-predict");
    box.append(prompt);
    open(box, n + 1);
  });
})();
