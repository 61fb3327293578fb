// Exercises that are solved in the page: an editor in place of the starter, and the book's own check.
//
// What an exercise is stands in the page already: the cell with the starter, the cell that checks
// it, and the folded solution. Python itself (`live/`, see there) comes with the first check.
import { all, find, put, watch } from "./answers.mjs";
import { makeEditor } from "./editor.mjs";

const told = JSON.parse(document.getElementById("u-live").textContent);
const base = new URL(told.base, location.href).href;
const { version } = told; // of the bundle
const LONG = 8; // seconds after which a check that still runs is called long
let python = null; // the worker, shared by the page's exercises
let ready = false; // whether it has started
let loaded = false; // whether one has: then the browser holds all its files
let running = null; // the exercise whose check it runs

if (window.Worker && window.DecompressionStream) {
  const cells = [...document.querySelectorAll("div.cell.tag_exercise")];
  const solved = cells.map(found).filter(Boolean).map(solve);
  watch(() => solved.forEach((one) => one.reread(true)));
}

/** The exercise whose check stands in this cell: {name, starter, check, solution, number}. */
function found(cell) {
  const call = cell.querySelector("pre")?.textContent.match(/^check\("(\w+)", \1\)\s*$/);
  const starter = cell.previousElementSibling;
  if (!call || !starter?.matches("div.cell.tag_exercise")) return null;
  let solution = cell.nextElementSibling;
  while (solution && !solution.matches("details")) solution = solution.nextElementSibling;
  const heading = cell.closest("section").querySelector("h2, h3").textContent;
  const number = heading.match(/Exercise (\S+)/)?.[1] ?? call[1];
  return { name: `${told.chapter}/${call[1]}`, starter, check: cell, solution, number };
}

