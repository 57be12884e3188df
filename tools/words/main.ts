// The words of docs/style.md, held.
//   node tools/words/main.ts [PATH...]       lists every use, in the whole repository or below the paths
//   node tools/words/main.ts --check PATH    fails when a file has more uses than allowed.json lets it have
//   node tools/words/main.ts --update        writes today's counts to allowed.json, unless there are more than before
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { textsBelow } from "./files.ts";
import { hitsIn, type Hit } from "./hits.ts";
import { countsOf, hitsBeyond, totalOf, type Allowance } from "./ratchet.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const ALLOWANCE = join(import.meta.dirname, "allowed.json");
const EVERYTHING = [".", "apps", "libs", "protos", "testing", "tools"];

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { check: { type: "boolean", default: false }, update: { type: "boolean", default: false } },
});
const paths = positionals.length === 0 ? EVERYTHING : positionals.map((path) => path.replace(/\/$/, ""));
const hits = [...textsBelow(ROOT, paths)].flatMap(([path, text]) => hitsIn(path, text));
const allowance = JSON.parse(readFileSync(ALLOWANCE, "utf8")) as Allowance;

if (values.update) update();
else list(values.check ? hitsBeyond(hits, allowance) : hits);

function list(shown: readonly Hit[]): void {
  for (const { path, line, found, instead } of shown) console.log(`${path}:${line} ${found} -> ${instead}`);
  if (!values.check) console.log(`${shown.length} uses in ${Object.keys(countsOf(shown)).length} files`);
  if (values.check && shown.length > 0) process.exitCode = 1;
}

function update(): void {
  const [before, now] = [totalOf(allowance), hits.length];
  if (positionals.length > 0) throw new Error("--update takes no path: it counts the whole repository");
  if (now > before) throw new Error(`${now} uses, ${before} allowed: counts only fall`);
  writeFileSync(ALLOWANCE, `${JSON.stringify(countsOf(hits), undefined, 2)}\n`);
  console.log(`${now} uses, ${before} before`);
}
