// Fields for points and a comment below each answer. Enter saves and goes on to the next answer
// without points, Shift+Enter to the one before; in a comment Ctrl+Enter does. Esc leaves the field.
const about = JSON.parse(document.getElementById("about").textContent);
const articles = [...document.querySelectorAll("article")];
const count = document.createElement("p");
count.setAttribute("role", "status");
document.querySelector(".how").replaceWith(count);

const points = (article) => article.querySelector("input");
const told = () => {
  const read = articles.filter((article) => article.dataset.saved).length;
  count.textContent = `${read} of ${articles.length} have points. Enter: save and next. ` +
    "Shift+Enter: back. Tab: to the comment; there Ctrl+Enter saves.";
};

async function save(article) {
  const said = { student: article.dataset.student, task: about.task,
    points: points(article).value, comment: article.querySelector("textarea").value };
  const field = points(article), output = article.querySelector("output");
  const now = JSON.stringify(said);
  if (article.dataset.sent === now) return true;
  try {
    const answer = await fetch("points", { method: "POST", body: now,
      headers: { "Content-Type": "application/json" } });
    if (!answer.ok) throw new Error(await answer.text());
    const got = await answer.json();
    article.dataset.sent = now;
    article.dataset.saved = got.points === null ? "" : "yes";
    output.textContent = got.points === null ? "no points" : `saved: ${got.points} of ${about.most}`;
    field.setAttribute("aria-invalid", "false");
    told();
    return true;
  } catch (error) {
    output.textContent = `not saved: ${error.message}`;
    field.setAttribute("aria-invalid", "true");
    return false;
  }
}

function go(from, step) {
  let at = articles.indexOf(from) + step;
  while (step > 0 && at < articles.length && articles[at].dataset.saved) at += step;
  const next = articles[at];
  if (!next) return;
  next.scrollIntoView({ block: "start" });
  points(next).focus({ preventScroll: true });
  points(next).select();
}

for (const article of articles) {
  const [had, comment] = about.given[article.dataset.student] || ["", ""];
  const box = document.createElement("div");
  box.className = "given";
  box.innerHTML = "<label>Points <input inputmode='decimal' autocomplete='off'></label>" +
    "<label>Comment <textarea rows='2'></textarea></label><output></output>";
  article.append(box);
  points(article).value = had;
  points(article).setAttribute("aria-label", `Points of ${article.dataset.student}`);
  article.querySelector("textarea").value = comment;
  article.dataset.saved = had === "" ? "" : "yes";
  article.dataset.sent = JSON.stringify({ student: article.dataset.student, task: about.task,
    points: had, comment });
  box.addEventListener("change", () => save(article));
  box.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") event.target.blur();
    if (event.key !== "Enter") return;
    if (event.target.tagName === "TEXTAREA" && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (await save(article)) go(article, event.shiftKey ? -1 : 1);
  });
}
told();
go(undefined, 1);
