// Topics that others change while the log is open.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TopicFault } from "@concord/ports";
import { silentLog, type Clock } from "@concord/runtime";
import type { KafkaContext } from "./context.ts";
import type { CommittedOffset, TopicPartition, TopicSize } from "./kafka-wire.ts";
import { RECORD_EVERY_MS, TOPICS_EVERY_MS } from "./limits.ts";
import { TopicWatch } from "./topic-watch.ts";

class Watched {
  readonly errors: string[] = [];
  readonly committed: (TopicPartition & CommittedOffset)[] = [];
  readonly closing = new AbortController();
  input: TopicSize | Error = { partitions: 2, replicas: 3, id: "aa" };
  readonly watch: TopicWatch;
  #nowMs = 0;
  #action: (() => void) | undefined;

  constructor() {
    const clock: Clock = {
      nowMs: () => this.#nowMs,
      nowUs: () => 0n,
      monotonicMs: () => this.#nowMs,
      setTimer: (delayMs, action) => {
        assert.equal(delayMs, TOPICS_EVERY_MS);
        this.#action = action;
        return { cancel: () => void (this.#action = undefined) };
      },
      defer: setImmediate,
    };
    const wire = {
      partitions: async (topic: string) => {
        if (topic !== "in") return { partitions: 2, replicas: 3, id: "bb" };
        if (this.input instanceof Error) throw this.input;
        return this.input;
      },
      commitOffset: async (_group: string, input: TopicPartition, committed: CommittedOffset) =>
        void this.committed.push({ ...input, ...committed }),
    };
    const topics = { input: "in", output: "out", "dead-letters": "dead" };
    const log = { ...silentLog, error: (text: string) => void this.errors.push(text) };
    this.watch = new TopicWatch({ wire, topics, pipeline: "p", partitions: 2, clock, log } as unknown as KafkaContext, this.closing.signal);
  }

  fault(): TopicFault | undefined {
    return this.watch.fault;
  }

  get isWaiting(): boolean {
    return this.#action !== undefined;
  }

  async look(afterMs: number = TOPICS_EVERY_MS): Promise<void> {
    this.#nowMs += afterMs;
    this.#action?.();
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
  }
}

test("[DDD3] topics: partitions are added while the log is open: a fault that counts those that are not read, in the log once", async () => {
  const watched = new Watched();
  await watched.look();
  assert.equal(watched.fault(), undefined);
  watched.input = { partitions: 4, replicas: 3, id: "aa" };
  await watched.look();
  await watched.look();
  assert.equal(watched.fault()?.unreadPartitions, 2);
  assert.match(watched.errors.join(), /^in has 4 partitions by now and had 2; no worker reads those from 2 on: begin a new pipeline[^,]*$/);
});

test("[DDD5] topics: one is made anew while the log is open: a fault; brokers that cannot be reached are none", async () => {
  const watched = new Watched();
  await watched.look();
  watched.input = new Error("no broker");
  await watched.look();
  assert.equal(watched.fault(), undefined);
  watched.input = { partitions: 2, replicas: 3, id: "cc" };
  await watched.look();
  assert.deepEqual([watched.fault()?.unreadPartitions, watched.errors.length], [0, 1]);
  assert.match(watched.errors[0]!, /in was deleted and made anew/);
});

test("[DDD3] topics: a partition without messages is open for long: its record is committed again, before a broker forgets it; not after its release", async () => {
  const watched = new Watched();
  watched.watch.opened(0);
  watched.watch.opened(1);
  watched.watch.released(1);
  await watched.look(RECORD_EVERY_MS);
  await watched.look();
  const metadata = "\npipeline partitions=2 input=aa output=bb";
  assert.deepEqual(watched.committed, [{ topic: "dead", partition: 0, offset: 0n, metadata }]);
  watched.closing.abort();
  assert.equal(watched.isWaiting, false);
});
