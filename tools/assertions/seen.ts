// `node tools/assertions/seen.ts [--share N] [LIB or message...]`: seeds each fault of `faults/`, or one of N, and runs the test in which its assertion is to fail.
// Exit code 1: one did not.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { AssertionFault } from "./faults/assertion-fault.ts";
import { ASSERTION_FAULTS } from "./faults/faults.ts";
import { shareOf } from "./share.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const SEED = join(import.meta.dirname, "seed.ts");
const WORKERS = 2;
/** A fault may leave a test waiting for ever. */
const TEST_TIMEOUT_MS = 60_000;

const { values, positionals: named } = parseArgs({ allowPositionals: true, options: { share: { type: "string", default: "1" } } });
const isNamed = ({ file, message }: AssertionFault): boolean =>
  named.length === 0 || named.some((name) => file.startsWith(`libs/${name}/`) || message.includes(name));
const commit = spawnSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).stdout;
const wanted = shareOf(ASSERTION_FAULTS.filter(isNamed), Number(values.share), commit);
const queue = [...wanted];
let seen = 0;
await Promise.all(Array.from({ length: WORKERS }, worker));
console.log(`of ${ASSERTION_FAULTS.length} seeded faults ${wanted.length} were run; those whose assertion failed passed`);
console.log(`${seen} passed, ${wanted.length - seen} failed`);
process.exitCode = wanted.length > 0 && seen === wanted.length ? 0 : 1;

async function worker(): Promise<void> {
  for (let fault = queue.shift(); fault !== undefined; fault = queue.shift()) {
    const fits = readFileSync(join(ROOT, fault.file), "utf8").split(fault.search).length === 2;
    const result = fits ? await run(fault) : "stale";
    if (result === "seen") seen += 1;
    console.log(`${result.padEnd(6)}  ${fault.file}: ${fault.message}`);
  }
}

function run(fault: AssertionFault): Promise<"seen" | "missed"> {
  const env = { ...process.env, CONCORD_SEEDED_FAULT: JSON.stringify(fault) };
  const child = spawn(process.execPath, ["--import", SEED, fault.test], {
    cwd: ROOT,
    env,
    timeout: TEST_TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  let output = "";
  return new Promise((done) => {
    const hear = (chunk: Buffer): void => {
      output += chunk.toString();
      const isSeen = output.split("\n").some((line) => line.startsWith("assertion failed: ") && line.endsWith(fault.message));
      if (!isSeen) return;
      child.kill("SIGKILL");
      done("seen");
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("close", () => done("missed"));
  });
}
