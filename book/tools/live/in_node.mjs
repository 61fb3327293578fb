// Runs a program, and then checks answers, in Python as the page has it: node in_node.mjs BUNDLE
// Without answers there is the interpreter alone, which is how the bundle is made.
//
// Standard input: {program, answers: [{exercise, source, seed} or {listing, source}, …]}. The program's last line is an
// expression, a text. Standard output: {said: that text, reports, seconds to start, memory}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { process } = globalThis; // which a start takes away
process.on("uncaughtException", (error) => {
  console.error(String(error?.message ?? error)); // not the line of a million characters
  process.exit(1);
});

const base = pathToFileURL(process.argv[2] + "/");
const { program, answers } = JSON.parse(readFileSync(0, "utf8"));
const { boot, start } = await import(new URL("live.mjs", base));
const now = () => performance.now() / 1000;
const begin = now();
const python = await (answers ? start : boot)({ base });
const seconds = now() - begin;
const said = program ? python.evaluate(program) : "";
const reports = [];
for (const { exercise, listing, source, seed } of answers ?? []) {
  const from = now();
  const report = await (listing ? python.tryOut(listing, source) : python.run(exercise, source, seed));
  reports.push({ ...report, exercise, listing, seconds: now() - from });
}
console.log(JSON.stringify({ said, reports, seconds, memory: process.memoryUsage().rss }));
