import {
  BATCH_BYTES_MAX,
  BATCH_ROWS_MAX,
  type Batches,
  type BatchRequest,
  type Mutation,
  type RowKey,
  type RowStore,
} from "@concord/ports";
import { liveRow } from "@concord/rows";
import { CELL_TYPES, type CellValue } from "@concord/values";
import { rowOfEveryType, sampleCells } from "@concord/values/testing";
import { ConcordError, plusUs, timeIdFromBytes, timestampUsOf, type TimeId, type TimestampUs } from "@concord/runtime";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

export interface BatchesSubject {
  readonly batches: Batches;
  /** The rows that the batches write. */
  readonly rows: RowStore;
}

/** A batch as it stands in a log. */
export interface LeftBatch {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly mutations: readonly Mutation[];
}

/** For a backend whose log can be listed: batches that a stopped coordinator left in it. */
export interface ReplaySubject extends BatchesSubject {
  /** Logged just now by a coordinator that stopped before the first row. */
  leaveBehind(batch: LeftBatch): Promise<void>;
  /** The same, before gc_grace; it is a dead letter when this resolves. */
  leaveExpired(batch: LeftBatch): Promise<void>;
}

type Case = ContractCase<BatchesSubject>;

/** Of what must succeed: a real engine shares its machine with everything else. */
const OPTIONS = { timeoutMs: 60_000 };
const GIVEN_US = timestampUsOf(5_000_000n);
const PARTITIONS = ["ann", "bob", "cid"];

function idOf(last: number): TimeId {
  return timeIdFromBytes(Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, last));
}

const keyOf = (partition: string, at = 1): RowKey => ({
  table: "notes",
  partition: [{ kind: "text", value: partition }],
  clustering: [{ kind: "bigint", value: BigInt(at) }],
});

const insert = (key: RowKey, body: string, timestampUs: TimestampUs): Mutation => ({
  kind: "insert",
  key,
  columns: [{ column: "body", value: { kind: "text", value: body } }],
  timestampUs,
});

/** One row in each of three partitions, at a timestamp drawn by the backend, logged. */
function request(change: Partial<BatchRequest> & { readonly body?: string } = {}): BatchRequest {
  const { body = "one", ...rest } = change;
  const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => PARTITIONS.map((partition) => insert(keyOf(partition), body, atUs));
  return { id: idOf(1), timestampUs: undefined, mutationsAt, unlogged: false, ...rest };
}

const left = (id: number, body: string): LeftBatch => {
  const timestampUs = plusUs(GIVEN_US, BigInt(id));
  return { id: idOf(id), timestampUs, mutations: request({ body }).mutationsAt(timestampUs) };
};

/** Body and timestamp of the row in each partition. */
async function stored(rows: RowStore): Promise<unknown[]> {
  const images = await rows.read(
    PARTITIONS.map((partition) => keyOf(partition)),
    OPTIONS,
  );
  return images.map((image) => [liveRow(image)?.columns.get("body")?.value, image?.markerUs]);
}

const three = (body: string | undefined, timestampUs: TimestampUs | undefined): unknown[] => PARTITIONS.map(() => [body, timestampUs]);

function simple(name: string, run: (batches: Batches, rows: RowStore) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const { batches, rows } = await open();
      await run(batches, rows);
    },
  };
}

function refused(name: string, change: Partial<BatchRequest>, code: string): Case {
  return simple(`execute: ${name}: ${code}, nothing is written`, async (batches, rows) => {
    await expectCode(() => batches.execute(request(change)), code, name);
    expectEqual(await stored(rows), three(undefined, undefined), "rows");
    expectEqual((await batches.pending(10)).total, 0, "pending");
  });
}

const large = "x".repeat(BATCH_BYTES_MAX / PARTITIONS.length);

