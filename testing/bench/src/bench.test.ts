import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";

// `npm run` starts every program with a channel to it; a load that took that for its own ended each benchmark.
test("bench --help, started with a channel as npm run does: prints every benchmark and exits with 0", async (t) => {
  const child = fork(join(import.meta.dirname, "bench.ts"), ["--help"], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  t.after(() => child.kill("SIGKILL"));
  let printed = "";
  child.stdout!.on("data", (bytes) => (printed += String(bytes)));
  const [code] = (await once(child, "close")) as [number | null];
  assert.equal(code, 0);
  for (const name of ["txn", "batch", "s3", "ingest", "failover", "overload"]) assert.match(printed, new RegExp(`^  ${name} `, "m"));
});
