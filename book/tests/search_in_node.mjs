// Answers queries as the page does: node search_in_node.mjs FOLDER < queries as JSON.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

globalThis.window = globalThis;
const start = performance.now();
for (const name of ["minisearch.js", "index.js", "engine.js"])
  runInThisContext(readFileSync(`${process.argv[2]}/${name}`, "utf8"), name);
await unrolledSearch("ready");
const built = performance.now() - start;
const queries = JSON.parse(readFileSync(0, "utf8"));
const answers = await Promise.all(queries.map((query) => unrolledSearch(query, 10)));
console.log(JSON.stringify({ built, answers: answers.map((found) => found.map(
  ({ url, title, kind, first, score }) => ({ url, title, kind, first, score }))) }));