const REFUSED_CASES: readonly Case[] = [
  refused("no write", { mutationsAt: () => [] }, "BATCH_INVALID"),
  refused(
    "two images of one row",
    { mutationsAt: (atUs) => [insert(keyOf("ann"), "a", atUs), insert(keyOf("ann"), "b", atUs), insert(keyOf("bob"), "b", atUs)] },
    "BATCH_INVALID",
  ),
  refused(
    "a write at another timestamp",
    { mutationsAt: (atUs) => [insert(keyOf("ann"), "a", atUs), insert(keyOf("bob"), "b", plusUs(atUs, 1n))] },
    "BATCH_INVALID",
  ),
  refused(
    "a row above BATCH_ROWS_MAX",
    { mutationsAt: (atUs) => Array.from({ length: BATCH_ROWS_MAX + 1 }, (_, at) => insert(keyOf("ann", at), "a", atUs)) },
    "LIMIT_EXCEEDED",
  ),
  refused(
    "above BATCH_BYTES_MAX",
    { mutationsAt: (atUs) => PARTITIONS.map((partition) => insert(keyOf(partition), large, atUs)) },
    "LIMIT_EXCEEDED",
  ),
  refused(
    "one row in the last place at another timestamp",
    {
      mutationsAt: (atUs) => [
        ...["ann", "bob"].map((partition) => insert(keyOf(partition), "a", atUs)),
        insert(keyOf("cid"), "b", plusUs(atUs, -2n)),
      ],
    },
    "BATCH_INVALID",
  ),
  refused(
    "two deletes of one row",
    {
      mutationsAt: (atUs) =>
        ["ann", "ann", "bob"].map((partition): Mutation => ({ kind: "delete", key: keyOf(partition), timestampUs: atUs })),
    },
    "BATCH_INVALID",
  ),
  refused("unlogged, above BATCH_BYTES_MAX", { ...request({ body: large }), unlogged: true }, "LIMIT_EXCEEDED"),
];

const EXECUTE_CASES: readonly Case[] = [
  simple("execute: without a timestamp: every row at the one that was drawn", async (batches, rows) => {
    const result = await batches.execute(request());
    if (result.timestampUs <= 0n) throw new ConcordError("INTERNAL", "a drawn timestamp is above 0");
    expectEqual(result.id, idOf(1), "id");
    expectEqual(await stored(rows), three("one", result.timestampUs), "rows");
  }),
  simple("execute: with a timestamp: every row at it", async (batches, rows) => {
    expectEqual((await batches.execute(request({ timestampUs: GIVEN_US }))).timestampUs, GIVEN_US, "timestamp");
    expectEqual(await stored(rows), three("one", GIVEN_US), "rows");
  }),
  simple("execute: at an older timestamp than what is stored: the newer stays", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US, body: "new" }));
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, -10n), body: "old" }));
    expectEqual(await stored(rows), three("new", GIVEN_US), "rows");
  }),
  simple("execute: a delete one tick before an insert of the same row: the net image (LBD14)", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => [
      { kind: "delete", key: keyOf("ann"), timestampUs: plusUs(atUs, -1n) },
      { kind: "insert", key: keyOf("ann"), columns: [], timestampUs: atUs },
      insert(keyOf("bob"), "two", atUs),
    ];
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, 10n), mutationsAt }));
    const [row] = await rows.read([keyOf("ann")], OPTIONS);
    expectEqual(liveRow(row)?.columns, new Map(), "row");
  }),
  simple("execute: BATCH_ROWS_MAX rows: applied", async (batches, rows) => {
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] =>
      Array.from({ length: BATCH_ROWS_MAX }, (_, at) => insert(keyOf(PARTITIONS[at % 3]!, at), "a", atUs));
    await batches.execute(request({ mutationsAt }));
    const last = await rows.read([keyOf(PARTITIONS[(BATCH_ROWS_MAX - 1) % 3]!, BATCH_ROWS_MAX - 1)], OPTIONS);
    expectEqual(liveRow(last[0])?.columns.get("body")?.value, "a", "last row");
  }),
  simple("execute: one partition, or unlogged: no holders (LB12)", async (batches) => {
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => [1, 2].map((at) => insert(keyOf("ann", at), "a", atUs));
    expectEqual((await batches.execute(request({ mutationsAt }))).holders, [], "one partition");
    expectEqual((await batches.execute(request({ id: idOf(2), unlogged: true }))).holders, [], "unlogged");
  }),
  simple("execute: the id again: the first result, nothing changes (LBD8)", async (batches, rows) => {
    const first = await batches.execute(request());
    await rows.apply([insert(keyOf("ann"), "later", plusUs(first.timestampUs, 1n))], OPTIONS);
    expectEqual(await batches.execute(request()), first, "result");
    expectEqual((await stored(rows))[0], ["later", plusUs(first.timestampUs, 1n)], "row");
  }),
  simple("execute: the id again with another payload or timestamp: IDEMPOTENCY_MISMATCH, nothing changes", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    await expectCode(() => batches.execute(request({ timestampUs: GIVEN_US, body: "two" })), "IDEMPOTENCY_MISMATCH", "payload");
    await expectCode(() => batches.execute(request({ timestampUs: plusUs(GIVEN_US, 1n) })), "IDEMPOTENCY_MISMATCH", "timestamp");
    expectEqual(await stored(rows), three("one", GIVEN_US), "rows");
  }),
  simple("execute: many at once: each one whole", async (batches, rows) => {
    const ids = Array.from({ length: 20 }, (_, at) => idOf(at + 1));
    await Promise.all(ids.map((id, at) => batches.execute(request({ id, body: `b${at}`, timestampUs: plusUs(GIVEN_US, BigInt(at)) }))));
    expectEqual(await stored(rows), three("b19", plusUs(GIVEN_US, 19n)), "rows");
  }),
];

