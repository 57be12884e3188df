// The words of docs/style.md, held: `node tools/words/main.ts [PATH...]` lists every use, in the whole repository or below the paths,
// and fails when there is one.
import { resolve } from "node:path";
import { textsBelow } from "./files.ts";
import { hitsIn } from "./hits.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EVERYTHING = [".", "apps", "libs", "protos", "testing", "tools"];

const given = process.argv.slice(2).map((path) => path.replace(/\/$/, ""));
const hits = [...textsBelow(ROOT, given.length === 0 ? EVERYTHING : given)].flatMap(([path, text]) => hitsIn(path, text));
for (const { path, line, found, instead } of hits) console.error(`${path}:${line} ${found} -> ${instead}`);
process.exitCode = hits.length === 0 ? 0 : 1;
