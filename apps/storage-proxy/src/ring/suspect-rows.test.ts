// A node alone whose store has a damaged block of plain rows, on disk: which reads, listings, writes and batches are refused, and which are not.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { RowsService } from "@concord/protos-storage";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, toConcordError } from "@concord/runtime";
import { damageText } from "../test/damaged-blocks.ts";
import { RingProcess } from "../test/ring-process.ts";

const ROWS = 400;
const DAMAGED = 200;
const REFUSED = { code: "CORRUPT_DATA", applied: "no", message: /may be older than what was acknowledged/ };

const folder = await mkdtemp(join(tmpdir(), "concord-suspect-rows-"));
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const member = { name: "node-1", address: await freeAddress(), datacenter: "local" };
const node = new RingProcess(member, [], folder);
const channel = transport.connect(member.address);

after(async () => {
  channel.close();
  await node.kill();
  await rm(folder, { recursive: true });
});

async function query(text: string): Promise<number> {
  const { rows } = await callUnary(channel, RowsService.methods.Query, { statement: { text, binds: [] } }, { timeoutMs: 30_000 });
  return rows?.length ?? 0;
}

const insert = (at: number, body = `text ${at} ${"x".repeat(100)}`): string =>
  `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, '${body}')`;
const select = (where: string): string => `SELECT at FROM notes WHERE owner = 'ann' AND ${where}`;

async function isRefused(at: number): Promise<boolean> {
  try {
    assert.equal(await query(select(`at = ${at}`)), 1);
    return false;
  } catch (thrown) {
    assert.equal(toConcordError(thrown).code, "CORRUPT_DATA", String(thrown));
    return true;
  }
}

test("[OPS6] a node alone: a block of plain rows is damaged: what touches its rows is refused as not applied, everything else is served, over restarts", async () => {
  await node.start();
  await query("CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (let at = 0; at < ROWS; at += 20) await Promise.all(Array.from({ length: 20 }, (_, each) => query(insert(2 * (at + each)))));
  await node.stop();
  // LevelDB makes a table of its log when it is opened.
  await node.start();
  await node.stop();
  assert.ok(await damageText(join(folder, "node-1/store"), `text ${2 * DAMAGED} `));
  let refused: number[] = [];
  for (const life of ["first", "second"]) {
    await node.start();
    const found: number[] = [];
    for (let at = 0; at < ROWS; at += 1) if (await isRefused(2 * at)) found.push(2 * at);
    assert.ok(found.includes(2 * DAMAGED) && found.length < ROWS / 2, found.join());
    if (life === "second") assert.deepEqual(found, refused);
    refused = found;
    const [first, last] = [Math.min(...found), Math.max(...found)];
    const between = 2 * DAMAGED + 1;
    await assert.rejects(query(insert(2 * DAMAGED)), REFUSED);
    await assert.rejects(query(insert(between)), REFUSED, "a new key would be refused once a checkpoint has put it there");
    await assert.rejects(query(`BEGIN BATCH ${insert(1)}; ${insert(between)}; APPLY BATCH`), REFUSED);
    await assert.rejects(
      query(`BEGIN BATCH INSERT INTO notes (owner, at, body) VALUES ('bob', 1, 'b'); ${insert(between)}; APPLY BATCH`),
      REFUSED,
    );
    assert.equal(await query(select("at = 1")), 0, "nothing of a refused batch is there");
    assert.equal(await query("SELECT at FROM notes WHERE owner = 'bob'"), 0);
    await assert.rejects(query(select(`at >= ${first - 2}`)), REFUSED);
    assert.equal(await query("SELECT at FROM notes WHERE owner = 'ann'"), 100, "a page that is full before the range is answered");
    assert.equal(await query(select(`at > ${first - 22} AND at < ${first - 2}`)), 9);
    assert.ok((await query(select(`at > ${last + 2}`))) > 0);
    assert.equal(await query(insert(-1)), 0);
    assert.equal(await query(`BEGIN BATCH ${insert(-1)}; INSERT INTO notes (owner, at, body) VALUES ('cid', 1, 'b'); APPLY BATCH`), 0);
    assert.equal(await query(`DELETE FROM notes WHERE owner = 'ann' AND at = -1`), 0);
    assert.ok(node.log.some(({ message }) => message.endsWith(" are refused")));
    await node.stop();
  }
});
