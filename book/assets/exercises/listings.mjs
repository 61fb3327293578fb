// Listings of a chapter that a reader can change: the editor in place of the code, run after what
// the chapter defined before it. Loaded with the first click; what is written is kept by nobody.
import { makeEditor } from "./editor.mjs";
import { isRunning, make, makeRunner, toLoad } from "./runner.mjs";

// What the book asserts of its own numbers: not of the reader's. As in listings.py.
const ASSERTED = /^(assert|np\.testing\.).*\n?([ )\]].*\n?)*/gm;

/** The editor of a listing, which hides its code. name: "c14_attention/0"; title: "listing 1". */
export function opened(cell, name, title) {
  const code = cell.querySelector("div.cell_input");
  const stored = cell.querySelector("div.cell_output");
  const original = code.querySelector("pre").textContent.replace(ASSERTED, "").trimEnd();
  const editor = makeEditor(original, `Your version of ${title}`);
  const runner = makeRunner(editor, {
    title,
    labels: ["Run", "Reset"],
    kind: "run",
    doing: "Running",
    job: { listing: name },
    ended,
    renew,
  });
  const reset = runner.buttons[1];

  function ended({ state, text, output }) {
    runner.box.dataset.state = state === "failed" ? state : "";
    stored?.classList.add("u-replaced");
    runner.say(output?.trimEnd(), text, !output && !text && "It has run, and printed nothing.");
  }

  function renew() {
    reset.disabled = editor.text === original && !stored?.matches(".u-replaced");
    runner.note.textContent = toLoad() && `The first run loads ${toLoad()} once.`;
  }

  reset.onclick = () => {
    editor.replace(original);
    stored?.classList.remove("u-replaced");
    runner.box.dataset.state = "";
    if (!isRunning(runner)) runner.say("The chapter’s listing is back. Ctrl+Z brings yours again.");
    renew();
  };
  editor.onedit = renew;
  code.classList.add("u-replaced");
  renew();
  editor.area.setSelectionRange(0, 0); // so that a narrow screen shows where the lines begin
  queueMicrotask(() => editor.area.focus());
  return runner.box;
}
