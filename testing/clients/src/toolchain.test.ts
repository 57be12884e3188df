import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./toolchain.ts";

test("toolchain: a program that does not end: killed, with a message that names it", async () => {
  const running = run(process.execPath, ["-e", "setInterval(() => undefined, 1000)"], { timeoutMs: 1_000 });
  await assert.rejects(running, /setInterval.* did not end within 1 s and was killed/);
});

test("toolchain: a program that fails: rejects with its standard error", async () => {
  const script = 'process.stderr.write("why"); process.exit(3)';
  await assert.rejects(run(process.execPath, ["-e", script]), { code: 3, stderr: "why" });
});
