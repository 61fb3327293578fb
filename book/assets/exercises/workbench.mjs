// The workbench: a text, a model, Train. Python and the engine of chapter 7 work in a worker, a short
// piece at a time (unrolled_book/workbench/page.py); here stand the form, the runs and their drawing.
import { hire } from "./hire.mjs";
import { chart, grid } from "./drawing.mjs";

const told = JSON.parse(document.getElementById("u-live").textContent);
const base = new URL(told.base, location.href).href;
const root = document.getElementById("u-workbench");
const OWN = "own";
const COUNTED = "n-gram"; // the model that is not trained
const MOST_RUNS = 4; // curves in one drawing
const PIECE = 0.2; // seconds of one piece of training: so soon does Pause act

let python = null;
let answer = null; // what waits for the worker's word
let turn = Promise.resolve(); // requests are made one after the other
let text = null; // {key, line, nGrams}
let run = null; // the run that can be trained on
const runs = []; // all that are drawn, the last one is `run`
let state = "still"; // or "training", or "ending": the last piece of work is being done
let letters = 0;
let lr = 0; // the learning rate, which a run takes at its next step

// ---- Python ------------------------------------------------------------------------------------

/** Ask Python for one piece of work. Throws what it refuses, as a sentence. */
function ask(request) {
  const asked = turn.then(() => new Promise((done, fail) => {
    answer = { done, fail };
    python ??= hire(hear);
    python.postMessage({ base, version: told.version, ask: request });
  }));
  turn = asked.catch(() => {});
  return asked;
}

function hear({ share, answered, error }) {
  if (share !== undefined) say(share < 1 ? `Loading Python: ${Math.round(100 * share)} % of ${told.size}` : "Starting Python …");
  if (error) {
    python?.terminate();
    python = text = null;
    state = "still";
    forget();
    answer?.fail(new Error(`Python has ended: ${error}. Train begins a new run.`));
  } else if (answered?.error) answer.fail(new Error(answered.error));
  else if (answered) answer.done(answered);
}

// ---- the form ----------------------------------------------------------------------------------

const make = (tag, name = "", words = "") => {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.textContent = words;
  return element;
};

function field(label, control, parent) {
  const box = make("div", "u-field");
  control.id = `u-${label.toLowerCase().replace(/\W/g, "-")}`;
  box.append(Object.assign(make("label", "", label), { htmlFor: control.id }), control);
  parent.append(box);
  return control;
}

function choice(label, options, chosen, parent) {
  const select = make("select");
  for (const [value, words] of options) select.append(new Option(words, value, false, String(value) === String(chosen)));
  return field(label, select, parent);
}

function button(label, parent, act) {
  const made = make("button", "", label);
  made.type = "button";
  made.onclick = act;
  parent.append(made);
  return made;
}

const form = make("div", "u-bench-form");
const texts = choice("Text", [...told.texts, [OWN, "your own text …"]], told.texts[0][0], form);
const models = choice("Model", [[COUNTED, "n-grams, counted"], ...Object.entries(told.models).map(([name, { title }]) => [name, title])], "two-layer-gpt", form);
const sizes = Object.fromEntries(
  Object.entries(told.sizes).map(([name, { label, options, first }]) => [name, choice(label, options.map((n) => [n, n]), first, form)]),
);
const optimizer = choice("Optimiser", told.optimizers.map((name) => [name, name]), "adam", form);
const rate = field("Learning rate", Object.assign(make("input"), { type: "text", inputMode: "decimal" }), form);
const own = make("textarea", "u-bench-own");
own.setAttribute("aria-label", "Your own text");
own.placeholder = `Paste at least ${told.shortest.toLocaleString("en")} characters. They never leave this page.`;
own.hidden = true;

