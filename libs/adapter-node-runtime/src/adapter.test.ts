import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { newTimeId, timeIdMs } from "@concord/runtime";
import { failpoint, nodeChecksum, nodeClock, nodeRandom, parseFailpoint } from "./index.ts";

test("clock: wall time in both units: the same moment", () => {
  const beforeMs = nodeClock.nowMs();
  const us = nodeClock.nowUs();
  const afterMs = nodeClock.nowMs();
  assert.ok(Number(us / 1000n) >= beforeMs - 2 && Number(us / 1000n) <= afterMs + 2);
});

test("clock: deferred work: after the turn and its promises; a cancelled timer: never", async () => {
  const order: string[] = [];
  const cancelled = nodeClock.setTimer(0, () => order.push("cancelled"));
  cancelled.cancel();
  await new Promise<void>((resolve) => {
    nodeClock.defer(() => {
      order.push("deferred");
      nodeClock.setTimer(5, () => {
        order.push("timer");
        resolve();
      });
    });
    void Promise.resolve().then(() => order.push("promise"));
    order.push("turn");
  });
  assert.deepEqual(order, ["turn", "promise", "deferred", "timer"]);
  cancelled.cancel();
});

test("random: draws below a limit: in range; bytes have their length", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2 ** 40 }), (limit) => {
      const drawn = nodeRandom.below(limit);
      return Number.isInteger(drawn) && drawn >= 0 && drawn < limit;
    }),
  );
  assert.throws(() => nodeRandom.below(0), RangeError);
  const float = nodeRandom.float();
  assert.ok(float >= 0 && float < 1);
  assert.equal(nodeRandom.bytes(16).length, 16);
  assert.ok(Math.abs(timeIdMs(newTimeId(nodeClock, nodeRandom)) - nodeClock.nowMs()) < 1000);
});

test("checksum: the standard check value: CRC-32", () => {
  assert.equal(nodeChecksum(new TextEncoder().encode("123456789")), 0xcbf43926);
});

test("failpoint: plans: name, hit and signal are read, nonsense is refused", () => {
  assert.equal(parseFailpoint(undefined), undefined);
  assert.deepEqual(parseFailpoint("batch:after-log"), { name: "batch:after-log", hit: 1, signal: "SIGKILL" });
  assert.deepEqual(parseFailpoint("batch:after-log:3"), { name: "batch:after-log", hit: 3, signal: "SIGKILL" });
  assert.deepEqual(parseFailpoint("append:2:pause"), { name: "append", hit: 2, signal: "SIGSTOP" });
  assert.throws(() => parseFailpoint("append:0"));
  assert.throws(() => parseFailpoint("7"));
});

test("failpoint: other names and other hits: nothing; the planned hit: one signal", () => {
  const sent: string[] = [];
  const point = failpoint(parseFailpoint("b:2"), (signal) => sent.push(signal));
  for (const name of ["a", "b", "a", "b", "b"]) point(name);
  assert.deepEqual(sent, ["SIGKILL"]);
});

test("failpoint: in a real process: killed at the second hit, nothing after it runs", async () => {
  const library = join(import.meta.dirname, "index.ts");
  const script = `
    const { nodeFailpoint } = await import(${JSON.stringify(library)});
    const point = nodeFailpoint(process.env);
    for (const n of [1, 2, 3]) { process.stdout.write(String(n)); point("here"); }`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { env: { ...process.env, CONCORD_KILL_POINT: "here:2" } });
  let output = "";
  child.stdout.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [, signal] = (await once(child, "close")) as [number | null, string | null];
  assert.equal(signal, "SIGKILL");
  assert.equal(output, "12");
});
