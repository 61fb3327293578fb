// In: formulas as JSON, [TeX, whether it stands on a line of its own]. Out: for each its HTML, or
// {wrong: why KaTeX does not understand it}.
const katex = require("../assets/katex/katex.min.js");

// "Apply function" after an operator that is a whole subscript: one child too many for <msub>.
const APPLIED = /<mo>\u2061<\/mo>(?=<\/m(?:sub|sup|subsup|under|over|frac)>)/g;

const set = ([tex, displayMode]) => {
  try {
    const made = katex.renderToString(tex, { displayMode, strict: "ignore" });
    return made.replace(APPLIED, "");
  } catch (error) {
    return { wrong: error.message };
  }
};

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(given.map(set)));