const bar = make("div", "u-bar");
const go = button("Train", bar, () => (state === "training" ? pause() : counting() ? busy(count) : train()));
go.classList.add("u-go");
const undo = button("Undo", bar, goBack);
const write = button("Write", bar, () => busy(() => sample(120)));
const clear = button("Clear other runs", bar, () => { runs.splice(0, runs.length - 1); show(); });
const live = make("p", "u-bench-live");
const status = make("p", "u-bench-status");
status.setAttribute("role", "status");
const picture = make("div", "u-bench-chart");
const table = Object.assign(make("div", "u-bench-runs"), { tabIndex: 0, role: "region", ariaLabel: "Runs" });
const grams = Object.assign(make("div", "u-bench-runs u-bench-grams"), { tabIndex: 0, role: "region", ariaLabel: "N-grams" });
const written = make("pre", "u-bench-written");
const looking = make("details", "u-bench-look");
looking.append(make("summary", "", "Look inside"));
const line = field("On this line", Object.assign(make("input"), { type: "text", maxLength: told.line }), looking);
const parts = make("select");
field("Show", parts, looking);
const inside = make("div");
const within = make("div", "u-bench-within");
within.append(line.parentNode, parts.parentNode, inside);
looking.append(within);
root.replaceChildren(form, own, bar, status, live, picture, table, grams, written, looking);

function chosen() {
  const given = { model: models.value, optimizer: optimizer.value };
  for (const [name, select] of Object.entries(sizes)) given[name] = Number(select.value);
  return given;
}

const key = () => JSON.stringify([texts.value, texts.value === OWN ? own.value : "", chosen()]);
const counting = () => models.value === COUNTED && state !== "training";
const changed = () => !run || run.key !== key();
const rates = () => run.marks.map(({ lr }) => lr);

function renew() {
  own.hidden = texts.value !== OWN;
  for (const control of [...Object.values(sizes), optimizer, rate]) control.parentNode.hidden = counting();
  go.textContent = state !== "still" ? "Pause" : counting() ? "Count" : changed() ? (run ? "Train a new run" : "Train") : "Continue";
  go.disabled = state === "ending";
  undo.disabled = state !== "still" || changed() || !(run.marks.length > 1 || run.broken);
  write.disabled = state !== "still" || !run || run.broken;
  clear.hidden = runs.length < 2;
}

function say(words) {
  if (status.textContent !== words) status.textContent = words;
}

// ---- training ----------------------------------------------------------------------------------

/** Read the text and count the n-grams on it, if that has not been done. */
async function takeText() {
  const wanted = JSON.stringify([texts.value, texts.value === OWN ? own.value : ""]);
  if (text?.key === wanted) return;
  if (texts.value === OWN && own.value.length < told.shortest)
    throw new Error(`Your text has ${own.value.length.toLocaleString("en")} characters; it needs ${told.shortest.toLocaleString("en")}.`);
  const { line: shown } = await ask(texts.value === OWN ? { do: "read", text: own.value } : { do: "read", corpus: texts.value });
  say("Counting n-grams …");
  const nGrams = [];
  for (const order of told.orders) nGrams.push(await ask({ do: "n_gram", order }));
  text = { key: wanted, line: shown, nGrams };
  forget(); // what was scored on another text is no longer drawn
}

/** Count n-grams of each order, and let each write. */
async function count() {
  if (!python) say("Loading Python …");
  await takeText();
  const rows = [];
  for (const { order, bits: now, parameters } of text.nGrams) {
    const { text: writes } = await ask({ do: "n_gram_sample", order });
    rows.push([`${order}-gram`, bits(now), parameters.toLocaleString("en"), writes]);
  }
  grams.replaceChildren(grown(["Model", "Bits per byte", "Stored numbers", "Writes"], rows));
  const best = text.nGrams.reduce((a, b) => (b.bits < a.bits ? b : a));
  say(`Counted. Best on held-out text is the ${best.order}-gram: ${bits(best.bits)} bits per byte.`);
}

async function begin() {
  const [settings, wanted] = [chosen(), key()];
  if (!python) say("Loading Python …");
  await takeText();
  say("Making the model …");
  const counted = await ask({ do: "begin", ...settings });
  if (runs.length === MOST_RUNS) runs.shift();
  const letter = String.fromCharCode(65 + (letters++ % 26));
  run = { key: wanted, letter, settings, ...counted, losses: [], scores: [], marks: [], n: 0, seconds: 0, done: 0 };
  line.value ||= text.line;
  await score();
  runs.push(run);
  show();
}

