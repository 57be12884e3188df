// Loaded before a test (`--import`): the production file that CONCORD_SEEDED_FAULT names is loaded with the fault in it, and a failed assertion is
// written to stderr, wherever its error goes.
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { AssertionFault } from "./faults/assertion-fault.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const { file, search, replace } = JSON.parse(process.env.CONCORD_SEEDED_FAULT!) as AssertionFault;
const urlOf = (path: string): string => pathToFileURL(resolve(ROOT, path)).href;

const edits = new Map([
  [urlOf(file), [search, replace]],
  [
    urlOf("libs/runtime/src/assert.ts"),
    ["  if (!condition) throw", "  if (!condition) process.stderr.write(`assertion failed: ${message}\\n`);\n  if (!condition) throw"],
  ],
] as const);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const edit = edits.get(url);
    if (edit === undefined) return loaded;
    const { source } = loaded;
    const text = typeof source === "string" ? source : new TextDecoder().decode(source ?? undefined);
    return { ...loaded, source: text.split(edit[0]!).join(edit[1]!) };
  },
});
