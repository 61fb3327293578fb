/* Predictions that are answered by pointing: the places of a drawing as buttons (see predict.js).

The last drawing before the question marks a place for each option, `data-place="a"`. The list of
options says in words what stands there: the places get these as their names, and the list is put
away. What is marked is said below the question, too. */
window.unrolledPlaces = function (box, list, letter, letters) {
  "use strict";
  const follows = (one) => one.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING;
  const drawing = [...document.querySelectorAll("main svg:has([data-place])")].filter(follows).at(-1);
  const said = Object.assign(document.createElement("p"), { className: "u-marked" });
  const found = new Map([...list.children].map((item) => [letter(item), drawing.querySelector(`[data-place="${letter(item)}"]`)]));
  const all = [...found.values()];
  const isOn = (one) => one.getAttribute("aria-pressed") === "true";

  function set(one, on) {
    one.setAttribute("aria-pressed", String(on));
    const marked = all.filter(isOn).map((each) => each.getAttribute("aria-label"));
    said.textContent = marked.length ? `Marked: ${marked.join("; ")}.` : "Mark it in the drawing above: nothing yet.";
  }

  function key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const here = event.currentTarget;
    if (step) all.at((all.indexOf(here) + step) % all.length).focus();
    else if (event.key === "Enter" || event.key === " ") here.onclick();
    else return;
    event.preventDefault();
  }

  for (const item of list.children) {
    const one = found.get(letter(item));
    const words = item.textContent.trim().replace(/^\w\.\s*/, "");
    const attributes = { class: "u-place", role: "button", tabindex: 0, "aria-label": words };
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    one.onclick = () => box.dataset.state || set(one, !isOn(one));
    one.onkeydown = key;
    set(one, false);
  }
  drawing.setAttribute("role", "group"); // an image has no parts that can be pressed
  list.classList.add("u-in-drawing");
  said.setAttribute("role", "status");
  list.after(said);
  return {
    read: () => [...found].filter(([, one]) => isOn(one)).map(([name]) => name).join(", "),
    show: (given) => found.forEach((one, name) => set(one, letters(given).includes(name))),
    mark: (right, done) => found.forEach((one, name) => {
      one.classList.toggle("u-right", letters(right).includes(name));
      one.setAttribute("aria-disabled", String(done));
    }),
    wants: "Mark at least one place in the drawing above first.",
    inputs: all,
  };
};
