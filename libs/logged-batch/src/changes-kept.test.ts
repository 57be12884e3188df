// Logged batches of every kind of change, whatever happens around them: each replica has the whole batch with its one timestamp, or nothing.
import type { BatchRequest, BatchResult, Mutation, RowImage } from "@concord/ports";
import { encodeImage, imageOf, mergeImages } from "@concord/rows";
import { plusUs, TIMESTAMP_ZERO, toHex, type TimestampUs } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { PENDING_LIMITS } from "./batch-log.ts";
import { DECISION_DELAY_MS, IDEMPOTENCY_ENTRIES_MAX, PREPARED_BYTES_MAX, REMOVAL_DELAY_MS, RESOLVE_AFTER_MS } from "./limits.ts";
import { GRACE_MS, insert, inserts, MemoryRing, settle, WRITE_TIMEOUT_MS } from "./test/memory-ring.ts";

const HOUR_MS = 3_600_000;
const PARTITIONS = ["p1", "p2", "p3"] as const;
const { key: KEY } = insert("p1", "", TIMESTAMP_ZERO);
/** Row p1 with both columns. */
const old = (timestampUs: TimestampUs): Mutation => {
  const columns = ["v", "note"].map((column) => ({ column, value: { kind: "text", value: "old" } as const }));
  return { kind: "insert", key: KEY, columns, timestampUs };
};

/** Changes of row p1, which has the columns v and note before unless the change is an insert. */
const CHANGES: Readonly<Record<string, (timestampUs: TimestampUs) => readonly Mutation[]>> = {
  insert: (atUs) => [insert("p1", "v1", atUs)],
  update: (atUs) => [{ kind: "update", key: KEY, columns: [{ column: "v", value: { kind: "text", value: "v1" } }], timestampUs: atUs }],
  delete: (atUs) => [{ kind: "delete", key: KEY, timestampUs: atUs }],
  "delete and insert": (atUs) => [{ kind: "delete", key: KEY, timestampUs: plusUs(atUs, -1n) }, insert("p1", "v1", atUs)],
};

/** The batch: the change of p1, beside inserts of p2 and p3. */
const batchOf = (what: string, atUs: TimestampUs): Mutation[] => [...CHANGES[what]!(atUs), ...inserts(["p2", "p3"], "v1")(atUs)];

/** A ring of three with the row of before, and what each of its replicas has to have. */
class Trial {
  readonly ring: MemoryRing;
  readonly what: string;
  readonly request: BatchRequest;
  /** Mutations that count, whether answered or not. */
  readonly written: Mutation[];
  /** Timestamps with which the batch was executed. */
  readonly timestamps = new Set<TimestampUs>();

  private constructor(ring: MemoryRing, what: string, written: Mutation[]) {
    this.ring = ring;
    this.what = what;
    this.written = written;
    const mutationsAt = (atUs: TimestampUs): Mutation[] => {
      this.timestamps.add(atUs);
      return batchOf(what, atUs);
    };
    this.request = { id: ring.newId(), timestampUs: undefined, mutationsAt, unlogged: false };
  }

  static async open(what: string, preparedBytes = PREPARED_BYTES_MAX): Promise<Trial> {
    const ring = new MemoryRing(3);
    ring.pendingMax = { ...PENDING_LIMITS, preparedBytes };
    for (const node of ring.nodes) await ring.start(node);
    const written: Mutation[] = [];
    const mutationsAt = (atUs: TimestampUs): Mutation[] => {
      written.push(insert("p0", "old", atUs), ...(what === "insert" ? [] : [old(atUs)]));
      return written;
    };
    await ring.process(0).executor.execute({ id: ring.newId(), timestampUs: undefined, mutationsAt, unlogged: true });
    await ring.clock.advance(GRACE_MS);
    return new Trial(ring, what, written);
  }

  execute(at = 0, change: Partial<BatchRequest> = {}): Promise<BatchResult> {
    const result = this.ring.process(at).executor.execute({ ...this.request, ...change });
    result.catch(() => undefined);
    return result;
  }

