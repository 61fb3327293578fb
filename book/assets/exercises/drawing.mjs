// What the workbench draws: curves of runs, and the numbers inside a model.
const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [330, 30, 116, 12, 36];

function add(parent, tag, attributes, words = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = words;
  parent.append(element);
  return element;
}

/** Bits over characters read: of each run its batches' losses, faint, and its held-out scores; and
 * levels as dashed lines, {at, label, faint}. WIDTH: in pixels. */
export function chart(runs, levels, told, WIDTH) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", told);
  const most = Math.max(1000, ...runs.flatMap((run) => [...run.losses, ...run.scores].map(([x]) => x)));
  const heights = [...levels.map(({ at }) => at), ...runs.flatMap((run) => run.scores.map(([, y]) => y))];
  const [low, high] = [Math.floor(Math.min(...heights) * 2 - 0.2) / 2, Math.min(8, Math.ceil(Math.max(...heights) * 2 + 0.2) / 2)];
  const x = (n) => LEFT + (n / most) * (WIDTH - LEFT - RIGHT);
  const y = (bits) => TOP + ((high - Math.min(bits, high)) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  for (let tick = Math.ceil(low); tick <= high; tick++) {
    add(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), class: "grid" });
    add(svg, "text", { x: LEFT - 6, y: y(tick) + 4, class: "end" }, tick);
  }
  const step = [1, 2, 5].flatMap((n) => [3, 4, 5, 6, 7].map((power) => n * 10 ** power)).sort((a, b) => a - b).find((size) => most / size <= 5);
  for (let tick = 0; tick <= most; tick += step) {
    add(svg, "text", { x: x(tick), y: HEIGHT - 18, class: "middle" }, tick >= 1000 ? `${tick / 1000}k` : tick);
  }
  add(svg, "text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, class: "middle" }, "characters read");
  let taken = -Infinity;
  for (const { at, label, faint } of [...levels].sort((a, b) => b.at - a.at)) {
    add(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at), class: faint ? "level faint" : "level" });
    taken = Math.max(taken + 13, y(at) + 4);
    add(svg, "text", { x: WIDTH - RIGHT + 6, y: taken, class: faint ? "faint" : "" }, `${label} ${at.toFixed(2)}`);
  }
  const path = (points) => points.map(([n, bits], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(bits).toFixed(1)}`).join("");
  for (const { letter, now, losses, scores } of runs) {
    const kept = losses.filter((_, i) => i % Math.ceil(losses.length / 400) === 0);
    if (now && kept.length) add(svg, "path", { d: path(kept), class: "losses" });
    add(svg, "path", { d: path(scores), class: now ? "scores now" : "scores" });
    for (const [n, bits] of scores) if (bits > high) add(svg, "text", { x: x(n), y: TOP, class: "middle" }, "▲");
    for (const [n, bits] of scores) add(svg, "circle", { cx: x(n), cy: y(bits), r: now ? 3 : 2, class: now ? "now" : "" });
    const [n, bits] = scores.at(-1) ?? [0, high];
    if (n) add(svg, "text", { x: x(n), y: y(bits) - 8, class: "letter end" }, letter);
  }
  return svg;
}

/** A matrix as squares, the darker the larger: rows are what reads, or the units of a state. */
export function grid(name, values, characters) {
  const attention = name.startsWith("layer");
  const rows = attention ? values : values[0].map((_, unit) => values.map((column) => column[unit]));
  const [n, size] = [characters.length, 14];
  const [left, high] = [attention ? 18 : 4, attention ? size : Math.max(3, Math.min(size, 320 / rows.length))];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${left + n * size + 4} ${22 + rows.length * high}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("class", "u-bench-grid");
  svg.setAttribute("style", `max-width: ${1.4 * (left + n * size)}px`);
  const strongest = attention ? rows.at(-1).indexOf(Math.max(...rows.at(-1))) : 0;
  const mean = rows.flat().reduce((sum, v) => sum + v, 0) / (rows.length * n);
  svg.setAttribute("aria-label", attention
    ? `${name}: a row for each character that reads, a column for each that is read. The last row reads most, ${rows.at(-1)[strongest].toFixed(2)}, from ${JSON.stringify(characters[strongest])}, character ${strongest + 1}.`
    : `${name}: a column for each character, a row for each of ${rows.length} units; mean ${mean.toFixed(2)}.`);
  characters.forEach((character, i) => {
    add(svg, "text", { x: left + (i + 0.5) * size, y: 14, class: "middle" }, shown(character));
    if (attention) add(svg, "text", { x: left - 4, y: 22 + (i + 0.75) * high, class: "end" }, shown(character));
  });
  rows.forEach((row, r) => row.forEach((value, c) => {
    if (Math.abs(value) < 0.01) return;
    const place = { x: left + c * size, y: 20 + r * high, width: size - 1, height: high - (high > 6 ? 1 : 0) };
    add(svg, "rect", { ...place, "fill-opacity": Math.min(1, Math.abs(value)), class: value < 0 ? "below" : "" });
  }));
  return svg;
}

const shown = (character) => ({ "\n": "↵", " ": "␣" })[character] ?? character;
