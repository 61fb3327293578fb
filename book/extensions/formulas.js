// In: formulas as JSON, [TeX, whether it stands on a line of its own]. Out: for each its HTML, or
// {wrong: why KaTeX does not understand it}.
const katex = require("../assets/katex/katex.min.js");

// A line may end between the pieces of a formula in it, if the formula has more signs than these.
const SHORT = 20;
const PIECE = /(?<=<\/span>)(?=<span class="katex-base">)/g;
const signs = made => made.split('aria-hidden="true">')[1].replace(/<[^>]*>/g, "").length;
// "Apply function" after an operator that is a whole subscript: one child too many for <msub>.
const APPLIED = /<mo>\u2061<\/mo>(?=<\/m(?:sub|sup|subsup|under|over|frac)>)/g;

const set = ([tex, displayMode]) => {
  try {
    const made = katex.renderToString(tex, { displayMode, strict: "ignore" }).replace(APPLIED, "");
    return displayMode || signs(made) <= SHORT ? made : made.replace(PIECE, "<wbr>");
  } catch (error) {
    return { wrong: error.message };
  }
};

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(given.map(set)));
