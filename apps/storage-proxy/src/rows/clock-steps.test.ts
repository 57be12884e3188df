// Plain rows while clocks step, on a ring of real services in memory: what is acknowledged has its effect, or says that it has none.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { MemoryRing } from "../test/memory-ring.ts";

const HOUR_MS = 3_600_000;
let ring: MemoryRing;

afterEach(() => ring.stop());

interface Answer {
  readonly rows: readonly { readonly columns: readonly { readonly value: { readonly bigintValue?: bigint } }[] }[];
  readonly timestampUs: bigint;
  readonly superseded: boolean;
}

const query = (text: string, more: object = {}, node = 0): Promise<Answer> =>
  ring.call<Answer>(ring.nodes[node]!, "RowsService/Query", { statement: { text, binds: [] }, ...more });

async function started(size: 1 | 3): Promise<void> {
  ring = new MemoryRing({ size });
  await ring.start();
  await query("CREATE TABLE notes (id bigint PRIMARY KEY, body bigint) WITH kind = 'plain'");
}

const insert = (id: number, body: number, more: object = {}, node = 0): Promise<Answer> =>
  query(`INSERT INTO notes (id, body) VALUES (${id}, ${body})`, more, node);

async function bodyOf(id: number, node = 0): Promise<number | undefined> {
  const { rows } = await query(`SELECT body FROM notes WHERE id = ${id}`, {}, node);
  const body = rows[0]?.columns[0]?.value.bigintValue;
  return body === undefined ? undefined : Number(body);
}

async function restarted(): Promise<void> {
  for (const node of ring.nodes) await ring.halt(node);
  await ring.clock.run(Promise.all(ring.nodes.map((node) => ring.beginRestart(node, node.store.crash()))));
}

for (const size of [1, 3] as const) {
  test(`a clock stood 8 h ahead, was set right, and all nodes restarted: acknowledged writes and deletions have their effect (${size})`, async () => {
    await started(size);
    ring.clock.wallOffMs = 8 * HOUR_MS;
    for (let id = 1; id <= 3; id += 1) await insert(id, id);
    ring.clock.wallOffMs = 0;
    await restarted();
    assert.equal((await insert(1, 100)).superseded, false);
    assert.equal((await query("UPDATE notes SET body = 200 WHERE id = 2")).superseded, false);
    assert.equal((await query("DELETE FROM notes WHERE id = 3")).superseded, false);
    assert.deepEqual([await bodyOf(1), await bodyOf(2), await bodyOf(3)], [100, 200, undefined]);
  });

  test(`a store of before marks were kept holds rows of the future: writes and deletions are drawn above them (${size})`, async () => {
    await started(size);
    const aheadUs = ring.clock.nowUs() + 59n * 60_000_000n;
    for (let id = 1; id <= 3; id += 1) await insert(id, id, { timestampUs: aheadUs });
    const written = await insert(1, 100);
    assert.ok(written.timestampUs > aheadUs && !written.superseded);
    await query("UPDATE notes SET body = 200 WHERE id = 2");
    await query("DELETE FROM notes WHERE id = 3");
    assert.deepEqual([await bodyOf(1), await bodyOf(2), await bodyOf(3)], [100, 200, undefined]);
    const other = await insert(9, 9);
    assert.ok(other.timestampUs <= ring.clock.nowUs() + 1_000n, "one client's clock does not move the node's");
  });
}

test("a client 59 minutes ahead wrote a row: a deletion with a timestamp of now says that it is superseded, and the row is still read", async () => {
  await started(3);
  const nowUs = ring.clock.nowUs();
  await insert(1, 1, { timestampUs: nowUs + 59n * 60_000_000n });
  const deleted = await query("DELETE FROM notes WHERE id = 1", { timestampUs: nowUs });
  assert.deepEqual([deleted.superseded, deleted.timestampUs, await bodyOf(1)], [true, nowUs, 1]);
  const repeated = await query("DELETE FROM notes WHERE id = 1", { timestampUs: nowUs });
  assert.deepEqual([repeated.superseded, await bodyOf(1)], [true, 1], "a repeat with a timestamp changes nothing");
});

for (const [change, statement, left] of [
  ["insert", "INSERT INTO notes (id, body) VALUES (1, 2)", 1],
  ["update", "UPDATE notes SET body = 2 WHERE id = 1", 1],
  ["insert of null", "INSERT INTO notes (id, body) VALUES (1, NULL)", 1],
  ["deletion", "DELETE FROM notes WHERE id = 1", 1],
] as const) {
  test(`a client 59 minutes ahead wrote a row: ${change} by a right clock: it says that it is superseded, at any node; without a timestamp it has its effect`, async () => {
    await started(3);
    const nowUs = ring.clock.nowUs();
    await insert(1, left, { timestampUs: nowUs + 59n * 60_000_000n });
    for (const node of [0, 1, 2]) assert.equal((await query(statement, { timestampUs: nowUs }, node)).superseded, true);
    assert.equal(await bodyOf(1), left);
    assert.equal((await query(statement, {}, 1)).superseded, false);
    assert.notEqual(await bodyOf(1), left);
  });

  test(`a client 59 minutes ahead deleted a row: ${change} by a right clock: says that it is superseded where it would leave a value`, async () => {
    await started(3);
    const nowUs = ring.clock.nowUs();
    await query("DELETE FROM notes WHERE id = 1", { timestampUs: nowUs + 59n * 60_000_000n });
    const wouldLeaveRow = change !== "deletion";
    assert.equal((await query(statement, { timestampUs: nowUs })).superseded, wouldLeaveRow);
    assert.deepEqual((await query("SELECT body FROM notes WHERE id = 1")).rows, []);
    assert.equal((await query(statement)).superseded, false);
    assert.equal((await query("SELECT body FROM notes WHERE id = 1")).rows.length, wouldLeaveRow ? 1 : 0);
  });
}

test("a write repeated with its timestamp: not superseded by itself, and by what another one wrote since", async () => {
  await started(3);
  const nowUs = ring.clock.nowUs();
  assert.equal((await insert(1, 1, { timestampUs: nowUs })).superseded, false);
  assert.equal((await insert(1, 1, { timestampUs: nowUs }, 1)).superseded, false);
  assert.equal((await insert(1, 2, { timestampUs: nowUs + 5n })).superseded, false);
  assert.equal((await insert(1, 1, { timestampUs: nowUs }, 2)).superseded, true);
  assert.equal(await bodyOf(1), 2);
});

test("one node's clock stands 8 h ahead: writes and deletions at its peers, whose clocks are right, have their effect", async () => {
  await started(3);
  ring.clock.wallOffMs = 8 * HOUR_MS;
  await insert(1, 1, {}, 0);
  await insert(2, 2, {}, 0);
  ring.clock.wallOffMs = 0;
  await insert(1, 10, {}, 1);
  await query("DELETE FROM notes WHERE id = 2", {}, 2);
  assert.deepEqual([await bodyOf(1), await bodyOf(2)], [10, undefined]);
});

test("a node that restarts learns from its peers how far their write clocks came", async () => {
  await started(3);
  ring.clock.wallOffMs = 8 * HOUR_MS;
  const { timestampUs } = await insert(1, 1, {}, 0);
  ring.clock.wallOffMs = 0;
  await ring.halt(ring.nodes[1]!);
  await ring.restart(ring.nodes[1]!);
  assert.ok((await insert(2, 2, {}, 1)).timestampUs > timestampUs);
});
