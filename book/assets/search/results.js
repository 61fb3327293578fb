/* The field of the search, and below it what is found while a reader types. */
(function () {
  "use strict";
  const root = document.documentElement.dataset.content_root;
  const made = new WeakSet();
  const add = (parent, tag, attributes = {}) => {
    const element = Object.assign(document.createElement(tag), attributes);
    parent.append(element);
    return element;
  };

  function row(list, { url, title, page, first, kind }) {
    const link = add(add(list, "li"), "a", { href: root + url });
    add(link, "b", { textContent: title });
    if (kind !== "opening") add(link, "i", { textContent: page });
    if (first) add(link, "span", { textContent: first });
  }

  window.unrolledResults = (field) => {
    if (made.has(field)) return;
    made.add(field);
    const form = field.form, dialog = form.closest("dialog");
    const box = document.createElement("div");
    box.className = "u-found";
    form.after(box);
    const said = add(box, "p", { role: "status" });
    const list = add(box, "ol");
    let timer;

    async function show() {
      const asked = field.value.trim();
      const found = asked ? await window.unrolledSearch(asked, dialog ? 10 : 30) : [];
      if (asked !== field.value.trim()) return; // the next answer is on its way
      list.replaceChildren();
      found.forEach((entry) => row(list, entry));
      said.textContent = !asked ? "" : found.length ? `${found.length} found` : "Nothing found. Try another word.";
      if (!dialog) history.replaceState(null, "", asked ? `?q=${encodeURIComponent(asked)}` : location.pathname);
    }

    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(show, 120);
    });
    form.addEventListener("submit", (event) => {
      if (dialog) return; // goes to the page of the search
      event.preventDefault();
      show();
    });
    // Up and down go through what is found; a link is followed with Enter, as everywhere.
    form.parentNode.addEventListener("keydown", (event) => {
      const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const stops = [field, ...list.querySelectorAll("a")];
      const at = stops.indexOf(document.activeElement);
      if (!way || at < 0) return;
      event.preventDefault();
      stops[Math.min(Math.max(at + way, 0), stops.length - 1)].focus();
    });
    list.addEventListener("click", (event) => event.target.closest("a") && dialog?.close());
    show();
  };
})();
