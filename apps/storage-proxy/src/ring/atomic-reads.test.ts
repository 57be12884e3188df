// Read mode ATOMIC through the RPCs of a ring of three, where no coordinator says what is decided.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import type { RowKey } from "@concord/ports";
import { encodeRowsPart, imageOf, joinRows } from "@concord/rows";
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

/** Two rows of one commit, logged at a majority; no mark says that it is decided. */
async function commit(seq: number): Promise<void> {
  const images = [1, 2].map((at) => {
    const columns = [{ column: "v", value: { kind: "bigint", value: BigInt(seq) } as const }];
    return imageOf({ kind: "insert", key: keyOf(IN_G1, at), columns, timestampUs: timestampUsOf(BigInt(seq)) });
  });
  const request = {
    group: "g1",
    epoch: 1n,
    owner: "txn-1",
    seq: BigInt(seq),
    previousEpoch: seq === 1 ? 0n : 1n,
    timestampCeilingUs: 5n,
    content: Uint8Array.of(seq),
    rows: joinRows([encodeRowsPart(images)]),
  };
  const { result } = await ring.call<{ result: string }>(ring.nodes[0]!, "GroupLogService/Append", request, COORDINATOR);
  assert.equal(result, "logged");
}

const raise = (): Promise<object> =>
  ring.call(ring.nodes[0]!, "GroupLogService/Raise", { group: "g1", epoch: 1n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);

interface RowMessage {
  readonly columns: readonly { readonly value: { readonly bigintValue: bigint } }[];
}

const valuesOf = (rows: readonly (RowMessage | null)[]): unknown[] => rows.map((row) => row?.columns[0]!.value.bigintValue);

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