async function train() {
  state = "training";
  renew();
  try {
    lr = rateNow();
    if (changed()) await begin();
    if (run.broken) throw new Error("This run is broken. Undo, and try a smaller rate.");
    let [spent, last] = [0, 0];
    while (state === "training") {
      const now = lr;
      if (now !== rates().at(-1)) {
        const { left } = await ask({ do: "mark" }); // where the rate changes, one may come back to
        run.marks = [...run.marks, { n: run.n, lr: now }].slice(-left);
      }
      const from = performance.now();
      const { steps, n, broken } = await ask({ do: "step", lr: now, seconds: PIECE });
      const took = (performance.now() - from) / 1000;
      [run.done, run.seconds, spent] = [run.done + n - run.n, run.seconds + took, spent + took];
      run.n = n;
      run.losses.push(...steps);
      run.broken = broken;
      if (broken) throw new Error(`After ${n} steps the loss is no number any more: the rate of ${now} is too large. Undo, and try a smaller one.`);
      live.textContent = `step ${n} · ${steps.at(-1)[1].toFixed(2)} bits per byte on the last batch · gradient ${steps.at(-1)[2].toFixed(2)} · ${speed()} characters a second`;
      if (spent > 6 * last) {
        last = await score();
        spent = 0;
      }
      show();
    }
    if (run.scores.at(-1)[0] !== run.n) await score();
    await sample(40);
    say(summary(run));
  } catch (error) {
    refuse(error);
  }
  state = "still";
  show();
}

function refuse({ message }) {
  say(message[0].toUpperCase() + message.slice(1));
}

function rateNow() {
  const given = Number(rate.value.replace(",", "."));
  if (!(given > 0 && given <= 100)) throw new Error(`The learning rate must be a number above 0 and up to 100, got ${JSON.stringify(rate.value)}.`);
  return given;
}

function pause() {
  state = "ending";
  say(`Pausing ${run?.letter ?? ""} …`);
  renew();
}

const speed = () => Math.round((run.done * run.settings.batch * run.settings.window) / run.seconds).toLocaleString("en");

/** Bits per byte on the held-out characters; gives the seconds that it took. */
async function score() {
  const from = performance.now();
  let scored = await ask({ do: "score", first: true });
  while (scored.bits === undefined) scored = await ask({ do: "score", first: false });
  run.scores.push([scored.n, scored.bits]);
  if (looking.open) await look();
  say(summary(run));
  show();
  return (performance.now() - from) / 1000;
}

async function sample(n) {
  written.textContent = `${run.letter} after ${run.n} steps writes:\n`;
  for (let first = true, more; !more?.done; first = false) {
    more = await ask({ do: "sample", first, n, seconds: PIECE });
    written.textContent += more.text;
  }
}

async function goBack() {
  await busy(async () => {
    const { n } = await ask({ do: "undo" });
    run.marks.pop();
    [run.n, run.broken] = [n, false];
    if (run.marks.length) rate.value = rates().at(-1);
    for (const points of [run.losses, run.scores]) points.splice(0, Infinity, ...points.filter(([at]) => at <= n));
    live.textContent = written.textContent = "";
    if (looking.open) await look();
    say(`${run.letter} is back at step ${n}${run.marks.length ? `, with the rate ${rate.value}` : ""}.`);
  });
}

/** Do something with the buttons asleep, and say what it is refused. */
async function busy(work) {
  for (const one of [go, undo, write]) one.disabled = true;
  try {
    await work();
  } catch (error) {
    refuse(error);
  }
  show();
}

function forget() {
  run = null;
  runs.length = 0;
  for (const shown of [picture, table, grams]) shown.replaceChildren();
}

// ---- what is seen ------------------------------------------------------------------------------

const bits = (n) => n.toFixed(2);
const title = ({ letter, settings: s }) => `${letter}: ${told.models[s.model].title}${s.model === "bigram" ? "" : `, width ${s.width}`}`;

/** Where a run stands, as a sentence. */
function summary(one) {
  const [n, now] = one.scores.at(-1);
  const beaten = text.nGrams.filter((gram) => gram.bits > now).at(-1);
  const than = beaten ? `better than the ${beaten.order}-gram's ${bits(beaten.bits)}` : `worse than the 1-gram's ${bits(text.nGrams[0].bits)}`;
  return `${title(one)}: ${bits(now)} bits per byte on held-out text after ${n} ${n === 1 ? "step" : "steps"}, ${than}.`;
}