const remove = (key: RowKey, timestampUs: TimestampUs): Mutation => ({ kind: "delete", key, timestampUs });

async function columnsOf(rows: RowStore, key: RowKey): Promise<ReadonlyMap<string, CellValue> | undefined> {
  return liveRow((await rows.read([key], OPTIONS))[0])?.columns;
}

const textOf = (body: string): CellValue => ({ kind: "text", value: body });

/** Every kind of write, and every type of cell, in a batch of two partitions. */
const WRITE_CASES: readonly Case[] = [
  ...CELL_TYPES.map((type) =>
    simple(`execute: cells of type ${type}: as written, extremes too`, async (batches, rows) => {
      const samples = sampleCells(type);
      const keys = samples.map((_, at) => keyOf(PARTITIONS[at % 2]!, at));
      const mutationsAt = (timestampUs: TimestampUs): readonly Mutation[] =>
        samples.map((value, at) => ({ kind: "insert", key: keys[at]!, columns: [{ column: "v", value }], timestampUs }));
      await batches.execute(request({ mutationsAt }));
      const read = await rows.read(keys, OPTIONS);
      expectEqual(
        read.map((image) => liveRow(image)?.columns.get("v")),
        samples,
        "cells",
      );
    }),
  ),
  simple("execute: keys of every type, texts beyond ASCII: each row found by its own", async (batches, rows) => {
    const every = Object.values(rowOfEveryType());
    const keys: RowKey[] = [
      { table: "notes", partition: every.slice(0, 4), clustering: every.slice(4) },
      keyOf("\u00e4\u{1f600}"),
      keyOf("a\u0308\u{1f600}"),
    ];
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => keys.map((key, at) => insert(key, `b${at}`, atUs));
    await batches.execute(request({ mutationsAt }));
    for (const [at, key] of keys.entries()) expectEqual(await columnsOf(rows, key), new Map([["body", textOf(`b${at}`)]]), `row ${at}`);
  }),
  simple("execute: updates: other columns stay; a column set to null is gone", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    const mutationsAt = (timestampUs: TimestampUs): readonly Mutation[] => [
      { kind: "update", key: keyOf("ann"), columns: [{ column: "tag", value: textOf("x") }], timestampUs },
      { kind: "update", key: keyOf("bob"), columns: [{ column: "body", value: null }], timestampUs },
    ];
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, 1n), mutationsAt }));
    const expected = new Map([["body", textOf("one")]]);
    expectEqual(await columnsOf(rows, keyOf("ann")), new Map([...expected, ["tag", textOf("x")]]), "ann");
    expectEqual(await columnsOf(rows, keyOf("bob")), new Map(), "bob");
    expectEqual(await columnsOf(rows, keyOf("cid")), expected, "cid");
  }),
  simple("execute: deletes in each partition: all rows are gone; an older batch brings none back", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => PARTITIONS.map((partition) => remove(keyOf(partition), atUs));
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, 20n), mutationsAt }));
    await batches.execute(request({ id: idOf(3), timestampUs: plusUs(GIVEN_US, 10n), body: "late" }));
    for (const partition of PARTITIONS) expectEqual(await columnsOf(rows, keyOf(partition)), undefined, partition);
  }),
  simple("execute: a delete beside inserts of other rows: each takes effect", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => [
      remove(keyOf("ann"), atUs),
      insert(keyOf("ann", 2), "two", atUs),
      insert(keyOf("bob"), "two", atUs),
    ];
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, 1n), mutationsAt }));
    expectEqual(await columnsOf(rows, keyOf("ann")), undefined, "deleted");
    expectEqual(await columnsOf(rows, keyOf("ann", 2)), new Map([["body", textOf("two")]]), "beside it");
    expectEqual(await columnsOf(rows, keyOf("bob")), new Map([["body", textOf("two")]]), "other partition");
  }),
  simple("execute: an index row and the row it names, in two tables: both", async (batches, rows) => {
    const index: RowKey = { ...keyOf("two"), table: "notes_by_body" };
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] => [insert(keyOf("ann"), "two", atUs), insert(index, "ann", atUs)];
    await batches.execute(request({ mutationsAt }));
    expectEqual(await columnsOf(rows, keyOf("ann")), new Map([["body", textOf("two")]]), "row");
    expectEqual(await columnsOf(rows, index), new Map([["body", textOf("ann")]]), "index");
    expectEqual(await columnsOf(rows, { ...keyOf("ann"), table: "notes_by_body" }), undefined, "the row's key in the index's table");
  }),
  simple("execute: BATCH_ROWS_MAX rows, each deleted one tick before its insert: applied (LBD14)", async (batches, rows) => {
    const keys = Array.from({ length: BATCH_ROWS_MAX }, (_, at) => keyOf(PARTITIONS[at % 3]!, at));
    const mutationsAt = (atUs: TimestampUs): readonly Mutation[] =>
      keys.flatMap((key) => [remove(key, plusUs(atUs, -1n)), insert(key, "a", atUs)]);
    await batches.execute(request({ mutationsAt }));
    const images = await rows.read(keys, OPTIONS);
    expectEqual(images.filter((image) => liveRow(image)?.columns.get("body")?.value === "a").length, BATCH_ROWS_MAX, "rows");
  }),
  simple("execute: a little below BATCH_BYTES_MAX: every byte is there", async (batches, rows) => {
    const body = "y".repeat(Math.floor(BATCH_BYTES_MAX / PARTITIONS.length) - 200);
    await batches.execute(request({ body }));
    for (const partition of PARTITIONS)
      expectEqual((await columnsOf(rows, keyOf(partition)))?.get("body")?.value === body, true, partition);
  }),
];

