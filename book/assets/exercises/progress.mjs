// The page of the reader's progress: what is solved, and a file to take the answers along.
import { all, cards, erase, find, merge, pack, predictions, watch } from "./answers.mjs";

const { chapters } = JSON.parse(document.getElementById("u-live").textContent);
const SIGNS = { passed: ["✓", "solved"], failed: ["✗", "not right yet"], draft: ["…", "begun"], unwritten: ["…", "begun"] };
const root = document.getElementById("u-progress");
const place = root.dataset.root ?? "../";

function make(tag, text = "", given = {}) {
  return Object.assign(document.createElement(tag), { textContent: text }, given);
}

const total = make("p");
const bar = make("progress");
bar.setAttribute("aria-label", "Exercises solved");
const buttons = make("div", "", { className: "u-bar" });
const said = make("p", "", { className: "u-note" });
said.setAttribute("role", "status");
const list = make("div");
root.replaceChildren(total, bar, buttons, said, list);

function draw() {
  const answers = all();
  const guessed = predictions();
  const state = ({ name }) => find(answers, name)?.state ?? "";
  const names = chapters.flatMap((chapter) => chapter.exercises);
  const solved = names.filter((one) => state(one) === "passed").length;
  const asked = chapters.flatMap((chapter) => chapter.predictions);
  const hit = asked.filter((name) => guessed[name]?.right).length;
  const made = asked.filter((name) => guessed[name]).length;
  total.replaceChildren(
    make("strong", `${solved} of ${names.length} exercises solved`),
    `; ${made} of ${asked.length} predictions made, ${hit} of them right`,
  );
  Object.assign(bar, { max: names.length, value: solved });
  const said = (asked) => {
    const own = asked.map((name) => guessed[name]).filter(Boolean);
    return own.length ? `; ${own.length} predicted, ${own.filter((one) => one.right).length} right` : "";
  };
  list.replaceChildren(
    ...chapters.flatMap((chapter) => {
      const done = chapter.exercises.filter((one) => state(one) === "passed").length;
      const heading = make("h2", "", { className: "u-chapter" });
      heading.append(
        make("a", chapter.title, { href: `${place}${chapter.page}.html#exercises` }),
        make("span", ` ${done} of ${chapter.exercises.length}${said(chapter.predictions)}`, { className: "u-note" }),
      );
      const items = make("ol");
      for (const one of chapter.exercises) {
        const item = make("li");
        item.dataset.state = state(one);
        const [sign, word] = SIGNS[state(one)] ?? ["○", "not begun"];
        const mark = make("span", sign, { ariaHidden: "true" });
        const title = make("a", one.title, { href: `${place}${chapter.page}.html${one.anchor}` });
        item.append(mark, title, make("span", word, { className: "u-note" }));
        items.append(item);
      }
      return [heading, items];
    }),
  );
  erasing.disabled = !Object.keys(answers).length && !Object.keys(guessed).length && !cards().chapters.length;
  exporting.disabled = erasing.disabled;
}

const [exporting, importing, erasing] = ["Export", "Import …", "Erase …"].map((label) => {
  const button = make("button", label, { type: "button" });
  buttons.append(button);
  return button;
});
const chooser = make("input", "", { type: "file", accept: ".json,application/json", hidden: true });
buttons.append(chooser);

exporting.onclick = () => {
  const url = URL.createObjectURL(new Blob([pack(all(), { predictions: predictions(), cards: cards() })], { type: "application/json" }));
  make("a", "", { href: url, download: "unrolled-answers.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  said.textContent = "Exported as unrolled-answers.json.";
};
importing.onclick = () => chooser.click();
chooser.onchange = async () => {
  const [file] = chooser.files;
  chooser.value = "";
  if (!file) return;
  try {
    const { taken, there, kept } = merge(await file.text());
    said.textContent = `${taken} of ${there} entries taken; the others were here already, as new or newer.`;
    if (!kept) said.textContent += " But this browser does not keep them: its storage is full or closed.";
  } catch (error) {
    said.textContent = `Nothing was imported: ${error.message}.`;
  }
  draw();
};
erasing.onclick = () => {
  const n = [all(), predictions(), cards().cards].reduce((sum, one) => sum + Object.keys(one).length, 0);
  if (!confirm(`Erase ${n} ${n === 1 ? "answer" : "answers, predictions and cards"} from this browser? There is no way back but an export.`)) return;
  erase();
  said.textContent = "Erased.";
  draw();
};

watch(draw);
draw();
