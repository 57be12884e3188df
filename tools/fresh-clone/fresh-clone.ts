// What a newcomer does: clone, `npm ci`, then the commands of the README. Commands given as arguments ran elsewhere already and are
// left out. `npm start` is stopped with Ctrl-C as soon as a line of its output begins with `ready`.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readmeCommands } from "./readme-commands.ts";

const ORIGIN = join(import.meta.dirname, "../..");
const COMMAND_LIMIT_MS = 600_000;
const READY_LIMIT_MS = 120_000;
const DRAIN_LIMIT_MS = 60_000;
const INSTALL = "npm ci";
/** The shell's exit code of a program that Ctrl-C ended; npm may answer with it though everything drained. */
const INTERRUPTED = 130;

interface Outcome {
  readonly isGood: boolean;
  readonly note: string;
}

/** Nothing of the npm that runs us: a newcomer's shell has none of it. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_|NX_|INIT_CWD)/i.test(name)));

function runToEnd(command: string, cwd: string): Outcome {
  const result = spawnSync("bash", ["-c", command], {
    cwd,
    env: environment,
    stdio: ["ignore", "inherit", "inherit"],
    timeout: COMMAND_LIMIT_MS,
  });
  return { isGood: result.status === 0, note: result.status === null ? "took too long" : `exit code ${result.status}` };
}

/** Starts the command, waits until it says it is ready, interrupts it as a terminal would, and waits for its end. */
async function runUntilReady(command: string, cwd: string): Promise<Outcome> {
  const begin = performance.now();
  const child = spawn("bash", ["-c", `exec ${command}`], { cwd, env: environment, stdio: ["ignore", "pipe", "inherit"], detached: true });
  const exited = new Promise<number>((resolve) => child.on("exit", (code, signal) => resolve(signal === null ? (code ?? 1) : INTERRUPTED)));
  const ready = new Promise<"ready">((resolve) => {
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      process.stdout.write(chunk);
      output += chunk.toString();
      if (/^ready/m.test(output)) resolve("ready");
    });
  });
  const first = await Promise.race([ready, exited, limit(READY_LIMIT_MS)]);
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  if (typeof first === "number") return { isGood: false, note: `ended before it was ready, exit code ${first}` };
  process.kill(-child.pid!, "SIGINT");
  const code = await Promise.race([exited, limit(DRAIN_LIMIT_MS)]);
  if (code === "limit") process.kill(-child.pid!, "SIGKILL");
  if (first === "limit") return { isGood: false, note: `not ready within ${READY_LIMIT_MS / 1000} s` };
  return { isGood: code === 0 || code === INTERRUPTED, note: `ready after ${seconds} s; after Ctrl-C: ${code}` };
}

function limit(ms: number): Promise<"limit"> {
  return new Promise((resolve) => setTimeout(() => resolve("limit"), ms).unref());
}

async function main(): Promise<number> {
  const elsewhere = new Set(process.argv.slice(2));
  const clone = mkdtempSync(join(tmpdir(), "concord-fresh-clone-"));
  const counts = { passed: 0, failed: 0 };
  try {
    const cloned = runToEnd(`git clone --quiet "${ORIGIN}" .`, clone);
    if (!cloned.isGood) throw new Error("git clone failed");
    const commands = readmeCommands(readFileSync(join(clone, "README.md"), "utf8"));
    for (const command of [INSTALL, ...commands.filter((candidate) => candidate !== INSTALL)]) {
      if (elsewhere.has(command)) {
        console.log(`fresh clone: ${command}: ran elsewhere`);
        continue;
      }
      const begin = performance.now();
      const outcome = command.startsWith("npm start") ? await runUntilReady(command, clone) : runToEnd(command, clone);
      counts[outcome.isGood ? "passed" : "failed"] += 1;
      console.log(
        `fresh clone: ${command}: ${outcome.isGood ? "ok" : "FAILED"} in ${((performance.now() - begin) / 1000).toFixed(1)} s (${outcome.note})`,
      );
    }
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  return counts.failed === 0 ? 0 : 1;
}

process.exitCode = await main();
