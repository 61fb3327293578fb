/* The cards that are due today. What the reader knows stays in this browser, in its storage:

     {"format": "unrolled-cards", "version": 1, "chapters": ["01_chain_rule"],
      "cards": {"01-1f0c2b3a": {"level", "due"}}}

   due: a day, 2026-11-26. A card that is known goes up a level and comes back after DAYS[level]; one
   that is forgotten goes to level 0 and comes back in this sitting, then tomorrow. */
(function () {
  "use strict";
  const KEY = "unrolled-cards";
  const DAYS = [1, 3, 7, 16, 35, 90, 180];
  const MOST = 30; // cards a day: ten minutes of twenty seconds each
  const NEW = 10; // of them, cards that were never seen
  const { chapters, cards: address } = JSON.parse(document.getElementById("u-cards").textContent);
  let cards = null; // they come when a chapter has been added
  const root = document.getElementById("u-today");
  let memory = { chapters: [], cards: {} };
  let again = []; // cards forgotten in this sitting
  let asked = 0;

  function kept() {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
      return { chapters: found.chapters ?? [], cards: found.cards ?? {} };
    } catch {
      return memory;
    }
  }

  function keep(state) {
    memory = state;
    try {
      localStorage.setItem(KEY, JSON.stringify({ format: KEY, version: 1, ...state }));
    } catch {}
  }

  function load(then) {
    const script = Object.assign(document.createElement("script"), { src: address });
    script.onload = () => { cards = window.unrolledCards; then(); };
    document.head.append(script);
  }

  function day(after = 0) {
    const now = new Date();
    now.setDate(now.getDate() + after);
    return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
  }

  function due() {
    const { chapters: begun, cards: known } = kept();
    const own = cards.filter((card) => begun.includes(card.chapter) && !again.includes(card));
    const old = own.filter(({ name }) => known[name] && known[name].due <= day());
    const fresh = own.filter(({ name }) => !known[name]).slice(0, NEW);
    return [...old, ...fresh].slice(0, Math.max(0, MOST - asked)).concat(again);
  }

  function make(tag, className = "", text = "") {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.textContent = text;
    return element;
  }

  function button(text, act, go = false) {
    const made = Object.assign(make("button", go ? "u-go" : "", text), { type: "button" });
    made.onclick = act;
    return made;
  }

  const stage = make("div", "u-card");
  const list = make("div", "u-decks");
  root.replaceChildren(stage, list);

  function show(focus) {
    if (!cards && kept().chapters.length) { load(() => show(focus)); return; }
    const left = cards ? due() : [];
    stage.replaceChildren();
    const said = make("p", "u-note", left.length ? `${left.length} ${left.length === 1 ? "card" : "cards"} for today` : "");
    said.setAttribute("role", "status");
    stage.append(said);
    if (!left.length) {
      said.textContent = kept().chapters.length
        ? "Nothing is due. Come back tomorrow, or add the cards of another chapter."
        : "No chapter is added yet. Choose below which you have read.";
      return;
    }
    const [card] = left;
    const front = make("div", "u-front");
    front.innerHTML = card.front;
    const bar = make("div", "u-bar");
    const turn = button("Show the answer", () => answer(card, bar, front), true);
    bar.append(turn);
    stage.append(front, bar);
    if (focus) turn.focus();
  }

  function answer(card, bar, front) {
    const back = make("div", "u-back");
    back.innerHTML = card.back;
    back.tabIndex = -1;
    const chapter = chapters.find(({ name }) => name === card.chapter);
    const where = make("p", "u-note");
    where.append(Object.assign(make("a", "", chapter.title), { href: chapter.page }));
    const graded = (knew) => () => { grade(card, knew); show(true); };
    bar.replaceChildren(button("I knew it", graded(true), true), button("Not yet", graded(false)));
    front.after(back);
    bar.after(where);
    back.focus();
  }

  function grade(card, knew) {
    const state = kept();
    const level = state.cards[card.name]?.level ?? -1;
    const wasAgain = again.includes(card);
    again = again.filter((one) => one !== card);
    if (!wasAgain) asked += 1;
    if (!knew) again.push(card);
    const next = knew && !wasAgain ? Math.min(level + 1, DAYS.length - 1) : 0;
    state.cards[card.name] = { level: next, due: day(DAYS[next]) };
    keep(state);
    decks();
  }

  function decks() {
    const { chapters: begun, cards: known } = kept();
    list.replaceChildren(make("h2", "", "Chapters"));
    const items = make("ul");
    for (const chapter of chapters) {
      const prefix = `${chapter.name.split("_")[0]}-`;
      const seen = Object.keys(known).filter((name) => name.startsWith(prefix)).length;
      const label = make("label");
      const box = Object.assign(make("input"), { type: "checkbox", checked: begun.includes(chapter.name) });
      box.onchange = () => {
        const state = kept();
        const rest = state.chapters.filter((name) => name !== chapter.name);
        keep({ ...state, chapters: box.checked ? [...rest, chapter.name] : rest });
        decks();
        show();
        document.getElementById(`deck-${chapter.name}`).querySelector("input").focus();
      };
      label.append(box, ` ${chapter.title} `, make("span", "u-note", `${chapter.n} cards${seen ? `, ${seen} seen` : ""}`));
      const item = make("li");
      item.id = `deck-${chapter.name}`;
      item.append(label);
      items.append(item);
    }
    list.append(items);
  }

  decks();
  show();
  const wanted = location.hash.startsWith("#deck-") && document.getElementById(location.hash.slice(1));
  if (wanted) {
    wanted.classList.add("u-wanted");
    wanted.scrollIntoView({ block: "center" });
    wanted.querySelector("input").focus({ preventScroll: true });
  }
})();
