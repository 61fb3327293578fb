// In: formulas as JSON, [TeX, whether it stands on a line of its own]. Out: for each its HTML, or
// {wrong: why KaTeX does not understand it}.
const katex = require("../assets/katex/katex.min.js");

const set = ([tex, displayMode]) => {
  try {
    return katex.renderToString(tex, { displayMode, strict: "ignore" });
  } catch (error) {
    return { wrong: error.message };
  }
};

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(given.map(set)));
