// Three real processes, one of them with the version of the ring's protocol before ours: the ring refuses it at the handshake, before any
// row, entry or batch is sent, both sides say so in their logs, and no row changes.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { RING_PROTOCOL } from "@concord/adapter-ring";
import { nodeClock } from "@concord/adapter-node-runtime";
import { RowsService } from "@concord/protos-storage";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, sleep } from "@concord/runtime";
import { PATIENCE_MS, query, RingProcess, storedNotes, threeMembers } from "../test/ring-process.ts";

const OLDER = ["--import", pathToFileURL(join(import.meta.dirname, "../test/older-ring-version.mjs")).href];
const NEW = RING_PROTOCOL;
const OLD = RING_PROTOCOL - 1;
const OWNERS = ["ann", "bob", "cid", "dan"];

const folder = await mkdtemp(join(tmpdir(), "concord-versions-"));
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const ring = await threeMembers();
const [first, second, third] = ring.map((member) => new RingProcess(member, ring, folder)) as [RingProcess, RingProcess, RingProcess];
const nodes = [first, second, third];
const channels = ring.map(({ address }) => transport.connect(address));

before(async () => {
  await Promise.all(nodes.map((node) => node.start()));
  await query(channels, "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (const owner of ["ann", "bob"]) await inserted(0, owner);
  await equal();
});

after(async () => {
  for (const channel of channels) channel.close();
  for (const node of nodes) node.signal("SIGCONT");
  await Promise.all(nodes.map((node) => node.kill()));
  await rm(folder, { recursive: true });
});

const insertion = (owner: string): string => `INSERT INTO notes (owner, at, body) VALUES ('${owner}', 1, 'text')`;
/** Nodes that were stopped for a while may take a moment. */
const inserted = (at: number, owner: string): Promise<void> => query([channels[at]!], insertion(owner));

async function insertOnce(at: number, owner: string): Promise<void> {
  const request = { statement: { text: insertion(owner), binds: [] } };
  await callUnary(channels[at]!, RowsService.methods.Query, request, { timeoutMs: PATIENCE_MS });
}

const rowsOf = (at: number, version = NEW): Promise<string> => storedNotes(channels[at]!, OWNERS, version);

/** Waits until all three replicas hold the same rows. */
async function equal(): Promise<string> {
  const giveUpAt = performance.now() + PATIENCE_MS;
  for (;;) {
    const [one, ...others] = await Promise.all([0, 1, 2].map((at) => rowsOf(at)));
    if (others.every((rows) => rows === one)) return one!;
    assert.ok(performance.now() < giveUpAt, "the replicas stay different");
    await sleep(nodeClock, 50);
  }
}

/** Waits for a line of the log with all of these in it. */
async function logged(node: RingProcess, message: string, ...parts: readonly string[]): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS;
  const isThere = (): boolean =>
    node.log.map((line) => JSON.stringify(line)).some((text) => [message, ...parts].every((part) => text.includes(part)));
  while (!isThere()) {
    assert.ok(performance.now() < giveUpAt, `no line "${message}" with ${parts.join(", ")}`);
    await sleep(nodeClock, 20);
  }
}

/** What both logs say, and what to do. */
const refusal = (caller: string, itsVersion: number, answerer: string, version: number): string =>
  `${caller} has version ${itsVersion} of the ring's protocol, ${answerer} version ${version}: stop all nodes of the ring`;

test("[OPS18] versions: a node that starts with an older one: it ends, both sides say why, no row is changed", async () => {
  await third.kill();
  const rows = await rowsOf(0);
  await assert.rejects(third.start(OLDER), /ended before it served/u);
  const answers = ["node-1", "node-2"].map(async (answerer, at) => {
    const reason = refusal("node-3", OLD, answerer, NEW);
    await logged(nodes[at]!, "a peer was refused at the handshake", reason);
    await logged(third, "refused at the handshake", reason);
  });
  await Promise.any(answers);
  assert.deepEqual([await rowsOf(0), await rowsOf(1)], [rows, rows]);
  await third.start();
  assert.equal(await equal(), rows);
});

test("[OPS18] versions: an older node serves while its peers are silent, then they are back: neither takes a row of the other", async () => {
  await third.kill();
  for (const node of [first, second]) node.signal("SIGSTOP");
  await third.start(OLDER);
  const older = await rowsOf(2, OLD);
  for (const node of [first, second]) node.signal("SIGCONT");
  await assert.rejects(insertOnce(2, "dan"), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
  await inserted(0, "cid");
  for (const [at, name] of ["node-1", "node-2"].entries()) {
    await logged(third, "refused at the handshake", refusal("node-3", OLD, name, NEW));
    await logged(nodes[at]!, "a peer was refused at the handshake", refusal("node-3", OLD, name, NEW));
    await logged(nodes[at]!, "refused at the handshake", refusal(name, NEW, "node-3", OLD));
  }
  assert.equal(await rowsOf(2, OLD), older);
  await assert.rejects(rowsOf(2), { code: "PERMISSION_DENIED" });
  const rows = await rowsOf(0);
  assert.equal(rows.split(":")[0], "3");
  await third.kill();
  await third.start();
  assert.equal(await equal(), rows);
});
