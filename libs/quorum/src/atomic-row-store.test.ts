// Reads of one state of a group over replicas that are behind, slow, gone, or change while they are read.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogEntry, RowKey } from "@concord/ports";
import { encodeRowKey, encodeRowsPart, imageOf, joinRows, liveRow } from "@concord/rows";
import { ConcordError, epochOf, seqOf, silentLog, timestampUsOf, type Seq } from "@concord/runtime";
import { MemoryKeyValue } from "@concord/port-contracts";
import { AtomicRowStore, Forgotten, LocalRowReplica, rowsOfEntry, type GroupRead, type GroupReplica, type GroupRows } from "./index.ts";
import { ATOMIC_HEDGE_MS, ATOMIC_RANGE_TRIES_MAX, ATOMIC_READ_BYTES_MAX, ATOMIC_READ_KEYS_MAX } from "./limits.ts";
import { checksum, ManualClock, PlainRunner, turn } from "./test/ring.ts";

const GROUP = "g1";
const OPTIONS = { timeoutMs: 1000 };
const keyOf = (at: number): RowKey => ({
  table: "albums",
  partition: [{ kind: "bigint", value: 1n }],
  clustering: [{ kind: "bigint", value: BigInt(at) }],
});
const RANGE = { table: "albums", partition: keyOf(1).partition, reverse: false, limit: 10 };

/** Of an entry that gives each of these rows its seq as value, or deletes it. */
function entryOf(seq: number, rows: readonly number[], deleted: readonly number[] = [], text = ""): LogEntry {
  const timestampUs = timestampUsOf(BigInt(seq));
  const columns = [{ column: "v", value: { kind: "text", value: `${seq}${text}` } as const }];
  const images = [
    ...rows.map((at) => imageOf({ kind: "insert", key: keyOf(at), columns, timestampUs })),
    ...deleted.map((at) => imageOf({ kind: "delete", key: keyOf(at), timestampUs })),
  ];
  return { seq: seqOf(BigInt(seq)), epoch: epochOf(1n), bytes: new Uint8Array(), rows: joinRows([encodeRowsPart(images)]) };
}

/** A replica of a log that every replica knows; it applies no more than it is asked to. */
class Replica implements GroupReplica {
  readonly store = new MemoryKeyValue();
  reachable = true;
  applied = 0;
  isSilent = false;
  isGone = false;
  /** Runs while a range is being read. */
  meanwhile: () => void = () => undefined;
  readonly calls: string[] = [];
  readonly #log: readonly LogEntry[];
  readonly #local: LocalRowReplica;
  readonly name: string;
  #isChanged = false;

  constructor(name: string, log: readonly LogEntry[], hasAllRows = true) {
    this.name = name;
    this.#log = log;
    this.#local = new LocalRowReplica({
      name,
      runner: new PlainRunner(this.store),
      reader: {
        getMany: (keys) => this.store.getMany(keys),
        range: (range) => this.store.range(range),
        rangeAtOnce: async (range) => {
          this.#isChanged = false;
          this.meanwhile();
          const entries = await this.store.range(range);
          return this.#isChanged ? "changed" : entries;
        },
      },
      hasAllRows,
      catchUp: async (_, seq) => this.apply(Number(seq)),
      appliedSeq: () => seqOf(BigInt(this.applied)),
      forgotten: new Forgotten(name, checksum),
      checksum,
      log: silentLog,
    });
  }

  apply(seq: number): void {
    if (seq > this.#log.length) throw new ConcordError("REPLICAS_UNAVAILABLE", "the entry is not decided");
    for (; this.applied < seq; this.applied += 1) {
      void this.store.batch(rowsOfEntry(GROUP, this.#log[this.applied]!, checksum), { sync: true });
      this.changed();
    }
  }

  changed(): void {
    this.#isChanged = true;
  }

  readGroup(read: GroupRead, timeoutMs: number): Promise<GroupRows> {
    return this.#answer("read", () => this.#local.readGroup(read, timeoutMs));
  }

  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    return this.#answer(`catch up ${seq}`, () => this.#local.catchUp(group, seq, timeoutMs));
  }

  #answer<Answer>(call: string, act: () => Promise<Answer>): Promise<Answer> {
    this.calls.push(call);
    if (this.isGone) return Promise.reject(new ConcordError("CONNECTION_LOST", "nothing was sent", { applied: "no" }));
    return this.isSilent ? new Promise<never>(() => undefined) : act();
  }
}

interface Fixture {
  readonly clock: ManualClock;
  readonly replicas: readonly Replica[];
  readonly rows: AtomicRowStore;
}

function fixture(log: readonly LogEntry[], newest = log.length): Fixture {
  const clock = new ManualClock();
  const replicas = ["a", "b", "c"].map((name) => new Replica(name, log));
  const rows = new AtomicRowStore({ replicas, newestSeq: () => Promise.resolve(seqOf(BigInt(newest))), clock });
  return { clock, replicas, rows };
}

const LOG = [entryOf(1, [1, 2, 3]), entryOf(2, [1, 2, 3]), entryOf(3, [1, 3], [2])];

async function values(rows: AtomicRowStore, keys = [1, 2, 3]): Promise<unknown[]> {
  const images = await rows.read(GROUP, keys.map(keyOf), OPTIONS);
  return images.map((image) => liveRow(image)?.columns.get("v")?.value);
}