const drawn = (atUs: TimestampUs): readonly Mutation[] => [1, 2].map((at) => insert(keyOf("ann", at), "a", atUs));

const REPEAT_CASES: readonly Case[] = [
  simple("execute: one id ten times at once: one result, one image", async (batches, rows) => {
    const results = await Promise.all(Array.from({ length: 10 }, () => batches.execute(request())));
    expectEqual(new Set(results.map(({ timestampUs }) => timestampUs)).size, 1, "timestamps");
    expectEqual(await stored(rows), three("one", results[0]?.timestampUs), "rows");
  }),
  simple("execute: one partition, the id again: the first result, nothing changes (LBD8)", async (batches, rows) => {
    const first = await batches.execute(request({ mutationsAt: drawn }));
    await rows.apply([insert(keyOf("ann"), "later", plusUs(first.timestampUs, 1n))], OPTIONS);
    expectEqual(await batches.execute(request({ mutationsAt: drawn })), first, "result");
    expectEqual(await columnsOf(rows, keyOf("ann")), new Map([["body", textOf("later")]]), "row");
  }),
  simple("execute: unlogged, the id again: the first result; with another payload: IDEMPOTENCY_MISMATCH", async (batches, rows) => {
    const first = await batches.execute(request({ unlogged: true }));
    expectEqual(await batches.execute(request({ unlogged: true })), first, "result");
    await expectCode(() => batches.execute(request({ unlogged: true, body: "two" })), "IDEMPOTENCY_MISMATCH", "payload");
    expectEqual(await stored(rows), three("one", first.timestampUs), "rows");
  }),
  simple("execute: the id with one row more or fewer: IDEMPOTENCY_MISMATCH, that row is not written", async (batches, rows) => {
    await batches.execute(request({ timestampUs: GIVEN_US }));
    const more = (atUs: TimestampUs): readonly Mutation[] => [...request().mutationsAt(atUs), insert(keyOf("dan"), "one", atUs)];
    const fewer = (atUs: TimestampUs): readonly Mutation[] => request().mutationsAt(atUs).slice(1);
    await expectCode(() => batches.execute(request({ timestampUs: GIVEN_US, mutationsAt: more })), "IDEMPOTENCY_MISMATCH", "more");
    await expectCode(() => batches.execute(request({ timestampUs: GIVEN_US, mutationsAt: fewer })), "IDEMPOTENCY_MISMATCH", "fewer");
    expectEqual(await columnsOf(rows, keyOf("dan")), undefined, "row");
  }),
  simple("execute: a refused id again with a payload that may be: executed", async (batches, rows) => {
    await expectCode(() => batches.execute(request({ mutationsAt: () => [] })), "BATCH_INVALID", "empty");
    const { timestampUs } = await batches.execute(request());
    expectEqual(await stored(rows), three("one", timestampUs), "rows");
  }),
  simple("execute: twenty without timestamps at once: each row has the same last writer", async (batches, rows) => {
    const ids = Array.from({ length: 20 }, (_, at) => idOf(at + 1));
    const results = await Promise.all(ids.map((id, at) => batches.execute(request({ id, body: `b${at}` }))));
    const images = await stored(rows);
    expectEqual(
      images,
      PARTITIONS.map(() => images[0]),
      "rows",
    );
    const newest = results.map(({ timestampUs }) => timestampUs).reduce((left_, right) => (left_ > right ? left_ : right));
    expectEqual((images[0] as unknown[])[1], newest, "the newest timestamp");
  }),
  simple("replay: after batches that were executed: nothing kept, nothing pending, rows as they are", async (batches, rows) => {
    const { timestampUs } = await batches.execute(request());
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(timestampUs, -1n), unlogged: true, body: "older" }));
    const { kept, deadLettered } = await batches.replay();
    expectEqual([kept, deadLettered, (await batches.pending(10)).total], [0, 0, 0], "left");
    expectEqual(await stored(rows), three("one", timestampUs), "rows");
  }),
];

