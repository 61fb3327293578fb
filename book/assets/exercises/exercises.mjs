// Exercises that are solved in the page: an editor in place of the starter, and the book's own check.
//
// What an exercise is stands in the page already: the cell with the starter, the cell that checks
// it, and the folded solution. Python itself (`live/`, see there) comes with the first check.
import { all, find, put, watch } from "./answers.mjs";
import { makeEditor } from "./editor.mjs";
import { isRunning, make, makeRunner, toLoad } from "./runner.mjs";

const told = JSON.parse(document.getElementById("u-live").textContent);

if (window.Worker && window.DecompressionStream) {
  const cells = [...document.querySelectorAll("div.cell.tag_exercise")];
  const solved = cells.map(found).filter(Boolean).map(solve);
  watch(() => solved.forEach((one) => one.reread(true)));
  document.querySelectorAll("div.cell.tag_try").forEach(offer);
}

/** The button below the n-th listing that a reader can try. */
function offer(cell, n) {
  const bar = make("div", "u-bar u-try");
  const button = make("button", "", "Try it");
  button.type = "button";
  button.setAttribute("aria-label", `Try it: listing ${n + 1}`);
  button.onclick = async () => {
    const { opened } = await import("./listings.mjs");
    bar.replaceWith(opened(cell, `${told.chapter}/${n}`, `listing ${n + 1}`));
  };
  bar.append(button);
  cell.querySelector("div.cell_input").after(bar);
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

  const editor = makeEditor(original, `Your answer to exercise ${number}`);
  const runner = makeRunner(editor, {
    title: `exercise ${number}`,
    labels: ["Check", "Reset", "Show solution"],
    kind: "check",
    doing: "Checking",
    job: { exercise: name },
    ended,
    renew: rename,
  });
  const { box, said, note, say } = runner;
  const [, reset, show] = runner.buttons;
  show.hidden = !solution;
  starter.before(box);
  starter.classList.add("u-replaced");
  check.classList.add("u-replaced");

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
    if (isRunning(runner)) return; // its report follows
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
    else if (toLoad()) parts.push(`The first check loads ${toLoad()} once.`);
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

  function ended(report, current) {
    if (current) keep(report.state, report);
    mark(current ? report.state : ""); // else the report is on an older text
    say(report.text, report.output && make("p", "u-printed", "Your code printed:"),
      report.output && make("pre", "u-output", report.output));
  }

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
  return { reread };
}

/** A short number for a text (FNV-1a), to see whether it has changed. */
function mixed(text) {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193);
  return (hash >>> 0).toString(16);
}
