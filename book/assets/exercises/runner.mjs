// What an exercise and a listing have in common: an editor, buttons that run what stands in it, and
// what Python says of it. The page has one Python, in a worker; they take turns.
import { hire } from "./hire.mjs";

const told = JSON.parse(document.getElementById("u-live").textContent);
const base = new URL(told.base, location.href).href;
const { version } = told; // of the bundle
const LONG = 8; // seconds after which what still runs is called long
let python = null; // the worker
let ready = false; // whether it has started
let loaded = false; // whether one has: then the browser holds all its files
let running = null; // the runner whose text it runs

/** The size that the first run loads; "" once it has. */
export const toLoad = () => (loaded ? "" : told.size);

/** Whether this runner's text is being run. */
export const isRunning = (one) => running === one;

/** Buttons, note, hint and report below an editor.
 *
 * title: whose they are, "exercise 1.3". labels: of its buttons, the first of which runs. kind, doing:
 * what one run is called, "check" and "Checking". job: what the worker is asked, with the text.
 * ended(report, current): a report has come; current: on the text that stands in the editor.
 * renew(): write the note. */
export function makeRunner(editor, { title, labels, kind, doing, job, ended, renew }) {
  const box = make("div", "u-solve");
  const said = make("div", "u-said");
  said.setAttribute("role", "status");
  const bar = make("div", "u-bar");
  // Stop stands last: when it goes, no other button comes under the finger that pressed it.
  const buttons = [...labels, "Stop"].map((label) => {
    const button = make("button", "", label);
    button.type = "button";
    button.setAttribute("aria-label", `${label}: ${title}`);
    bar.append(button);
    return button;
  });
  const [go, stop] = [buttons[0], buttons.at(-1)];
  go.classList.add("u-go");
  stop.hidden = true;
  const note = make("span", "u-note");
  bar.append(note);
  const hint = make("p", "u-hint", `Ctrl+Enter ${labels[0].toLowerCase()}s. Tab indents; Esc, then Tab leaves the editor.`);
  hint.id = `hint-${title.replace(/\W/g, "-")}`;
  editor.area.setAttribute("aria-describedby", hint.id);
  box.append(editor.box, bar, hint, said);
  const one = { box, said, note, buttons, title, kind, say, hear };
  let asked = ""; // the text that runs
  let timer;

  /** Show what was said, texts as <pre>. */
  function say(...parts) {
    said.replaceChildren(...parts.filter(Boolean).map((part) => (part.nodeType ? part : make("pre", "", part))));
    for (const pre of said.querySelectorAll("pre"))
      if (pre.scrollWidth > pre.clientWidth + 1 || pre.scrollHeight > pre.clientHeight + 1) pre.tabIndex = 0;
  }

  function begin() {
    if (running) {
      if (running !== one) say(`Another ${running.kind} is running (${running.title}). Stop it first.`);
      return;
    }
    running = one;
    asked = editor.text;
    go.ariaDisabled = "true"; // and not disabled: the focus stays on it
    stop.hidden = false;
    say(loaded ? "Starting Python …" : "Loading Python …");
    python ??= hired();
    if (ready) hear({ ready });
    python.postMessage({ base, version, ...job, source: asked });
  }

  /** What the worker says while it works for this one. */
  function hear({ share, ready, report, error }) {
    if (share !== undefined && !loaded) note.textContent = `${Math.round(100 * share)} %`;
    if (ready) {
      say(`${doing} …`);
      clearTimeout(timer);
      timer = setTimeout(() => say(`Still running after ${LONG} seconds. An endless loop? Stop ends it; your text stays.`), LONG * 1000);
    }
    if (report) over(report);
    if (error) over({ state: "failed", text: `✗ Python did not start: ${error}`, lost: true });
  }

  function over(report) {
    clearTimeout(timer);
    running = null;
    go.ariaDisabled = "false";
    if (document.activeElement === stop) go.focus();
    stop.hidden = true;
    if (report.state === "dead") dismiss();
    if (report.renew) fresh(); // the text has changed what judges answers
    const state = report.state === "dead" ? "failed" : report.state;
    ended({ ...report, state }, !report.lost && editor.text === asked);
    renew();
  }

  go.onclick = begin;
  editor.oncheck = begin;
  stop.onclick = () => {
    dismiss();
    over({ state: "draft", text: `Stopped. The next ${kind} has a fresh Python.`, lost: true });
    if (loaded) fresh(); // who stops the loading wants no more of it
  };
  return one;
}

/** A fresh worker, for whoever runs. */
const hired = () =>
  hire((said, worker) => {
    if (worker !== python) return; // dismissed meanwhile
    if (said.error) dismiss();
    if (said.ready) ready = loaded = true;
    running?.hear(said);
  });

/** A fresh Python, before the next run asks for it. */
function fresh() {
  dismiss();
  python = hired();
  python.postMessage({ base, version });
}

function dismiss() {
  python?.terminate();
  python = null;
  ready = false;
}

export function make(tag, name, text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.textContent = text;
  return element;
}
