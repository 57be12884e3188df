// `node tools/assertions/main.ts [LIB...]`: functions and assertions of the protocol libs, or of those named, and how many assertions are missing.
import { resolve } from "node:path";
import { countInLib } from "./count.ts";
import { ASSERTIONS_PER_FUNCTION_MIN, PROTOCOL_LIBS } from "./protocol-libs.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const named = process.argv.slice(2);
console.log(`${"lib".padEnd(16)}functions  assertions  per function  missing`);
for (const lib of named.length === 0 ? PROTOCOL_LIBS : named) {
  const { functions, assertions } = countInLib(ROOT, lib);
  if (functions === 0) throw new Error(`no functions below libs/${lib}/src`);
  const missing = Math.max(0, Math.ceil(functions * ASSERTIONS_PER_FUNCTION_MIN) - assertions);
  const cells = [String(functions).padStart(9), String(assertions).padStart(10), (assertions / functions).toFixed(2).padStart(12)];
  console.log(`${lib.padEnd(16)}${cells.join("  ")}  ${String(missing).padStart(7)}`);
}
