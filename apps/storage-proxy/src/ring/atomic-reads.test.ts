// Read mode ATOMIC through the RPCs of a ring of three, where no coordinator says what is decided.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import type { ColumnWrite, RowImage, RowKey } from "@concord/ports";
import { encodeRowsPart, imageOf, joinRows, mergeImages } from "@concord/rows";
import { timestampUsOf } from "@concord/runtime";
import { tokenOfKey } from "@concord/schema";
import { COORDINATOR, MemoryRing } from "../test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

const ALBUMS = {
  formatVersion: 1,
  name: "albums",
  kind: "transactional",
  columns: [
    { name: "id", type: "bigint" },
    { name: "at", type: "bigint" },
    { name: "v", type: "bigint" },
    { name: "note", type: "text" },
  ],
  partitionKey: ["id"],
  clusteringKey: ["at"],
  indexes: [],
  version: "1",
};

const text = (value: string): object => ({ textValue: value });
const bigint = (value: number | bigint): object => ({ bigintValue: BigInt(value) });

function systemRow(table: string, partition: string, clustering: readonly object[], columns: Readonly<Record<string, object>>): object {
  const written = Object.entries(columns).map(([name, value]) => ({ name, value }));
  const key = { table, partition: [text(partition)], clustering };
  return { write: { kind: "WRITE_KIND_INSERT", key, columns: written }, timestampUs: 1n };
}

/** Schema and group map as coordinators write them: g1 has the lower half of all tokens, g2 the rest. */
async function started(backend: "ring" | "memory" = "ring"): Promise<void> {
  epochs.clear();
  ring = new MemoryRing({ size: backend === "ring" ? 3 : 1, backend });
  await ring.start();
  const token = (byte: number): object => ({ blobValue: Uint8Array.of(byte, 0, 0, 0, 0, 0, 0, 0) });
  const mutations = [
    systemRow("concord_tables", "tables", [text("albums")], { definition: text(JSON.stringify(ALBUMS)) }),
    systemRow("concord_groups", "groups", [text("g1")], { from_token: token(0), master: text("a") }),
    systemRow("concord_groups", "groups", [text("g2")], { from_token: token(0x40), master: text("a") }),
    systemRow("concord_versions", "groups", [], { version: bigint(1), row_count: bigint(2) }),
  ];
  await ring.call(ring.nodes[0]!, "RowsService/Apply", { mutations: mutations.slice(0, 1) }, COORDINATOR);
  // The schema is there before the map.
  const code = backend === "ring" ? "STARTING" : "UNIMPLEMENTED";
  await assert.rejects(read(0, [wireKey(IN_G1, 1)]), { code });
  await ring.call(ring.nodes[0]!, "RowsService/Apply", { mutations }, COORDINATOR);
}

const keyOf = (id: number, at: number): RowKey => ({
  table: "albums",
  partition: [{ kind: "bigint", value: BigInt(id) }],
  clustering: [{ kind: "bigint", value: BigInt(at) }],
});
const wireKey = (id: number, at: number): object => ({ table: "albums", partition: [bigint(id)], clustering: [bigint(at)] });
const isOfG1 = (id: number): boolean => tokenOfKey(keyOf(id, 0)) < 0x40n << 56n;
const ids = Array.from({ length: 64 }, (_, id) => id);
const IN_G1 = ids.find(isOfG1)!;
const IN_G2 = ids.find((id) => !isOfG1(id))!;

/** The master of g1, as the log knows it. */
interface Master {
  readonly epoch: bigint;
  readonly owner: string;
}

const FIRST: Master = { epoch: 1n, owner: "txn-1" };

/** The whole row after an insert of `v` by the transaction with this number. */
const inserted = (at: number, seq: number, note?: string): RowImage => {
  const columns: ColumnWrite[] = [{ column: "v", value: { kind: "bigint", value: BigInt(seq) } }];
  if (note !== undefined) columns.push({ column: "note", value: { kind: "text", value: note } });
  return imageOf({ kind: "insert", key: keyOf(IN_G1, at), columns, timestampUs: timestampUsOf(BigInt(10 * seq)) });
};

/** Rows of one commit, two by default, logged at a majority; no mark says that it is decided. */
async function commit(seq: number, images: readonly RowImage[] = [1, 2].map((at) => inserted(at, seq)), by: Master = FIRST): Promise<void> {
  const request = {
    group: "g1",
    ...by,
    seq: BigInt(seq),
    previousEpoch: epochs.get(seq - 1) ?? 0n,
    timestampCeilingUs: BigInt(10 * seq + 5),
    content: Uint8Array.of(seq),
    rows: joinRows([encodeRowsPart(images)]),
  };
  const { result } = await ring.call<{ result: string }>(ring.nodes[0]!, "GroupLogService/Append", request, COORDINATOR);
  assert.equal(result, "logged");
  epochs.set(seq, by.epoch);
}