function show() {
  renew();
  if (!runs.length) return;
  const lines = text.nGrams.map((gram) => ({ at: gram.bits, label: `${gram.order}-gram` }));
  const ladder = texts.value === told.ladder.text ? told.ladder.rows.map(([label, at]) => ({ at, label, faint: true })) : [];
  const drawn = runs.map((one) => {
    const each = one.settings.batch * one.settings.window;
    const points = (list) => list.map(([n, y]) => [n * each, y]);
    return { letter: one.letter, now: one === run, losses: points(one.losses), scores: points(one.scores) };
  });
  picture.replaceChildren(chart(drawn, [...lines, ...ladder], runs.map(summary).join(" "), picture.clientWidth));
  table.replaceChildren(listed());
}

/** A table of words. */
function grown(heads, rows) {
  const made = make("table");
  const head = made.createTHead().insertRow();
  for (const words of heads) head.append(make("th", "", words));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const words of row) line.insertCell().textContent = words;
  }
  return made;
}

function listed() {
  const rows = runs.map((one) => {
    const { batch, window, optimizer } = one.settings;
    const settings = `${batch} × ${window} characters, ${optimizer}, rate ${one.marks.map(({ lr }) => lr).join(", then ")}`;
    const flops = one.flops ? `${(one.flops / 1e6).toFixed(1)} million` : "none: it looks up";
    return [title(one), one.n, bits(one.scores.at(-1)[1]), one.parameters.toLocaleString("en"), flops, settings];
  });
  return grown(["Run", "Steps", "Bits per byte", "Learned numbers", "Operations a step", "Settings"], rows);
}

async function look() {
  if (!run) {
    inside.replaceChildren(make("p", "", "There is no model yet: train one, and pause at once to see a fresh one."));
    parts.parentNode.hidden = true;
    return;
  }
  const seen = await ask({ do: "look", line: line.value });
  const options = seen.seen.flatMap(({ name, values }) =>
    Array.isArray(values[0][0]) ? values.map((head, h) => [`${name}, head ${h}`, head]) : [[name, values]],
  );
  const before = Math.max(0, parts.selectedIndex);
  parts.replaceChildren(...options.map(([name]) => new Option(name)));
  parts.parentNode.hidden = !options.length;
  parts.selectedIndex = Math.min(before, options.length - 1);
  const guesses = seen.next.map(([character, p]) => `${JSON.stringify(character)} ${p.toFixed(2)}`).join(", ");
  inside.replaceChildren(make("p", "", `Next, after ${JSON.stringify(seen.line.at(-1))}: ${guesses}.`));
  if (!options.length) return;
  const [name, values] = options[parts.selectedIndex];
  const what = name.startsWith("layer") ? "A row reads, a column is read: the darker, the more." : "A column for each character, a row for each unit: the darker, the nearer to 1 (or to −1, in the other colour).";
  inside.append(grid(name, values, [...seen.line]), make("p", "u-note", what));
}

const lookAgain = () => state === "still" && looking.open && busy(look);
looking.addEventListener("toggle", lookAgain);
line.addEventListener("change", lookAgain);
parts.addEventListener("change", lookAgain);

/** A rate to begin with: for Adam the recorded one. */
function usualRate() {
  rate.value = { adam: told.models[models.value]?.lr, sgd: 1, momentum: 0.1 }[optimizer.value];
}

/** The model that a chapter's link names: workbench.html#lstm. */
function fromAddress() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (told.models[name] || name === COUNTED) {
    models.value = name;
    root.scrollIntoView(); // and not the lines below that have this name
  }
  usualRate();
  renew();
}

form.addEventListener("change", ({ target }) => {
  if (target !== rate && state === "training" && run) {
    pause();
    say(`${run.letter} stops here; Train begins a new run.`);
  }
  if (target === models || target === optimizer) usualRate();
  renew();
});
rate.addEventListener("change", () => {
  try {
    lr = rateNow();
    rate.ariaInvalid = "false";
  } catch (error) {
    rate.ariaInvalid = "true"; // a run goes on with the rate it has
    refuse(error);
  }
});
own.addEventListener("input", () => {
  say("");
  renew();
});
addEventListener("hashchange", fromAddress);
new ResizeObserver(() => requestAnimationFrame(show)).observe(root);
fromAddress();
say(`Train loads Python once, ${told.size}. All is computed in this page.`);
