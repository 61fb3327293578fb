/* The map of the chapters: what the chosen one needs, what builds on it, and the path that is chosen,
   which this browser keeps as "unrolled-path" for the line at the head of each chapter. */
(function () {
  "use strict";
  const KEY = "unrolled-path";
  const root = document.getElementById("u-map");
  const { chapters, paths } = JSON.parse(document.getElementById("u-map-data").textContent);
  const nodes = new Map([...root.querySelectorAll("a[data-n]")].map((node) => [node.dataset.n, node]));
  const edges = [...root.querySelectorAll(".u-edge")];
  const said = root.querySelector(".u-map-said");

  function make(tag, text = "", given = {}) {
    return Object.assign(document.createElement(tag), { textContent: text }, given);
  }

  function behind(n, found = new Set()) {
    for (const need of chapters[n].needs) if (!found.has(need)) behind(need, found.add(need));
    return found;
  }

  const after = (n) => Object.keys(chapters).filter((other) => behind(other).has(n));

  function choose(n, speak) {
    const needs = behind(n);
    const later = new Set(after(n));
    root.dataset.chosen = n;
    for (const [other, node] of nodes) {
      node.classList.toggle("u-chosen", other === n);
      node.classList.toggle("u-need", needs.has(other));
      node.classList.toggle("u-later", later.has(other));
    }
    for (const edge of edges) edge.classList.toggle("u-on", edge.dataset.to === n);
    if (!speak) return;
    const { title, page, minutes, terms } = chapters[n];
    const total = [...needs].reduce((sum, one) => sum + chapters[one].minutes, minutes);
    const head = make("p");
    head.append(make("a", `${n}. ${title}`, { href: page }), `, ${minutes} minutes. `,
      needs.size ? `With all that it needs (${needs.size} chapters): ${(total / 60).toFixed(1)} hours. ` : "It needs no other chapter. ",
      later.size ? `${later.size} chapters build on it.` : "No other chapter builds on it.");
    const list = make("p", "", { className: "u-note" });
    list.append("Its terms: ", ...Object.entries(terms).flatMap(([key, name], i) =>
      [i ? ", " : "", make("a", name, { href: `glossary.html#term-${key}` })]), ".");
    said.replaceChildren(head, ...(Object.keys(terms).length ? [list] : []));
  }

  for (const [n, node] of nodes) {
    node.addEventListener("mouseenter", () => choose(n));
    node.addEventListener("focus", () => choose(n));
    node.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || root.dataset.open === n) return; // the second time it leads there
      event.preventDefault();
      root.dataset.open = n;
      choose(n, true);
    });
  }
  root.querySelector("svg").addEventListener("mouseleave", () => root.dataset.open && choose(root.dataset.open));

  // ---- the path
  const label = make("label", "Your path ");
  const select = make("select");
  select.append(make("option", "none", { value: "" }), ...paths.map(({ name, title }) => make("option", title, { value: name })));
  label.append(select);
  root.prepend(label);

  function draw() {
    const path = paths.find(({ name }) => name === select.value);
    root.classList.toggle("u-with-path", !!path);
    for (const [n, node] of nodes) node.classList.toggle("u-stop", !!path?.chapters.includes(n));
  }

  try {
    select.value = JSON.parse(localStorage.getItem(KEY) ?? "{}").name ?? "";
  } catch {}
  select.onchange = () => {
    const path = paths.find(({ name }) => name === select.value);
    try {
      if (!path) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, JSON.stringify({ name: path.name, title: path.title,
        stops: path.chapters.map((n) => ({ n, page: chapters[n].page.split("/").pop(), title: chapters[n].title })) }));
    } catch {}
    draw();
  };
  draw();
})();
