import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";

test("follow-parent: a process that the command forks waits for its work", async () => {
  const [followParent, program] = ["follow-parent.mjs", "test/forks-a-waiter.ts"].map((name) => join(import.meta.dirname, name));
  const args = ["--import", `file://${followParent}`, program!];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const [code] = (await once(child, "exit")) as [number | null];
  assert.equal(code, 3);
});