/** Epochs of the entries. */
const epochs = new Map<number, bigint>();

async function raise(master: Master = FIRST): Promise<void> {
  const request = { group: "g1", ...master, protocol: GROUP_LOG_PROTOCOL };
  const { result } = await ring.call<{ result: string }>(ring.nodes[0]!, "GroupLogService/Raise", request, COORDINATOR);
  assert.equal(result, "raised");
}

interface RowMessage {
  readonly columns: readonly {
    readonly name: string;
    readonly value: { readonly bigintValue: bigint };
  }[];
}

const valuesOf = (rows: readonly (RowMessage | null)[]): unknown[] =>
  rows.map((row) => row?.columns.find(({ name }) => name === "v")?.value.bigintValue);
const columnsOf = (rows: readonly (RowMessage | null)[]): unknown[] => rows.map((row) => row?.columns.map(({ name }) => name).toSorted());

async function read(node: number, keys: readonly object[], mode = "READ_MODE_ATOMIC"): Promise<unknown[]> {
  const answer = await ring.call<{ results: { row: RowMessage | null }[] }>(ring.nodes[node]!, "RowsService/Read", { keys, mode });
  return valuesOf(answer.results.map(({ row }) => row));
}

async function readRange(node: number, more: object = {}): Promise<{ values: unknown[]; isLast: boolean }> {
  const range = { table: "albums", partition: [bigint(IN_G1)] };
  const request = { range, mode: "READ_MODE_ATOMIC", ...more };
  const page = await ring.call<{ rows: RowMessage[]; nextPageToken: Uint8Array }>(ring.nodes[node]!, "RowsService/ReadRange", request);
  return { values: valuesOf(page.rows), isLast: page.nextPageToken.length === 0 };
}

test("[TXD5] read mode ATOMIC: a commit is logged, no mark says that it is decided: read at every node, whole, by key and range", async () => {
  await started();
  await raise();
  const keys = [wireKey(IN_G1, 1), wireKey(IN_G1, 2), wireKey(IN_G1, 3)];
  assert.deepEqual(await read(0, keys), [undefined, undefined, undefined]);
  for (let seq = 1; seq <= 4; seq += 1) {
    await commit(seq);
    const expected = [BigInt(seq), BigInt(seq)];
    if (seq % 2 === 0) assert.deepEqual(await read(seq % 3, keys), [...expected, undefined]);
    else assert.deepEqual(await readRange(seq % 3), { values: expected, isLast: true });
  }
  await ring.halt(ring.nodes[2]!);
  await commit(5);
  assert.deepEqual(await read(1, keys), [5n, 5n, undefined], "one node is down");
  assert.deepEqual(await readRange(1, { pageSize: 1 }), { values: [5n], isLast: false });
  assert.deepEqual(await read(1, keys, "READ_MODE_FAST"), [5n, 5n, undefined], "no later read sees less (TX30)");
});

test("[TXD5] read mode ATOMIC: the node's own rows are damaged: another replica answers alone", async () => {
  await started();
  await raise();
  await commit(1);
  const keys = [wireKey(IN_G1, 1), wireKey(IN_G1, 2)];
  assert.deepEqual(await read(1, keys), [1n, 1n]);
  await ring.clock.advance(1000);
  const { store } = ring.nodes[0]!;
  const rows = store.contents().filter(({ key, value }) => key[0] === 0x72 && Buffer.from(value).includes("g1") && value[0] === 2);
  assert.equal(rows.length, 2);
  const flipped = rows.map(({ key, value }) => ({
    kind: "put" as const,
    key,
    value: value.map((byte, at) => (at === 9 ? byte ^ 1 : byte)),
  }));
  await store.batch(flipped, { sync: true });
  assert.deepEqual(await read(0, keys), [1n, 1n]);
});

test("[TXD5] read mode ATOMIC: rows of two groups: GROUP_MISMATCH; no coordinator has run: STARTING; a backend without it: UNIMPLEMENTED", async () => {
  await started();
  await assert.rejects(read(0, [wireKey(IN_G1, 1), wireKey(IN_G2, 1)]), { code: "GROUP_MISMATCH" });
  assert.deepEqual(await read(0, [wireKey(IN_G2, 1)]), [undefined]);
  await ring.stop();
  await started("memory");
  await assert.rejects(read(0, [wireKey(IN_G1, 1)]), { code: "UNIMPLEMENTED" });
});

