// The real program: its own process, ports of loopback.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { StartingProgram } from "@concord/adapter-node-runtime/testing";

test("[OPS1] process: SIGTERM while storage-proxies take connections and do not answer: ends with 0", async (t) => {
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const proxies = [{ name: "proxy", address: `127.0.0.1:${port}`, datacenter: "local" }];
  // With the shortest grace the process ends by force 5 s after SIGTERM, unless its stop ended.
  const args = ["--storage-proxies", JSON.stringify(proxies), "--drain-grace-ms", "0", "--listen-address", "127.0.0.1:0"];
  const main = join(import.meta.dirname, "main.ts");
  const child = spawn(process.execPath, [main, ...args, "--admin-address", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => {
    child.kill("SIGKILL");
    silent.close();
  });
  const program = new StartingProgram(child);
  await program.named("takeover step failed, repeating");
  child.kill("SIGTERM");
  assert.deepEqual(await program.exited, [0, null]);
});
