import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { COORDINATOR, MemoryRing, PEER, type MemoryNode } from "../test/memory-ring.ts";
import { PEER_SPACE_EVERY_MS } from "./limits.ts";

const MIB = 1024 * 1024;
const LOW_BYTES = 8 * MIB;
const ENOUGH_BYTES = 64 * MIB;

let ring: MemoryRing;

beforeEach(async () => {
  ring = new MemoryRing({ size: 3, config: { lowSpaceBytes: LOW_BYTES, reserveBytes: 0 } });
  await ring.start();
  const statements = ["CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'"];
  await ring.call(ring.nodes[0]!, "SchemaService/CreateTables", { statements });
  await query("INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'first')");
});

afterEach(() => ring.stop());

function query(statement: string, node = 0): Promise<{ readonly rows: readonly unknown[] }> {
  return ring.call(ring.nodes[node]!, "RowsService/Query", { statement: { text: statement, binds: [] } });
}

async function leave(node: number, bytes: number): Promise<void> {
  const { files } = ring.nodes[node]!.disk;
  files.capacityBytes = files.usedBytes + bytes;
  await ring.clock.advance(2 * PEER_SPACE_EVERY_MS);
}

const add = "INSERT INTO notes (owner, at, body) VALUES ('bob', 1, 'new')";
const batch = (body: string): string =>
  `BEGIN BATCH INSERT INTO notes (owner, at, body) VALUES ('cid', 1, '${body}'); DELETE FROM notes WHERE owner = 'ann' AND at = 1; APPLY BATCH`;
const admit = (node: MemoryNode): Promise<unknown> => ring.call(node, "GroupLogService/Admit", {}, COORDINATOR);

for (const full of [0, 2]) {
  test(`[OPS10] space: node ${full + 1} of 3 is almost full: every node refuses new rows, nothing of them is stored; reads and deletes go on`, async () => {
    await leave(full, LOW_BYTES - 1);
    const before = ring.snapshot();
    for (const [at, node] of ring.nodes.entries()) {
      await assert.rejects(query(add, at), { code: "STORAGE_FULL", applied: "no" });
      await assert.rejects(query(batch("new"), at), { code: "STORAGE_FULL", applied: "no" });
      await assert.rejects(admit(node), { code: "STORAGE_FULL", applied: "no" });
    }
    assert.deepEqual(ring.snapshot(), before);
    assert.equal((await query("SELECT * FROM notes WHERE owner = 'ann'", 1)).rows.length, 1);
    await query("DELETE FROM notes WHERE owner = 'ann' AND at = 1", 1);
    assert.equal((await query("SELECT * FROM notes WHERE owner = 'ann'", 1)).rows.length, 0);
    await leave(full, ENOUGH_BYTES);
    await query(add, 1);
    await admit(ring.nodes[1]!);
  });
}

test("space: of a peer that is gone nothing is known, so it refuses nothing; the coordinators' rows are never refused here", async () => {
  await leave(2, 0);
  await assert.rejects(query(add), { code: "STORAGE_FULL" });
  const key = { table: "notes", partition: [{ textValue: "dan" }], clustering: [{ bigintValue: 1n }] };
  const mutation = { write: { kind: "WRITE_KIND_INSERT", key, columns: [] }, timestampUs: 1_000n };
  await ring.call(ring.nodes[0]!, "RowsService/Apply", { mutations: [mutation] }, COORDINATOR);
  await ring.halt(ring.nodes[2]!);
  await ring.clock.advance(3 * PEER_SPACE_EVERY_MS);
  await query(add);
});

test("space: only peers may ask for it", async () => {
  const answer = await ring.call<{ low: boolean }>(ring.nodes[0]!, "ReplicaService/Space", {}, PEER);
  assert.equal(answer.low, false);
  await assert.rejects(ring.call(ring.nodes[0]!, "ReplicaService/Space", {}, COORDINATOR), { code: "PERMISSION_DENIED" });
});
