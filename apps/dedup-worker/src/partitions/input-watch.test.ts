// Log lines and metrics of an input that a producer's open transaction holds back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "@concord/port-contracts";
import type { InputEnds, MessageLog, TopicFault } from "@concord/ports";
import { silentLog } from "@concord/runtime";
import { GAUGE_INTERVAL_MS, INPUT_BLOCKED_WARNING_MS } from "../limits.ts";
import { Folder, ManualClock, WorkerFixture } from "../test/worker-fixture.ts";
import { InputWatch } from "./input-watch.ts";

class Watched {
  readonly clock = new ManualClock();
  readonly gauges = new Map<string, number>();
  readonly warnings: object[] = [];
  ends: InputEnds = { end: 10n, stableEnd: 10n };
  readonly watch = new InputWatch({
    messages: Object.assign(Object.create(new MemoryMessageLog(1)) as MessageLog, {
      inputEnds: async () => this.ends,
      openTransaction: async (_partition: number, stableEnd: bigint) => ({ offset: stableEnd, producerId: 77n }),
    }),
    clock: this.clock,
    log: { ...silentLog, warn: (_text: string, fields: object = {}) => void this.warnings.push(fields) },
    metrics: { count: () => undefined, observe: () => undefined, gauge: (name, value) => void this.gauges.set(name, value) },
  });

  async after(ms: number): Promise<readonly unknown[]> {
    await this.clock.advance(ms);
    await this.watch.measure(0);
    const { gauges } = this;
    return ["end", "stable_end", "blocked_seconds"].map((name) => gauges.get(`dedup_input_${name}`)).concat(this.warnings.length);
  }
}

test("input: a transaction without an end holds 200 messages back: both ends, seconds, one warning with offset and producer; 0 once it has ended", async () => {
  const watched = new Watched();
  assert.deepEqual(await watched.after(0), [10, 10, 0, 0]);
  watched.ends = { end: 211n, stableEnd: 10n };
  assert.deepEqual(await watched.after(5_000), [211, 10, 0, 0]);
  assert.deepEqual(await watched.after(INPUT_BLOCKED_WARNING_MS - 1), [211, 10, 59.999, 0]);
  assert.deepEqual(await watched.after(1), [211, 10, 60, 1]);
  assert.deepEqual(watched.warnings, [{ partition: 0, offset: "10", producerId: "77", waiting: "201" }]);
  assert.deepEqual(await watched.after(60_000), [211, 10, 120, 1]);
  watched.ends = { end: 212n, stableEnd: 212n };
  assert.deepEqual(await watched.after(1_000), [212, 212, 0, 1]);
});

test("input: one transaction after the other, each short: never blocked for long, no warning", async () => {
  const watched = new Watched();
  for (let at = 0n; at < 20n; at += 1n) {
    watched.ends = { end: at + 5n, stableEnd: at };
    assert.deepEqual(await watched.after(30_000), [Number(at) + 5, Number(at), 0, 0]);
  }
});

test("[DDD3] partitions: others change the topics while the worker runs: not ready, and the partitions that no worker reads are counted", async () => {
  const folder = new Folder();
  let fault: TopicFault | undefined;
  const messages: MessageLog = Object.defineProperty(folder.log, "topicFault", { get: () => fault });
  const fixture = new WorkerFixture({ host: { openMessages: async () => messages } }, folder);
  await fixture.start();
  assert.deepEqual([fixture.service.ready, fixture.gauges.get("dedup_partitions_unread")], [true, 0]);
  fault = { reason: "grown", unreadPartitions: 2 };
  await fixture.clock.advance(GAUGE_INTERVAL_MS);
  assert.deepEqual([fixture.service.ready, fixture.gauges.get("dedup_partitions_unread")], [false, 2]);
  assert.deepEqual(fixture.service.problems, ["grown"]);
  fault = undefined;
  await fixture.clock.advance(GAUGE_INTERVAL_MS);
  assert.deepEqual([fixture.service.ready, fixture.gauges.get("dedup_partitions_unread")], [true, 0]);
  await fixture.service.stop();
});
