// A small editor for Python: a textarea, and behind it the same text in the page's colours.
//
// Tab and Shift+Tab indent, Enter keeps the indentation, Backspace takes it back; what is typed goes
// through the browser's own undo. Esc, then Tab leaves the editor.

const STEP = "    ";
// As Pygments names what it colours: comment, string, number, constant, keyword, name, operator.
const TOKEN = new RegExp(
  [
    /(?<c1>#.*)/,
    /(?<s2>[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /(?<mi>\b(?:0[xXbBoO][\da-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?j?)(?![\w]))/,
    /(?<kc>\b(?:None|True|False)\b)/,
    /(?<k>\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/,
    /(?<nf>(?<=\b(?:def|class)\s+)[^\W\d]\w*)/,
    /(?<nb>(?<!\.)\b(?:abs|all|any|bool|bytes|dict|enumerate|filter|float|int|isinstance|len|list|map|max|min|pow|print|range|reversed|round|set|sorted|str|sum|tuple|type|zip)\b)/,
    /(?<w>[^\W\d]\w*)/,
    /(?<o>[-+*\/%@&|^~<>=!.]+)/,
  ]
    .map((part) => part.source)
    .join("|"),
  "gu",
);

/** The editor as an element; `editor.text`, `editor.onedit`, `editor.oncheck`, which
 * Ctrl+Enter calls. label: its name. */
export function makeEditor(text, label) {
  const box = document.createElement("div");
  box.className = "u-editor highlight";
  const colours = document.createElement("div"); // no <pre>: the theme gives those a tab stop
  colours.className = "u-colours";
  colours.ariaHidden = "true";
  const area = document.createElement("textarea");
  Object.assign(area, { spellcheck: false, autocapitalize: "off", autocomplete: "off", wrap: "off" });
  area.setAttribute("autocorrect", "off");
  area.setAttribute("aria-label", label);
  box.append(colours, area);
  const editor = { box, area, onedit() {}, oncheck() {} };
  let leaving = false;

  const draw = () => {
    colours.replaceChildren(...coloured(area.value), "\n");
    box.style.setProperty("--lines", area.value.split("\n").length);
  };
  const scrolled = () => area.dispatchEvent(new Event("scroll")); // a11y.js shades its edge
  new ResizeObserver(scrolled).observe(area);
  area.addEventListener("input", () => {
    draw();
    scrolled();
    editor.onedit(area.value);
  });
  area.addEventListener("scroll", () => (colours.scrollLeft = area.scrollLeft));
  area.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      editor.oncheck();
    } else if (event.key === "Escape") leaving = true;
    else if (event.key === "Tab" && leaving) leaving = false;
    else if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing) {
      if (event.key !== "Shift") leaving = false;
      if (typed(area, event.key, event.shiftKey)) event.preventDefault();
    }
  });
  area.addEventListener("blur", () => (leaving = false));
  Object.defineProperty(editor, "text", {
    get: () => area.value,
    set: (value) => {
      area.value = value;
      draw();
    },
  });
  editor.replace = (value) => {
    area.focus();
    area.select();
    insert(area, value); // so that undo brings the old text back
  };
  editor.text = text;
  return editor;
}

/** What a key does beyond typing itself; whether it did. */
function typed(area, key, shift) {
  const { value, selectionStart: from, selectionEnd: to } = area;
  const line = value.lastIndexOf("\n", from - 1) + 1;
  const before = value.slice(line, from);
  if (key === "Tab" && (shift || value.slice(from, to).includes("\n"))) {
    const end = value.indexOf("\n", Math.max(to - 1, line));
    const lines = value.slice(line, end < 0 ? value.length : end);
    const moved = shift ? lines.replace(/^ {1,4}/gm, "") : lines.replace(/^(?=.)/gm, STEP);
    if (moved === lines) return true;
    area.setSelectionRange(line, line + lines.length);
    insert(area, moved);
    const first = moved.split("\n")[0].length - lines.split("\n")[0].length;
    area.setSelectionRange(Math.max(line, from + first), to + moved.length - lines.length);
    return true;
  }
  if (key === "Tab") {
    insert(area, " ".repeat(STEP.length - (before.length % STEP.length)));
    return true;
  }
  if (key === "Enter") {
    const indent = before.match(/^ */)[0];
    insert(area, `\n${indent}${/:\s*(#.*)?$/.test(before) ? STEP : ""}`);
    return true;
  }
  if (key === "Backspace" && from === to && /^ +$/.test(before)) {
    area.setSelectionRange(from - (((before.length - 1) % STEP.length) + 1), from);
    insert(area, "");
    return true;
  }
  return false;
}

/** Type the text over the selection, as the reader would: the one way that undo knows of. */
function insert(area, text) {
  const done = text
    ? document.execCommand("insertText", false, text)
    : document.execCommand("delete");
  if (done) return;
  area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input"));
}

/** The text as nodes, each token in a <span> of its class. */
function coloured(text) {
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (kind === "w") continue;
    nodes.push(text.slice(at, match.index));
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = match[0];
    nodes.push(span);
    at = match.index + match[0].length;
  }
  return [...nodes, text.slice(at)];
}