function solve({ name, starter, check, solution, number }) {
  const original = starter.querySelector("pre").textContent.trimEnd();
  const edition = mixed(original);
  const away = told.elsewhere[name];
  if (away) {
    const colab = document.querySelector('a.u-action[aria-label="Open in Colab"]')?.href;
    const note = make("p", "u-elsewhere", `This exercise ${away}: solve it in Jupyter or `);
    note.append(colab ? Object.assign(make("a", "", "in Colab"), { href: colab }) : "Colab", ".");
    check.after(note);
    return { reread() {} };
  }

  const box = make("div", "u-solve");
  const hint = make("p", "u-hint", "Ctrl+Enter checks. Tab indents; Esc, then Tab leaves the editor.");
  hint.id = `hint-${number.replace(/\W/g, "-")}`;
  const editor = makeEditor(original, `Your answer to exercise ${number}`, hint.id);
  const said = make("div", "u-said");
  said.setAttribute("role", "status");
  const bar = make("div", "u-bar");
  // Stop stands last: when it goes, no other button comes under the finger that pressed it.
  const [go, reset, show, stop] = ["Check", "Reset", "Show solution", "Stop"].map((label) => {
    const button = make("button", "", label);
    button.type = "button";
    button.setAttribute("aria-label", `${label}: exercise ${number}`);
    bar.append(button);
    return button;
  });
  go.classList.add("u-go");
  stop.hidden = true;
  show.hidden = !solution;
  const note = make("span", "u-note");
  bar.append(note);
  box.append(editor.box, bar, hint, said);
  starter.before(box);
  starter.classList.add("u-replaced");
  check.classList.add("u-replaced");

  const one = { number, reread, hear };
  let asked = ""; // the source that is being checked
  let timer;
  let unkept = false;
  let begun = edition; // the edition of the starter that the answer was begun from

  /** Show what is kept. away: another tab may have changed it; that text must stand here too, or the
   * next key here would write an older one over it. */
  function reread(away = false) {
    const kept = find(all(), name);
    const text = kept?.source ?? original;
    const changed = text !== editor.text;
    if (changed) editor.text = text;
    begun = kept?.starter || edition;
    if (running === one) return; // its report follows
    mark(kept?.state);
    if (changed) say(away ? "Your answer was changed in another tab. This is the newer text." : "");
    if (kept?.state === "passed" && !said.textContent) say(`✓ ${name.split("/")[1]}: passed`);
    rename();
  }

  function rename() {
    reset.disabled = editor.text === original && !find(all(), name);
    const parts = [];
    if (begun !== edition) parts.push("The starter has changed since you began; Reset brings the new one.");
    if (unkept) parts.push("This browser keeps no answers: copy yours before you leave the page.");
    else if (!loaded) parts.push(`The first check loads ${told.size} once.`);
    note.textContent = parts.join(" ");
  }

  function mark(state = "") {
    box.dataset.state = state;
  }

  function keep(state, report = {}) {
    const { n_passed = 0, n_tests = 0 } = report;
    const empty = state === "draft" && editor.text === original;
    const answer = { source: editor.text, state, n_passed, n_tests, starter: begun };
    const there = put(name, empty ? null : answer);
    unkept = !there;
  }

  function say(text, more = "") {
    said.replaceChildren();
    if (text) said.append(make("pre", "", text));
    if (more) said.append(make("p", "u-printed", "Your code printed:"), make("pre", "u-output", more));
    for (const pre of said.querySelectorAll("pre"))
      if (pre.scrollWidth > pre.clientWidth + 1 || pre.scrollHeight > pre.clientHeight + 1) pre.tabIndex = 0;
  }

  function begin() {
    if (running) {
      if (running !== one) say(`Another check is running (exercise ${running.number}). Stop it first.`);
      return;
    }
    running = one;
    asked = editor.text;
    go.ariaDisabled = "true"; // and not disabled: the focus stays on it
    stop.hidden = false;
    say(loaded ? "Starting Python …" : "Loading Python …");
    python ??= hire();
    if (ready) hear({ ready });
    python.postMessage({ base, version, exercise: name, source: asked });
  }

  /** What the worker says while it works for this exercise. */
  function hear({ share, ready, report, error }) {
    if (share !== undefined && !loaded) note.textContent = `${Math.round(100 * share)} %`;
    if (ready) {
      say("Checking …");
      clearTimeout(timer);
      timer = setTimeout(tooLong, LONG * 1000);
    }
    if (report) ended(report);
    if (error) ended({ state: "failed", text: `✗ Python did not start: ${error}`, lost: true });
  }

  function tooLong() {
    say(`Still running after ${LONG} seconds. An endless loop? Stop ends it; your answer stays.`);
  }

  function ended(report) {
    clearTimeout(timer);
    running = null;
    go.ariaDisabled = "false";
    if (document.activeElement === stop) go.focus();
    stop.hidden = true;
    if (report.state === "dead") dismiss();
    if (report.renew) renew(); // the answer has changed what judges it
    const state = report.state === "dead" ? "failed" : report.state;
    const current = !report.lost && editor.text === asked; // else the report is on an older text
    if (current) keep(state, report);
    mark(current ? state : "");
    say(report.text, report.output);
    rename();
  }

  go.onclick = begin;
  editor.oncheck = begin;
  stop.onclick = () => {
    dismiss();
    ended({ state: "draft", text: "Stopped. The next check has a fresh Python.", lost: true });
    if (loaded) renew(); // who stops the loading wants no more of it
  };
  reset.onclick = () => {
    editor.replace(original);
    put(name, null);
    begun = edition;
    mark();
    say("The starter is back. Ctrl+Z brings your answer again.");
    rename();
  };
  show.onclick = () => {
    solution.open = true;
    solution.querySelector("summary").focus();
    solution.scrollIntoView({ block: "nearest" });
  };
  editor.onedit = () => {
    mark("draft");
    keep("draft");
    rename();
  };
  reread();
  return one;
}

/** A short number for a text (FNV-1a), to see whether it has changed. */
function mixed(text) {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193);
  return (hash >>> 0).toString(16);
}

/** A fresh worker. What the reader's code does in there reaches this site and no other host: the
 * policy of the page holds for a worker that begins in a blob of the page's own. */
function hire() {
  if (!document.getElementById("u-policy")) {
    const policy = make("meta");
    policy.id = "u-policy";
    policy.httpEquiv = "Content-Security-Policy";
    policy.content = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:";
    document.head.append(policy);
  }
  const begin = `import ${JSON.stringify(new URL("./worker.mjs", import.meta.url).href)};`;
  const url = URL.createObjectURL(new Blob([begin], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  const hear = (said) => {
    if (worker !== python) return; // dismissed meanwhile
    if (said.error) dismiss();
    if (said.ready) ready = loaded = true;
    running?.hear(said);
  };
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = ({ message }) => hear({ error: message ?? "no reason given" });
  return worker;
}

/** A fresh Python, before the next check asks for it. */
function renew() {
  dismiss();
  python = hire();
  python.postMessage({ base, version });
}

function dismiss() {
  python?.terminate();
  python = null;
  ready = false;
}

function make(tag, name, text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.textContent = text;
  return element;
}
