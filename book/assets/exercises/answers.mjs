// The reader's answers: in this browser's storage, or in memory where it keeps nothing.
//
//   {"format": "unrolled-answers", "version": 1,
//    "answers": {"c01_chain_rule/shift":
//      {"source", "state", "n_passed", "n_tests", "changed", "starter"}}}
//
// state: "draft", "failed", "unwritten", "passed". changed: ISO time. starter: the edition of the
// starter that the answer was begun from. The same text is what `export` writes and what the grader
// of a course reads; there the reader's predictions and cards stand beside the answers (see
// predict.js and today.js).

const KEY = "unrolled-answers";
const PREDICTIONS = "unrolled-predictions";
const CARDS = "unrolled-cards";
const STATES = ["draft", "failed", "unwritten", "passed"];
let memory = {}; // what was written while the storage is full or forbidden

/** All answers by the names of their exercises. */
export function all() {
  let text = null;
  try {
    text = localStorage.getItem(KEY);
  } catch {
    return written(memory);
  }
  try {
    return written({ ...parse(text ?? pack({})), ...memory });
  } catch {
    try {
      localStorage.setItem(`${KEY}-unreadable`, text); // nothing is lost: somebody may mend it
      localStorage.removeItem(KEY);
    } catch {}
    return written(memory);
  }
}

function written(answers) {
  return Object.fromEntries(Object.entries(answers).filter(([, answer]) => answer));
}

/** The answer to an exercise; also where an earlier edition had it in another chapter. */
export function find(answers, name) {
  return answers[name] ?? answers[elsewhere(answers, name)[0]];
}

/** The names under which other chapters have this exercise: its last part is unique in the book. */
function elsewhere(answers, name) {
  const own = name.slice(name.indexOf("/"));
  return Object.keys(answers).filter((other) => other !== name && other.endsWith(own));
}

/** Keep an answer; null forgets it. Gives whether it will be there when the page is loaded again. */
export function put(name, answer) {
  const answers = all();
  for (const other of elsewhere(answers, name)) delete answers[other];
  delete memory[name];
  if (answer) answers[name] = { ...answer, changed: new Date().toISOString() };
  else delete answers[name];
  return write(answers, name);
}

/** The reader's predictions by name: {"given", "right", "changed"}. */
export function predictions() {
  try {
    return sane(JSON.parse(localStorage.getItem(PREDICTIONS) ?? "{}").predictions);
  } catch {
    return {};
  }
}

function sane(found) {
  const whole = ([, one]) => typeof one?.given === "string" && typeof one.changed === "string";
  return Object.fromEntries(Object.entries(found ?? {}).filter(whole));
}

/** What the reader knows of the cards: {"chapters": [...], "cards": {name: {"level", "due"}}}. */
export function cards() {
  try {
    return saneCards(JSON.parse(localStorage.getItem(CARDS) ?? "{}"));
  } catch {
    return saneCards({});
  }
}

function saneCards(found) {
  const whole = ([, card]) => Number.isInteger(card?.level) && /^\d{4}-\d\d-\d\d$/.test(card.due);
  const names = Array.isArray(found?.chapters) ? found.chapters : [];
  return {
    chapters: names.filter((name) => typeof name === "string"),
    cards: Object.fromEntries(Object.entries(found?.cards ?? {}).filter(whole)),
  };
}

/** Forget all answers, predictions and cards. */
export function erase() {
  memory = {};
  try {
    localStorage.removeItem(KEY);
    localStorage.removeItem(PREDICTIONS);
    localStorage.removeItem(CARDS);
  } catch {}
}

/** The text of the file that `merge` and the grader read. */
export function pack(answers = all(), more = {}) {
  const head = { format: "unrolled-answers", version: 1, saved: new Date().toISOString() };
  return JSON.stringify({ ...head, answers, ...more }, null, 1) + "\n";
}

/** Take the answers of a file in; of two, the one that was changed last. Gives how many came in, and
 * whether they will be there when the page is loaded again. */
export function merge(text) {
  const theirs = parse(text);
  const mine = all();
  const news = Object.entries(theirs).filter(
    ([name, answer]) => !mine[name] || mine[name].changed < answer.changed,
  );
  const kept = !news.length || write({ ...mine, ...Object.fromEntries(news) });
  const file = JSON.parse(text);
  const [guesses, known] = [Object.entries(sane(file.predictions)), predictions()];
  const newer = guesses.filter(([name, one]) => !known[name] || known[name].changed < one.changed);
  const [deck, own] = [saneCards(file.cards), cards()];
  const later = Object.entries(deck.cards).filter(([name, card]) => !own.cards[name] || own.cards[name].due < card.due);
  const chapters = [...new Set([...own.chapters, ...deck.chapters])];
  return {
    taken: news.length + newer.length + later.length,
    there: Object.keys(theirs).length + guesses.length + Object.keys(deck.cards).length,
    kept: [
      kept,
      !newer.length || store(PREDICTIONS, { predictions: { ...known, ...Object.fromEntries(newer) } }),
      !chapters.length || store(CARDS, { chapters, cards: { ...own.cards, ...Object.fromEntries(later) } }),
    ].every(Boolean),
  };
}

function store(key, what) {
  try {
    localStorage.setItem(key, JSON.stringify({ format: key, version: 1, ...what }));
    return true;
  } catch {
    return false;
  }
}

/** Call back when another tab has changed the answers, or may have while this one slept. */
export function watch(changed) {
  addEventListener("storage", ({ key }) => (key === KEY || key === PREDICTIONS || key === null) && changed());
  addEventListener("pageshow", ({ persisted }) => persisted && changed());
  document.addEventListener("visibilitychange", () => document.hidden || changed());
}

function write(answers, name) {
  try {
    localStorage.setItem(KEY, pack(answers));
    return true;
  } catch {
    memory = name ? { ...memory, [name]: answers[name] } : answers;
    return false;
  }
}

/** The answers that a text holds. Throws an Error that says what is wrong with it. */
function parse(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("this file is not JSON; expected one that this book has exported");
  }
  if (data?.format !== "unrolled-answers" || typeof data.answers !== "object" || !data.answers) {
    throw new Error("this file holds no answers; expected one that this book has exported");
  }
  if (data.version !== 1) {
    throw new Error(`this file has version ${data.version}; this page reads version 1`);
  }
  const found = Object.entries(data.answers).filter(([, a]) => typeof a?.source === "string");
  return Object.fromEntries(found.map(([name, answer]) => [name, sound(answer)]));
}

function sound({ source, state, n_passed, n_tests, changed, starter }) {
  const count = (n) => (Number.isInteger(n) && n >= 0 ? n : 0);
  return {
    source,
    state: STATES.includes(state) ? state : "draft",
    n_passed: count(n_passed),
    n_tests: count(n_tests),
    changed: typeof changed === "string" ? changed : "",
    starter: typeof starter === "string" ? starter : "",
  };
}