const OPERATOR_CASES: readonly Case[] = [
  simple("replay: nothing left behind: zeros, no dead letters", async (batches) => {
    expectEqual(await batches.replay(), { completed: 0, kept: 0, deadLettered: 0 }, "replay");
    expectEqual(await batches.deadLetters(10), [], "dead letters");
  }),
  simple("redrive: no such letter: NOT_FOUND", async (batches) => {
    await expectCode(() => batches.redrive(idOf(9), true), "NOT_FOUND", "redrive");
  }),
];

export const BATCHES_CASES: readonly Case[] = [...EXECUTE_CASES, ...REFUSED_CASES, ...WRITE_CASES, ...REPEAT_CASES, ...OPERATOR_CASES];

function replayed(name: string, run: (subject: ReplaySubject) => Promise<void>): ContractCase<ReplaySubject> {
  return { name, run: async (open) => run(await open()) };
}

/** What every backend keeps whose log can be listed (LB8, LBD6, LBD12). */
export const BATCH_REPLAY_CASES: readonly ContractCase<ReplaySubject>[] = [
  replayed("pending: a batch left behind: listed; as many as asked for, all of them counted", async ({ batches, ...subject }) => {
    for (const id of [1, 2, 3]) await subject.leaveBehind(left(id, "left"));
    const { batches: listed, total } = await batches.pending(2);
    expectEqual([listed.length, total], [2, 3], "listed");
    const all = (await batches.pending(10)).batches.map(({ id, timestampUs, rowCount }) => `${id} ${timestampUs} ${rowCount}`);
    const expected = [1, 2, 3].map((id) => `${idOf(id)} ${GIVEN_US + BigInt(id)} 3`);
    expectEqual(all.toSorted(), expected, "pending");
  }),
  replayed("replay: a batch left behind: completed at its own timestamp, and gone from the log", async ({ batches, rows, ...subject }) => {
    await subject.leaveBehind(left(1, "left"));
    expectEqual(await batches.replay(), { completed: 1, kept: 0, deadLettered: 0 }, "replay");
    expectEqual(await stored(rows), three("left", plusUs(GIVEN_US, 1n)), "rows");
    expectEqual((await batches.pending(10)).total, 0, "pending");
  }),
  replayed("replay: rows were written since: the newer ones stay", async ({ batches, rows, ...subject }) => {
    await subject.leaveBehind(left(1, "left"));
    await batches.execute(request({ id: idOf(2), timestampUs: plusUs(GIVEN_US, 50n), body: "newer" }));
    await batches.replay();
    expectEqual(await stored(rows), three("newer", plusUs(GIVEN_US, 50n)), "rows");
  }),
  replayed(
    "dead letter: older than gc_grace: listed, nothing written; not forced: BATCH_INVALID",
    async ({ batches, rows, ...subject }) => {
      await subject.leaveExpired(left(1, "expired"));
      const letters = await batches.deadLetters(10);
      expectEqual(
        letters.map(({ id, reason }) => [id, reason]),
        [[idOf(1), "EXPIRED"]],
        "letters",
      );
      await expectCode(() => batches.redrive(idOf(1), false), "BATCH_INVALID", "redrive");
      expectEqual(await stored(rows), three(undefined, undefined), "rows");
      expectEqual((await batches.deadLetters(10)).length, 1, "letters after the refusal");
    },
  ),
  replayed("dead letter: forced: executed, its rows named, the letter is gone", async ({ batches, rows, ...subject }) => {
    await subject.leaveExpired(left(1, "expired"));
    const expected = PARTITIONS.map((partition) => keyOf(partition));
    expectEqual(await batches.redrive(idOf(1), true), expected, "rows named");
    expectEqual(await stored(rows), three("expired", plusUs(GIVEN_US, 1n)), "rows");
    expectEqual(await batches.deadLetters(10), [], "letters");
  }),
  replayed("replay: again: nothing left, rows as they are", async ({ batches, rows, ...subject }) => {
    await subject.leaveBehind(left(1, "left"));
    await batches.replay();
    await rows.apply([insert(keyOf("ann"), "later", plusUs(GIVEN_US, 90n))], OPTIONS);
    expectEqual(await batches.replay(), { completed: 0, kept: 0, deadLettered: 0 }, "replay");
    expectEqual((await stored(rows))[0], ["later", plusUs(GIVEN_US, 90n)], "row");
  }),
  replayed("replay: several left behind: all completed, the newest is what is read", async ({ batches, rows, ...subject }) => {
    for (const id of [3, 1, 2]) await subject.leaveBehind(left(id, `left${id}`));
    expectEqual(await batches.replay(), { completed: 3, kept: 0, deadLettered: 0 }, "replay");
    expectEqual(await stored(rows), three("left3", plusUs(GIVEN_US, 3n)), "rows");
  }),
  replayed("replay: twice at once: completed, rows once", async ({ batches, rows, ...subject }) => {
    await subject.leaveBehind(left(1, "left"));
    await Promise.all([batches.replay(), batches.replay()]);
    expectEqual(await stored(rows), three("left", plusUs(GIVEN_US, 1n)), "rows");
    expectEqual((await batches.pending(10)).total, 0, "pending");
  }),
  replayed("replay: a row was deleted since: it stays deleted", async ({ batches, rows, ...subject }) => {
    await subject.leaveBehind(left(1, "left"));
    await rows.apply([remove(keyOf("bob"), plusUs(GIVEN_US, 50n))], OPTIONS);
    await batches.replay();
    expectEqual(await columnsOf(rows, keyOf("bob")), undefined, "deleted");
    expectEqual(await columnsOf(rows, keyOf("cid")), new Map([["body", textOf("left")]]), "other row");
  }),
  replayed("dead letter: forced twice: the second is NOT_FOUND, nothing changes", async ({ batches, rows, ...subject }) => {
    await subject.leaveExpired(left(1, "expired"));
    await batches.redrive(idOf(1), true);
    await rows.apply([insert(keyOf("ann"), "later", plusUs(GIVEN_US, 90n))], OPTIONS);
    await expectCode(() => batches.redrive(idOf(1), true), "NOT_FOUND", "redrive");
    expectEqual((await stored(rows))[0], ["later", plusUs(GIVEN_US, 90n)], "row");
  }),
  replayed("dead letter: forced after newer writes: the newer ones stay", async ({ batches, rows, ...subject }) => {
    await subject.leaveExpired(left(1, "expired"));
    await batches.execute(request({ id: idOf(9), timestampUs: plusUs(GIVEN_US, 50n), body: "newer" }));
    await batches.redrive(idOf(1), true);
    expectEqual(await stored(rows), three("newer", plusUs(GIVEN_US, 50n)), "rows");
  }),
  replayed("dead letters: as many as asked for; one forced: the others stay", async ({ batches, ...subject }) => {
    for (const id of [1, 2, 3]) await subject.leaveExpired(left(id, "expired"));
    expectEqual((await batches.deadLetters(2)).length, 2, "listed");
    await batches.redrive(idOf(2), true);
    const others = (await batches.deadLetters(10)).map(({ id }) => id);
    expectEqual(others.toSorted(), [idOf(1), idOf(3)], "letters");
  }),
  replayed(
    "dead letter: its entry: there, in bytes; not pending any more, replay leaves it alone",
    async ({ batches, rows, ...subject }) => {
      await subject.leaveExpired(left(1, "expired"));
      const [letter] = await batches.deadLetters(1);
      expectEqual((letter?.entry.length ?? 0) > 0, true, "entry");
      expectEqual((await batches.pending(10)).total, 0, "pending");
      expectEqual(await batches.replay(), { completed: 0, kept: 0, deadLettered: 0 }, "replay");
      expectEqual(await stored(rows), three(undefined, undefined), "rows");
    },
  ),
];

export function batchesContract(test: TestFunction, open: () => Promise<BatchesSubject>): void {
  registerContract(test, "Batches", BATCHES_CASES, open);
}

export function batchReplayContract(test: TestFunction, open: () => Promise<ReplaySubject>): void {
  registerContract(test, "Batches with a log", BATCH_REPLAY_CASES, open);
}