  /** Executes a later batch of p2 and p9 at another node. */
  async newer(): Promise<void> {
    await this.ring.clock.advance(1);
    const mutationsAt = (atUs: TimestampUs): Mutation[] => {
      const newer = inserts(["p2", "p9"], "newer")(atUs);
      this.written.push(...newer);
      return newer;
    };
    const node = this.ring.process(2);
    await node.executor.execute({ id: this.ring.newId(), timestampUs: undefined, mutationsAt, unlogged: false });
    await this.ring.clock.advance(1);
  }

  dieAt(point: string, dies = 0): void {
    const { ring } = this;
    const node = ring.node(dies);
    ring.onFailpoint = (name, at) => {
      if (at !== point || name !== node.name) return;
      ring.crash(node);
      ring.onFailpoint = () => undefined;
    };
  }

  async heal(): Promise<void> {
    const { ring } = this;
    ring.links.clear();
    for (const node of ring.nodes) await ring.start(node);
    await ring.clock.advance(3 * GRACE_MS);
    for (const at of [1, 2, 0]) await ring.process(at).replay.runOnce();
    await ring.clock.advance(GRACE_MS);
    await ring.deliverHints();
  }

  /** Rows, with the batch at its one timestamp or without. */
  #expected(isThere: boolean): Map<string, RowImage> {
    assert.ok(this.timestamps.size <= 1, `one timestamp for all tries: ${[...this.timestamps].join()}`);
    const rows = new Map<string, RowImage>();
    const batch = isThere ? batchOf(this.what, [...this.timestamps][0]!) : [];
    for (const mutation of [...this.written, ...batch]) {
      const name = JSON.stringify(mutation.key);
      const before = rows.get(name);
      rows.set(name, before === undefined ? imageOf(mutation) : mergeImages(before, imageOf(mutation)));
    }
    return rows;
  }

  check(isThere: boolean, nodes: readonly number[] = [0, 1, 2]): void {
    const bytes = (rows: Iterable<RowImage>): string[] => [...rows].map((image) => toHex(encodeImage(image))).toSorted();
    const expected = bytes(this.#expected(isThere).values());
    for (const at of nodes) assert.deepEqual(bytes(this.ring.node(at).rows.values()), expected, `${this.what} at node ${at}`);
  }

  /** A row as a read of the node shows it, or "waits". */
  async read(at: number, partition: string): Promise<string> {
    return this.ring.readAs(at, partition, (image) => (image === undefined ? "none" : toHex(encodeImage(image))));
  }

  shown(partition: string): string {
    const { key } = insert(partition, "", TIMESTAMP_ZERO);
    return toHex(encodeImage(this.#expected(true).get(JSON.stringify(key))!));
  }

  isLogged(): boolean {
    return this.ring.nodes.some(({ process }) => process !== undefined && process.batchLog.size > 0);
  }
}

interface Case {
  readonly run: (trial: Trial) => Promise<void>;
  readonly isThere?: boolean;
  /** Limit of bytes kept ready, as in PendingLimits. */
  readonly preparedBytes?: number;
}

const crashAll = async ({ ring }: Trial): Promise<void> => {
  for (const node of ring.nodes) ring.crash(node);
  for (const node of ring.nodes) await ring.start(node);
};

const dies =
  (point: string, aheadMs: readonly number[] = [0, 0, 0]): Case["run"] =>
  async (trial) => {
    for (const [at, ms] of aheadMs.entries()) trial.ring.node(at).aheadMs = ms;
    trial.dieAt(point);
    void trial.execute();
    await trial.ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
    assert.equal(trial.ring.node(0).process, undefined, point);
  };

const CASES: Readonly<Record<string, Case>> = {
  "is acknowledged": { run: async (trial) => void (await trial.execute()) },
  "never reaches a log": { run: dies("batch:before-log"), isThere: false },
  "its coordinator dies when it is logged": { run: dies("batch:after-log") },
  "its coordinator dies when one replica has it": { run: dies("batch:after-first-replica") },
  "its coordinator dies before the holders forget it": { run: dies("batch:before-remove") },
  "its coordinator dies, and the verdict is heard": {
    run: async (trial) => {
      await dies("batch:after-log")(trial);
      for (const at of [1, 2]) {
        trial.ring.process(at).replay.start();
        trial.ring.process(at).replay.heard("node-0", "gone");
      }
      await trial.ring.clock.advance(1);
      trial.check(true, [1, 2]);
      await Promise.all([1, 2].map((at) => trial.ring.process(at).replay.stop()));
    },
  },
  "its coordinator's clock is an hour ahead, and it dies": { run: dies("batch:after-log", [HOUR_MS, 0, 0]) },
  "its coordinator's clock is an hour behind, and it dies": { run: dies("batch:after-log", [-HOUR_MS, 0, 0]) },
  "the holders' clocks are an hour ahead and behind, its coordinator dies": { run: dies("batch:after-log", [0, HOUR_MS, -HOUR_MS]) },
  "all nodes begin anew once it is acknowledged": {
    run: async (trial) => {
      await trial.execute();
      await crashAll(trial);
    },
  },
  "is acknowledged, and memory keeps no rows ready": { preparedBytes: 0, run: async (trial) => void (await trial.execute()) },
  "its coordinator dies, and memory keeps no rows ready": { preparedBytes: 0, run: dies("batch:after-log") },
  "its coordinator begins anew and completes it by itself": {
    run: async (trial) => {
      await dies("batch:after-log")(trial);
      await trial.ring.start(trial.ring.node(0));
      assert.equal((await trial.ring.process(0).replay.runOnce()).completed, 1);
      trial.check(true);
    },
  },
};

for (const what of Object.keys(CHANGES)) {
  for (const [name, { run, isThere = true, preparedBytes }] of Object.entries(CASES)) {
    test(`[LB1] [LB5] [LB8] [LB11] ${what} beside two inserts, the batch ${name}: every replica has all of it with one timestamp, or nothing; a later write stays`, async () => {
      for (const isOverwritten of [false, true]) {
        const trial = await Trial.open(what, preparedBytes);
        await run(trial);
        if (isOverwritten) await trial.newer();
        await trial.heal();
        trial.check(isThere);
        assert.equal(trial.isLogged(), false);
      }
    });
  }

  test(`[LB10] ${what}: executed by its coordinator and two holders at once, and again by each once it is done: as once`, async () => {
    const trial = await Trial.open(what);
    const { ring } = trial;
    const replays: Promise<unknown>[] = [];
    ring.onFailpoint = (_, name) => {
      if (name === "batch:after-log") replays.push(ring.process(1).replay.replayNow(), ring.process(2).replay.replayNow());
    };
    await trial.execute();
    await Promise.all(replays);
    await trial.newer();
    await trial.heal();
    trial.check(true);
    const [timestampUs] = trial.timestamps;
    // Its rows once more, behind the later write: at every node, with the same timestamp.
    for (const at of [0, 1, 2]) await trial.execute(at, { id: ring.newId(), timestampUs: timestampUs! });
    await crashAll(trial);
    await trial.heal();
    trial.check(true);
  });

  for (const point of ["batch:before-remove", "replay:before-remove"] as const) {
    test(`[LB9] [LBD1] ${what}: a replica is away, ${point}: a majority has all of it and the hint is on disk; it has the rows when it is back`, async () => {
      for (const aheadMs of [0, HOUR_MS, -HOUR_MS]) {
        const trial = await Trial.open(what);
        const { ring } = trial;
        for (const node of ring.nodes.slice(0, 2)) node.aheadMs = aheadMs;
        ring.crash(ring.node(2));
        let looks = 0;
        ring.onFailpoint = (node, name) => {
          if (name !== point) return;
          looks += 1;
          trial.check(true, [0, 1]);
          const self = ring.nodes.find((one) => one.name === node)!;
          assert.equal(self.process!.hints.backlog("node-2").hints, 1);
        };
        await afterLog(trial, point);
        assert.ok(looks > 0, point);
        await crashAll(trial);
        await trial.heal();
        trial.check(true);
      }
    });
  }

  test(`[LBD15] ${what}: acknowledged: the next read shows it whole at every node, also where no decision arrived, after a crash and with wrong clocks`, async () => {
    const situations: Readonly<Record<string, (trial: Trial) => Promise<readonly number[]>>> = {
      "all well": async (trial) => {
        await trial.execute();
        return [0, 1, 2];
      },
      "memory keeps no rows ready": async (trial) => {
        await trial.execute();
        return [0, 1, 2];
      },
      "no decision arrives": async (trial) => {
        const { links } = trial.ring;
        trial.ring.onFailpoint = (_, name) => {
          if (name === "batch:after-log") links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck").set("node-1>node-0", "stuck");
        };
        await trial.execute();
        return [1, 2];
      },
      "its coordinator dies": async (trial) => {
        trial.ring.links.set("node-0>node-2", "stuck");
        await trial.execute();
        trial.ring.crash(trial.ring.node(0));
        return [1];
      },
      "its coordinator dies, a holder begins anew": async (trial) => {
        trial.ring.links.set("node-0>node-2", "stuck");
        await trial.execute();
        trial.ring.crash(trial.ring.node(0));
        trial.ring.crash(trial.ring.node(1));
        await trial.ring.start(trial.ring.node(1));
        return [1];
      },
      "clocks are an hour ahead and behind": async (trial) => {
        trial.ring.node(0).aheadMs = HOUR_MS;
        trial.ring.node(1).aheadMs = -HOUR_MS;
        await trial.execute();
        return [0, 1, 2];
      },
    };
    for (const [situation, act] of Object.entries(situations)) {
      const trial = await Trial.open(what, situation === "memory keeps no rows ready" ? 0 : undefined);
      for (const at of await act(trial)) {
        for (const partition of PARTITIONS) {
          const first = await trial.read(at, partition);
          assert.ok([trial.shown(partition), "waits"].includes(first), `${situation}: ${partition} at node ${at}: ${first}`);
          await trial.ring.clock.advance(RESOLVE_AFTER_MS);
          assert.equal(await trial.read(at, partition), trial.shown(partition), `${situation}: ${partition} at node ${at}`);
        }
      }
    }
  });

  const copies: Readonly<
    Record<string, (trial: Trial, first: BatchResult) => Promise<readonly [at: number, change: Partial<BatchRequest>]>>
  > = {
    "at the same node": async () => [0, {}],
    "at another node, with its timestamp": async (_, { timestampUs }) => [1, { timestampUs }],
    "after its node began anew, with its timestamp": async (trial, { timestampUs }) => {
      await crashAll(trial);
      return [0, { timestampUs }];
    },
    "when its node has forgotten the id, with its timestamp": async (trial, { timestampUs }) => {
      const { executor } = trial.ring.process(0);
      for (let other = 0; other < IDEMPOTENCY_ENTRIES_MAX; other += 1) {
        const mutationsAt = inserts([`p${other % 7 === 0 ? "o" : "n"}`], "other");
        const request = { id: trial.ring.newId(), timestampUs, mutationsAt, unlogged: true };
        void executor.execute(request);
        if (other % 100 === 99) await settle();
      }
      await settle();
      trial.written.push(...inserts(["po", "pn"], "other")(timestampUs));
      return [0, { timestampUs }];
    },
    "when clocks have stepped an hour back": async (trial) => {
      for (const node of trial.ring.nodes) node.aheadMs = -HOUR_MS;
      return [0, {}];
    },
  };
  for (const [where, prepare] of Object.entries(copies)) {
    test(`[LBD8] ${what}: the call comes again ${where}: the first timestamp, the rows are as after once, and a later write stays`, async () => {
      const trial = await Trial.open(what);
      const first = await trial.execute();
      await trial.newer();
      const [at, change] = await prepare(trial, first);
      const second = await trial.execute(at, change);
      assert.equal(second.timestampUs, first.timestampUs);
      await trial.heal();
      trial.check(true);
    });
  }
}

/** The batch, to the point at which its coordinator or its replay would remove it. */
async function afterLog(trial: Trial, point: "batch:before-remove" | "replay:before-remove"): Promise<void> {
  const { ring } = trial;
  if (point === "batch:before-remove") {
    await trial.execute();
    await ring.clock.advance(3 * GRACE_MS);
    return;
  }
  const look = ring.onFailpoint;
  ring.onFailpoint = (node, name) => {
    if (name === "batch:after-log") ring.crash(ring.node(0));
    else look(node, name);
  };
  void trial.execute();
  await settle();
  await ring.start(ring.node(0));
  await ring.clock.advance(3 * GRACE_MS);
  await ring.process(1).replay.runOnce();
  await ring.clock.advance(WRITE_TIMEOUT_MS);
}
