// New ids, copies, ids that leave the window and are sent again, whatever happens in between: each id once downstream within the window, nothing lost.
import { MemoryMessageLog } from "@concord/port-contracts";
import type { NewMessage } from "@concord/ports";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionWorker, WorkerOptions } from "./api.ts";
import { FastClock, fixture, Life, message, outputValues, processed, until } from "./test/fixture.ts";
import { MemoryWindowStores } from "./test/memory-window-stores.ts";

const DAY_MS = 24 * 3_600_000;
/** More ids than the window has, at 16 a segment. */
const OTHERS = 200;
const WINDOW = { idsPerSegment: 16, segmentsMax: 3, windowMs: 0 };

/** A pipeline's partition, and the worker that has it. */
class Pipeline {
  readonly log = new MemoryMessageLog(1);
  readonly clock = new FastClock();
  stores = new MemoryWindowStores();
  worker!: PartitionWorker;
  window: WorkerOptions["window"] = WINDOW;
  /** Workers that live on beside the present one. */
  readonly zombies: PartitionWorker[] = [];
  /** Wall clock ahead of the monotonic one. */
  aheadMs = 0;
  #sent = 0;
  #other = 0;

  constructor() {
    this.clock.nowMs = () => this.clock.now + this.aheadMs;
  }

  async open(life = new Life()): Promise<void> {
    const { log, clock, stores, window } = this;
    this.worker = fixture({ log, clock, stores, life, worker: { window } }).worker;
    await Promise.race([this.worker.start(), life.died]);
  }

  /** Each with a content of its own; returns what became of them. */
  async send(...ids: string[]): Promise<string[]> {
    const { from } = await this.append(ids);
    const results = await Promise.all(ids.map((_, at) => this.worker.whenProcessed(from + BigInt(at))));
    return results.map(({ kind }) => kind);
  }

  append(ids: readonly string[]): Promise<{ readonly from: bigint }> {
    const messages = ids.map((id): NewMessage => message(id, `${id} ${(this.#sent += 1)}`));
    return this.log.append(0, messages);
  }

  async others(count: number): Promise<void> {
    for (let at = 0; at < count; at += 4) await this.send(...[0, 1, 2, 3].map(() => `other ${(this.#other += 1)}`));
  }

  /** Contents that came out, without those of others. */
  async output(): Promise<string[]> {
    return (await outputValues(this.log)).filter((value) => !value.startsWith("other"));
  }

  async stop(): Promise<void> {
    for (const worker of [...this.zombies, this.worker]) await worker.stop();
  }
}

type Event = (pipeline: Pipeline) => Promise<void>;

const restart: Event = async (pipeline) => {
  await pipeline.worker.stop();
  await pipeline.open();
};

const stepped =
  (ms: number): Event =>
  async (pipeline) => {
    pipeline.aheadMs += ms;
  };

const EVENTS: Readonly<Record<string, Event>> = {
  "nothing else": async () => undefined,
  "another worker takes over without a window, the old one lives on": async (pipeline) => {
    pipeline.zombies.push(pipeline.worker);
    pipeline.stores = new MemoryWindowStores();
    await pipeline.open();
  },
  "its worker begins anew": restart,
  "its worker begins anew, the window is lost": async (pipeline) => {
    await pipeline.worker.stop();
    pipeline.stores = new MemoryWindowStores();
    await pipeline.open();
  },
  "its ids go from memory to a segment on disk": (pipeline) => pipeline.others(24),
  "the clock steps an hour back": stepped(-3_600_000),
  "the clock steps 400 days on": stepped(400 * DAY_MS),
  "the clock steps an hour back, its worker begins anew": async (pipeline) => {
    pipeline.aheadMs -= 3_600_000;
    await restart(pipeline);
  },
};

for (const [event, happen] of Object.entries(EVENTS)) {
  for (const windowMs of [0, DAY_MS]) {
    test(`[DD1] [DD9] new ids, then copies of other content, ${event}: each comes out once, with its first content (time bound ${windowMs} ms)`, async () => {
      const pipeline = new Pipeline();
      pipeline.window = { ...WINDOW, windowMs };
      await pipeline.open();
      assert.deepEqual(await pipeline.send("a", "b", "a"), ["accepted", "accepted", "duplicate"]);
      await happen(pipeline);
      assert.deepEqual(await pipeline.send("b", "c", "a", "c"), ["duplicate", "accepted", "duplicate", "duplicate"]);
      // Messages are numbered as they are sent, those of the event too.
      const [a, b, c, ...more] = await pipeline.output();
      assert.deepEqual([a, b, c?.split(" ")[0], more], ["a 1", "b 2", "c", []]);
      await pipeline.stop();
    });
  }

  test(`[DD1] [DD7] [DD9] an id leaves the window and is sent again, then ${event}, and copies of it: it comes out once more`, async () => {
    const pipeline = new Pipeline();
    await pipeline.open();
    await pipeline.send("a");
    await pipeline.others(OTHERS);
    assert.deepEqual(await pipeline.worker.seen([new TextEncoder().encode("a")]), [false], "it left the window");
    assert.deepEqual(await pipeline.send("a"), ["accepted"]);
    await happen(pipeline);
    assert.deepEqual(await pipeline.send("a", "a"), ["duplicate", "duplicate"]);
    assert.equal((await pipeline.output()).length, 2);
    await pipeline.stop();
  });
}

for (const [what, before, ids, expected] of [
  ["new ids", [], ["a", "b", "c"], ["a", "b", "c"]],
  ["copies beside a new id", ["a", "b"], ["a", "c", "b", "a"], ["a", "b", "c"]],
  ["an id that left the window, twice", ["a", "others"], ["a", "b", "a"], ["a", "a", "b"]],
] as const) {
  test(`[DD1] [DD10] [DDD1] ${what}: the worker dies at each point of their way, its window kept, cut or lost: none lost, none twice`, async () => {
    for (const left of ["process", "power", "nothing"] as const) {
      let isOver = false;
      for (let point = 1; !isOver; point += 1) {
        assert.ok(point < 100, "there are few points");
        const pipeline = new Pipeline();
        await pipeline.open();
        for (const id of before) await (id === "others" ? pipeline.others(OTHERS) : pipeline.send(id));
        await pipeline.worker.stop();
        const life = new Life(point);
        await pipeline.open(life);
        await pipeline.append(ids);
        const isDone = async (): Promise<boolean> =>
          pipeline.worker.state.kind === "running" && (await pipeline.worker.statistics()).lag === 0n;
        await until(async () => life.isDead || isDone(), `dead or done, point ${point}`);
        isOver = !life.isDead;
        if (isOver) await pipeline.worker.stop();
        pipeline.stores = left === "nothing" ? new MemoryWindowStores() : pipeline.stores.restart(left);
        await pipeline.open();
        await processed(pipeline);
        const out = (await pipeline.output()).map((value) => value.split(" ")[0]);
        assert.deepEqual(out, expected, `cut or lost: ${left}, point ${point}`);
        await pipeline.worker.stop();
      }
    }
  });
}
