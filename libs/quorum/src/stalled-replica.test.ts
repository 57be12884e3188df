// Reads of three replicas of which one stalls now and then, on time by hand: how long they take, and what they cost.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogPosition, RowKey } from "@concord/ports";
import { QuorumRowStore } from "./index.ts";
import { checksum, ManualClock, TestReplica, turn } from "./test/ring.ts";

const READS = 1_000;
const STALL_MS = 200;
const KEY: RowKey = { table: "notes", partition: [{ kind: "text", value: "p" }], clustering: [] };

/** Answers reads after 1 to 4 ms; `stalls` of its requests, drawn from the seed, take STALL_MS more. */
class SlowReplica extends TestReplica {
  readonly #clock: ManualClock;
  readonly #stalls: number;
  #seed: number;

  constructor(name: string, clock: ManualClock, seed: number, stalls: number) {
    super(name);
    this.#clock = clock;
    this.#seed = seed;
    this.#stalls = stalls;
  }

  override async readRows(keys: readonly Uint8Array[], timeoutMs: number, after: readonly LogPosition[]): Promise<readonly Uint8Array[]> {
    const delayMs = 1 + Math.floor(this.#draw() * 4) + (this.#draw() < this.#stalls ? STALL_MS : 0);
    await new Promise<void>((resolve) => this.#clock.setTimer(delayMs, resolve));
    return super.readRows(keys, timeoutMs, after);
  }

  #draw(): number {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return (this.#seed >>> 8) / 2 ** 24;
  }
}

async function readMany(stalls: readonly number[]): Promise<{ readonly p99Ms: number; readonly requests: number }> {
  const clock = new ManualClock();
  const replicas = stalls.map((share, at) => new SlowReplica(`r${at}`, clock, 7 * at + 1, share));
  const rows = new QuorumRowStore({ replicas, clock, checksum });
  const latencies: number[] = [];
  for (let read = 0; read < READS; read += 1) {
    const beganMs = clock.ms;
    let isDone = false;
    void rows.read([KEY], { timeoutMs: 1_000 }).then(() => (isDone = true));
    for (await turn(); !isDone;) await clock.pass(1);
    latencies.push(clock.ms - beganMs);
  }
  await clock.pass(STALL_MS + 10);
  latencies.sort((left, right) => left - right);
  const requests = replicas.reduce((sum, { calls }) => sum + calls.filter((call) => call.startsWith("read")).length, 0);
  return { p99Ms: latencies[Math.floor(READS * 0.99)]!, requests };
}

test("[TX12] read: one replica stalls for 200 ms in 5 % of its requests: p99 stays within twice the healthy one, for not one request more", async () => {
  const healthy = await readMany([0, 0, 0]);
  const stalled = await readMany([0, 0, 0.05]);
  assert.ok(stalled.p99Ms <= 2 * healthy.p99Ms, `${stalled.p99Ms} ms, healthy ${healthy.p99Ms} ms`);
  assert.equal(stalled.requests, healthy.requests);
  assert.equal(healthy.requests, 3 * READS);
});
