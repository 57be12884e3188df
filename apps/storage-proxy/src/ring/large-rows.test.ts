// Rows larger than a message between nodes, made before rows were bounded: no copy, comparison, read or deletion stops at one.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { crc32 } from "node:zlib";
import { ROWS_NAMESPACE, sealMerged, storedRowKey } from "@concord/quorum";
import type { KeyValueEntry, RowKey } from "@concord/ports";
import { encodeImage, encodeRowKey, imageOf } from "@concord/rows";
import { timestampUsOf, toHex, type ConcordError } from "@concord/runtime";
import { MemoryRing, type MemoryNode } from "../test/memory-ring.ts";

const MIB = 1024 * 1024;
const checksum = (bytes: Uint8Array): number => crc32(bytes);

let ring: MemoryRing;

afterEach(() => ring.stop());

interface Answer {
  readonly rows: readonly unknown[];
  readonly nextPageToken: Uint8Array<ArrayBuffer>;
}

const keyOf = (name: string, at?: bigint): RowKey => ({
  table: "notes",
  partition: [{ kind: "text", value: name }],
  clustering: at === undefined ? [] : [{ kind: "bigint", value: at }],
});

/** A row as it is stored: columns of 1 MiB, all of one write. */
function rowOf(name: string, columns: number, timestampUs = 1n, at?: bigint): KeyValueEntry {
  const key = keyOf(name, at);
  const written = Array.from({ length: columns }, (_, at) => {
    return { column: `c${at}`, value: { kind: "blob", value: new Uint8Array(MIB).fill(at + 1) } as const };
  });
  const image = imageOf({ kind: "insert", key, columns: written, timestampUs: timestampUsOf(timestampUs) });
  return { key: storedRowKey(encodeRowKey(key)), value: sealMerged(encodeImage(image), checksum) };
}

const put = (node: MemoryNode, ...rows: readonly KeyValueEntry[]): Promise<void> =>
  node.store.batch(
    rows.map((row) => ({ kind: "put", ...row })),
    { sync: true },
  );

/** Keys and checksums of a node's rows of the table. */
const rowsAt = (node: MemoryNode): string[] => {
  const notes = node.store.contents().filter(({ key }) => key[0] === ROWS_NAMESPACE && Buffer.from(key).includes("notes"));
  return notes.map(({ key, value }) => `${toHex(key)} ${value.length} ${checksum(value)}`);
};

async function openRing(): Promise<readonly [MemoryNode, MemoryNode, MemoryNode]> {
  ring = new MemoryRing({ size: 3 });
  await ring.start();
  return ring.nodes as [MemoryNode, MemoryNode, MemoryNode];
}

test("a row of 5 MiB, or many of 1 MiB: no listing or read stands at them: pages end before, an error names the row, columns are read one by one", async () => {
  const nodes = await openRing();
  const columns = Array.from({ length: 5 }, (_, at) => `c${at} blob`).join(", ");
  const create = `CREATE TABLE notes (owner text, at bigint, ${columns}, PRIMARY KEY ((owner), at)) WITH kind = 'plain'`;
  const query = (text: string, pageToken = new Uint8Array()): Promise<Answer> =>
    ring.call(nodes[0], "RowsService/Query", { statement: { text, binds: [] }, pageToken });
  await query(create);
  const sizes = [1, 1, 1, 5, 1];
  for (const node of nodes) await put(node, ...sizes.map((size, at) => rowOf("ann", size, 1n, BigInt(at))));
  let [listed, pageToken] = [0, new Uint8Array()];
  do {
    const page = await query("SELECT at, c0, c1 FROM notes WHERE owner = 'ann'", pageToken);
    listed += page.rows.length;
    pageToken = page.nextPageToken;
  } while (pageToken.length > 0);
  assert.equal(listed, sizes.length);
  assert.equal((await query("SELECT * FROM notes WHERE owner = 'ann' AND at < 3")).rows.length, 1);
  const before = ring.contents();
  for (const text of ["SELECT * FROM notes WHERE owner = 'ann' AND at >= 3", "SELECT * FROM notes WHERE owner = 'ann' AND at = 3"]) {
    await assert.rejects(query(text), (error: ConcordError) => {
      assert.deepEqual([error.code, error.applied, error.metadata["row"]], ["LIMIT_EXCEEDED", "no", "notes(ann; 3)"]);
      return /SELECT fewer of its columns/.test(error.message);
    });
  }
  assert.deepEqual(ring.contents(), before);
  assert.equal((await query("SELECT at, c4 FROM notes WHERE owner = 'ann' AND at = 3")).rows.length, 1);
  assert.equal((await query("SELECT * FROM notes WHERE owner = 'ann' AND at > 3")).rows.length, 1);
});

test("[TXR4] a wiped node was never ready again, since one row has 5 MiB: it copies the row in parts and serves", async () => {
  const [first, second, third] = await openRing();
  const rows = [rowOf("a", 1), rowOf("large", 5), rowOf("z", 1)];
  for (const node of [first, second]) await put(node, ...rows);
  await ring.halt(third);
  await ring.restart(third, { entries: [] });
  assert.equal(third.service.ready, true);
  assert.equal(rowsAt(third).length, 3);
  assert.deepEqual(rowsAt(third), rowsAt(first));
});

test("[LB9] a comparison stood for ever at a row of 5 MiB: it brings the row to either side, and those behind it", async () => {
  const [first, second, third] = await openRing();
  await put(first, rowOf("large-1", 5), rowOf("z", 1));
  await put(second, rowOf("large-2", 5), rowOf("zz", 1));
  await ring.halt(third);
  await ring.restart(third);
  await ring.clock.advance(120_000);
  for (const node of [first, second, third]) assert.deepEqual(rowsAt(node), rowsAt(first));
  assert.equal(rowsAt(third).length, 4);
});