test("[TXD5] atomic read: this replica is behind: it applies what is decided first; all rows are of one state", async () => {
  const { rows, replicas } = fixture(LOG, 2);
  replicas[0]!.apply(1);
  assert.deepEqual(await values(rows), ["2", "2", "2"]);
  replicas[0]!.apply(3);
  assert.deepEqual(await values(rows), ["3", undefined, "3"], "more than was asked for, and still one state");
});

test("[TXD5] [TX30] atomic read: answered when a majority has applied that state: no later quorum read sees less (I2)", async () => {
  const { rows, replicas } = fixture(LOG);
  replicas[2]!.isGone = true;
  await values(rows);
  assert.deepEqual([replicas[0]!.applied, replicas[1]!.applied], [3, 3]);
  replicas[1]!.isGone = true;
  await assert.rejects(values(rows), { code: "REPLICAS_UNAVAILABLE" });
});

test("[TXD5] atomic read: this replica is slow, then gone: another one answers, alone", async () => {
  const { rows, replicas, clock } = fixture(LOG);
  replicas[0]!.isSilent = true;
  const reading = values(rows);
  await turn();
  await clock.pass(ATOMIC_HEDGE_MS - 1);
  assert.deepEqual(replicas[1]!.calls, []);
  await clock.pass(1);
  assert.deepEqual(await reading, ["3", undefined, "3"]);
  replicas[0]!.isSilent = false;
  replicas[0]!.isGone = true;
  assert.deepEqual(await values(rows), ["3", undefined, "3"]);
  replicas[0]!.reachable = false;
  replicas[0]!.calls.length = 0;
  await values(rows);
  assert.deepEqual(replicas[0]!.calls, ["catch up 3"], "one that is known to be gone is asked last");
  assert.equal(clock.timers, 0);
});

test("[TXD5] atomic read: the newest entry stays undecided: REPLICAS_UNAVAILABLE, never an older state", async () => {
  const { rows } = fixture(LOG, 4);
  await assert.rejects(values(rows), { code: "REPLICAS_UNAVAILABLE" });
});

test("[TXD5] atomic read: a commit of this client is newer than what the replicas answered: waited for", async () => {
  const { rows } = fixture(LOG, 1);
  const after = [
    { group: GROUP, seq: seqOf(2n) },
    { group: "other", seq: seqOf(9n) },
  ];
  const images = await rows.read(GROUP, [keyOf(1)], { ...OPTIONS, after });
  assert.equal(liveRow(images[0])!.columns.get("v")!.value, "2");
});

test("[TXD5] atomic read: at and above the limits of keys and bytes: answered, then LIMIT_EXCEEDED", async () => {
  const { rows } = fixture([entryOf(1, [1], [], "x".repeat(ATOMIC_READ_BYTES_MAX - 200)), entryOf(2, [2], [], "x".repeat(200))]);
  const many = Array.from({ length: ATOMIC_READ_KEYS_MAX }, (_, at) => at + 10);
  assert.equal((await values(rows, many)).length, ATOMIC_READ_KEYS_MAX);
  await assert.rejects(values(rows, [...many, 9]), { code: "LIMIT_EXCEEDED" });
  assert.equal((await values(rows, [1])).length, 1);
  await assert.rejects(values(rows, [1, 2]), { code: "LIMIT_EXCEEDED" });
});

test("[TXD5] atomic read: a row follows from another group's log: GROUP_MISMATCH; rows of before they followed: UNIMPLEMENTED", async () => {
  const { rows } = fixture(LOG);
  await values(rows);
  await assert.rejects(rows.read("g2", [keyOf(1)], OPTIONS), { code: "GROUP_MISMATCH" });
  const old = new Replica("old", LOG, false);
  const newestSeq = (): Promise<Seq> => Promise.resolve(seqOf(0n));
  await assert.rejects(new AtomicRowStore({ replicas: [old], newestSeq, clock: new ManualClock() }).read(GROUP, [keyOf(1)], OPTIONS), {
    code: "UNIMPLEMENTED",
  });
});

test("[TXD5] atomic range: an entry is applied while the page is read: read again; again and again: REPLICAS_UNAVAILABLE", async () => {
  const { rows, replicas } = fixture(LOG, 1);
  const local = replicas[0]!;
  local.meanwhile = () => local.apply(2);
  const page = await rows.readRange(GROUP, RANGE, OPTIONS);
  assert.deepEqual(
    page.rows.map((image) => liveRow(image)!.columns.get("v")!.value),
    ["2", "2", "2"],
  );
  assert.equal(page.next, undefined);
  let reads = 0;
  for (const replica of replicas)
    replica.meanwhile = () => {
      reads += 1;
      replica.changed();
    };
  await assert.rejects(rows.readRange(GROUP, RANGE, OPTIONS), { code: "REPLICAS_UNAVAILABLE" });
  assert.equal(reads, 3 * ATOMIC_RANGE_TRIES_MAX);
});

test("[TXD5] atomic range: dead rows fill the first page: read once more as a larger one; more rows than wanted: a next", async () => {
  const dead = Array.from({ length: 40 }, (_, at) => at + 10);
  const { rows } = fixture([entryOf(1, dead), entryOf(2, [60, 61, 62], dead)]);
  const page = await rows.readRange(GROUP, { ...RANGE, limit: 2 }, OPTIONS);
  assert.deepEqual(
    page.rows.map((image) => Buffer.from(encodeRowKey(image.key))),
    [60, 61].map((at) => Buffer.from(encodeRowKey(keyOf(at)))),
  );
  assert.deepEqual(page.next, keyOf(61).clustering);
  assert.equal((await rows.readRange(GROUP, { ...RANGE, limit: 3 }, OPTIONS)).next, undefined);
});