/** Changes of row 1, as the log has them: the whole row after the commit. Columns of the row that is left, else none. */
const CHANGES: Readonly<Record<string, { readonly row: (seq: number) => RowImage; readonly left: readonly string[] | undefined }>> = {
  update: {
    row: (seq) => {
      const timestampUs = timestampUsOf(BigInt(10 * seq));
      const columns: ColumnWrite[] = [{ column: "v", value: { kind: "bigint", value: BigInt(seq) } }];
      return mergeImages(inserted(1, seq - 1, "old"), imageOf({ kind: "update", key: keyOf(IN_G1, 1), columns, timestampUs }));
    },
    left: ["note", "v"],
  },
  delete: {
    row: (seq) => imageOf({ kind: "delete", key: keyOf(IN_G1, 1), timestampUs: timestampUsOf(BigInt(10 * seq)) }),
    left: undefined,
  },
  "delete and insert": {
    row: (seq) => {
      const timestampUs = timestampUsOf(BigInt(10 * seq - 1));
      return mergeImages(imageOf({ kind: "delete", key: keyOf(IN_G1, 1), timestampUs }), inserted(1, seq));
    },
    left: ["v"],
  },
};

for (const [what, { row, left }] of Object.entries(CHANGES)) {
  test(`[TXD5] read mode ATOMIC: ${what} of one row beside an insert of another, no mark says that it is decided: both or neither, at every node`, async () => {
    await started();
    await raise();
    let seq = 0;
    for (const node of [0, 1, 2]) {
      for (const form of ["key", "range"] as const) {
        const [before, after] = [(seq += 1), (seq += 1)];
        await commit(before, [inserted(1, before, "old"), inserted(2, before)]);
        await commit(after, [row(after), inserted(2, after)]);
        const rows = await ring.clock.run(rowsOf(node, form));
        assert.deepEqual(columnsOf(rows), left === undefined ? [["v"]] : [[...left], ["v"]], `${form} at node ${node}`);
        assert.deepEqual([...new Set(valuesOf(rows))], [BigInt(after)], `${form} at node ${node}`);
      }
    }
  });
}

/** Rows 1 and 2 that live. */
async function rowsOf(node: number, form: "key" | "range", request: object = { mode: "READ_MODE_ATOMIC" }): Promise<RowMessage[]> {
  if (form === "range") {
    const range = { table: "albums", partition: [bigint(IN_G1)] };
    return (await ring.begin<{ rows: RowMessage[] }>(ring.nodes[node]!, "RowsService/ReadRange", { range, ...request })).rows;
  }
  const keys = [wireKey(IN_G1, 1), wireKey(IN_G1, 2)];
  const { results } = await ring.begin<{ results: { row: RowMessage | null }[] }>(ring.nodes[node]!, "RowsService/Read", {
    keys,
    ...request,
  });
  return results.flatMap((result) => result.row ?? []);
}

/** Events between a commit and the read that must see it. */
const MOVES: Readonly<Record<string, (node: number, epoch: bigint) => Promise<Master>>> = {
  "another master takes over": async (_, epoch) => {
    const next = { epoch, owner: `txn-${epoch}` };
    await raise(next);
    return next;
  },
  "the node that is read and the master begin anew": async (node, epoch) => {
    await ring.halt(ring.nodes[node]!);
    await ring.restart(ring.nodes[node]!);
    // A master that begins anew is another incarnation.
    const next = { epoch, owner: `txn-1 again ${epoch}` };
    await raise(next);
    return next;
  },
};

for (const [what, move] of Object.entries(MOVES)) {
  test(`[TXD5] [TX30] a commit is logged, no mark says that it is decided, ${what}: read at every node, atomic and after its token`, async () => {
    await started();
    await raise();
    let [master, seq] = [FIRST, 0];
    for (const node of [0, 1, 2]) {
      for (const form of ["key", "range"] as const) {
        for (const isAtomic of [true, false]) {
          seq += 1;
          const expected = [BigInt(seq), BigInt(seq)];
          await commit(seq, undefined, master);
          master = await move(node, master.epoch + 1n);
          const own = {
            mode: "READ_MODE_FAST",
            after: [{ group: "g1", seq: BigInt(seq), timestampUs: BigInt(10 * seq) }],
          };
          const reading = rowsOf(node, form, isAtomic ? undefined : own);
          // The tail again, under the epoch of the next master: only that decides it, and the reader waits for it.
          await commit(seq, undefined, master);
          assert.deepEqual(valuesOf(await ring.clock.run(reading)), expected, `${form} at node ${node}, atomic: ${isAtomic}`);
          const later = rowsOf((node + 1) % 3, form, { mode: "READ_MODE_FAST" });
          assert.deepEqual(valuesOf(await ring.clock.run(later)), expected, "no later read sees less");
        }
      }
    }
  });
}
