// What the judge of transactions under crashes calls lost: on a real node, with what is wrong done behind the load's back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connect, type ConcordClient } from "@concord/client";
import { startConcord, type RunningConcord } from "@concord/concord";
import { ALBUM_TABLES, AlbumLoad } from "./album-load.ts";
import { LIST_TABLES, ListLoad } from "./list-load.ts";
import { Transactions, type Finding } from "./transactions.ts";

const TURNS = 60;

let concord: RunningConcord;
let db: ConcordClient;

before(async () => {
  concord = await startConcord({ config: { groupCount: 1 } });
  db = await connect({ coordinators: [concord.address] });
  await db.createTables([...LIST_TABLES, ...ALBUM_TABLES]);
});

after(async () => {
  db.close();
  await concord.stop();
});

/** Draws that repeat from run to run. */
function draws(): () => number {
  let drawn = 7;
  return () => (drawn = (drawn * 48_271) % 2_147_483_647) / 2_147_483_647;
}

async function turns(load: ListLoad | AlbumLoad): Promise<number> {
  const random = draws();
  let done = 0;
  for (let turn = 0; turn < TURNS; turn += 1) if (await load.once(random)) done += 1;
  return done;
}

const kindsOf = (findings: readonly Finding[]): readonly string[] => [...new Set(findings.map(({ kind }) => kind))];

test("lists: undisturbed: all acknowledged, nothing found; an element taken away: lost; one put there: dirty", async () => {
  const transactions = new Transactions(db);
  const load = new ListLoad(transactions);
  assert.equal(await turns(load), TURNS);
  assert.equal(transactions.acknowledged, TURNS);
  assert.deepEqual(await load.judge(), []);
  const page = await db.query<{ k: bigint; elements: string }>("SELECT * FROM lists WHERE entity = ?", [0n]);
  const { k, elements: text } = page.rows.find(({ elements }) => elements.includes(" "))!;
  const [key, elements] = [{ entity: 0n, k }, text.split(" ")];
  await db.update("lists", { ...key, elements: elements.slice(0, -1).join(" ") });
  assert.ok(kindsOf(await load.judge()).includes("lost"));
  await db.update("lists", { ...key, elements: [...elements, "987654"].join(" ") });
  assert.ok(kindsOf(await load.judge()).includes("dirty"));
});

test("albums: undisturbed: nothing found; a photo deleted: lost and the counter is wrong", async () => {
  const load = new AlbumLoad(new Transactions(db));
  assert.ok((await turns(load)) > TURNS / 2);
  assert.deepEqual(await load.judge(), []);
  for await (const photo of db.readRange<{ id: string }>("photos", { partition: { album: 0n }, limit: 1 })) {
    await db.delete("photos", { album: 0n, id: photo.id });
  }
  assert.deepEqual(kindsOf(await load.judge()).slice(-1), ["lost"]);
});

test("commits under way: counted while the answer is out, those that just began left out", async () => {
  const transactions = new Transactions(db);
  const where = { table: "lists", key: { entity: 99n, k: 0n } };
  const before = transactions.underWay(0);
  let during = 0;
  await transactions.run(where, "exclusive", async (txn) => {
    txn.insert("lists", { ...where.key, elements: "1" });
    setImmediate(() => (during = transactions.underWay(0)));
    return Promise.resolve();
  });
  assert.deepEqual([before, during, transactions.underWay(0)], [0, 1, 0]);
  assert.deepEqual(transactions.findings, []);
});
