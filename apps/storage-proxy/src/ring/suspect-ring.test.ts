// Three real processes: a block of rows is damaged in the table of one that is stopped while the others go on; it serves once it has healed, with the same rows as they.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, sleep } from "@concord/runtime";
import { damageText } from "../test/damaged-blocks.ts";
import { PATIENCE_MS, query, RingProcess, storedNotes, threeMembers } from "../test/ring-process.ts";

const ROWS = 300;
const DAMAGED = 150;

const folder = await mkdtemp(join(tmpdir(), "concord-suspect-ring-"));
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const ring = await threeMembers();
const processes = ring.map((member) => new RingProcess(member, ring, folder));
const channels = ring.map(({ address }) => transport.connect(address));

after(async () => {
  for (const channel of channels) channel.close();
  await Promise.all(processes.map((node) => node.kill()));
  await rm(folder, { recursive: true });
});

const insert = (at: number, body: string): string =>
  `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, '${body} ${"x".repeat(100)}')`;

test("[TXR4] processes: a block of rows is damaged at one of three: healed before it serves, older values and deleted rows do not return", async () => {
  const [first, second, third] = channels as [(typeof channels)[0], (typeof channels)[0], (typeof channels)[0]];
  const last = processes[2]!;
  await Promise.all(processes.map((node) => node.start()));
  await query(channels, "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (let at = 0; at < ROWS; at += 10)
    await Promise.all(Array.from({ length: 10 }, (_, each) => query(channels, insert(at + each, `text ${at + each}`))));
  // LevelDB makes a table of its log when it is opened.
  for (let opened = 0; opened < 2; opened += 1) {
    await last.stop();
    if (opened === 0) await last.start();
  }
  await query([first, second], `DELETE FROM notes WHERE owner = 'ann' AND at = ${DAMAGED}`);
  await query([first, second], insert(DAMAGED + 1, "changed"));
  const store = join(folder, "node-3/store");
  assert.ok(await damageText(store, `text ${DAMAGED} `));
  await last.start();
  const until = performance.now() + PATIENCE_MS;
  const expected = await storedNotes(first, ["ann"]);
  while ((await storedNotes(third, ["ann"])) !== expected) {
    assert.ok(performance.now() < until, "the healed node does not get what it missed");
    await sleep(nodeClock, 50);
  }
  assert.ok(last.log.some(({ message }) => message.endsWith("are copied from both peers before this node serves")));
  assert.ok(last.log.some(({ message }) => message === "store copied from the peers"));
  assert.equal((await readdir(store)).filter((name) => name.includes(".damaged-")).length, 1);
  await query([third], insert(DAMAGED + 2, "new"));
  const before = last.log.length;
  await last.stop();
  await last.start();
  assert.ok(!last.log.slice(before).some(({ message }) => message === "store copied from the peers"), "it heals once");
});
