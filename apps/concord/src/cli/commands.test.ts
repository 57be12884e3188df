// Verbs as processes: signals, and a reader of their output that goes away.
import assert from "node:assert/strict";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { after, test } from "node:test";
import { connect } from "@concord/client";
import { startConcord } from "../index.ts";

const MAIN = join(import.meta.dirname, "../main.ts");
const concord = await startConcord();
const children: ReturnType<typeof spawn>[] = [];
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await concord.stop();
});

function run(...args: readonly string[]): ChildProcessByStdio<Writable, Readable, null> {
  const child = spawn(process.execPath, [MAIN, ...args, "--address", concord.address], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  // A process that has ended reads nothing more.
  child.stdin.on("error", () => undefined);
  return child;
}

async function ingest(id: string): Promise<void> {
  const db = await connect({ dedupWorker: concord.address });
  await db.messages.ingest([{ id, value: id }]);
  db.close();
}

/** Verbs that read standard input: arguments, and a line that is answered. */
const READERS: readonly (readonly [readonly string[], string])[] = [
  [["cql", "--file", "-"], "DESCRIBE TABLES;\n"],
  [["cql"], "DESCRIBE TABLES;\n"],
];

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  for (const [args, line] of READERS) {
    test(`concord ${args.join(" ")}: ends at the first ${signal} while standard input is open`, async () => {
      const child = run(...args);
      child.stdin.write(line);
      await once(child.stdout, "data");
      const exit = once(child, "exit");
      child.kill(signal);
      // Input goes on, and one that missed the signal ends with it.
      child.stdin.end(line);
      assert.deepEqual(await exit, [null, signal]);
    });
  }

  test(`concord messages tail: ${signal} is its end, with 0`, async () => {
    await ingest("before");
    const child = run("messages", "tail", "--from", "0");
    await once(child.stdout, "data");
    child.kill(signal);
    assert.deepEqual(await once(child, "exit"), [0, null]);
  });
}

test("concord messages tail: ends with 0 at the next message once the reader of its output has gone", async () => {
  await ingest("one");
  const child = run("messages", "tail", "--from", "0");
  await once(child.stdout, "data");
  child.stdout.destroy();
  const exit = once(child, "exit");
  await ingest("two");
  assert.deepEqual(await exit, [0, null]);
});
