// Joining a ring and losing a store (TXR4): one test per row of the decision table in the README.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { decodeHeader, encodeHeader } from "@concord/group-log";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import { crc32 } from "node:zlib";
import { MemoryKeyValue, type KeyValueImage } from "@concord/port-contracts";
import type { KeyValueEntry, Mutation, RowKey } from "@concord/ports";
import { encodeImage, encodeRowKey, imageOf } from "@concord/rows";
import { storedRowKey } from "@concord/quorum";
import { sealRecord } from "@concord/codec";
import { epochOf, seqOf, timestampUsOf, type Log } from "@concord/runtime";
import { COORDINATOR, MemoryRing, PEER, type MemoryNode } from "../../test/memory-ring.ts";
import { copiesBeforeServing, readMarker, writeMarker } from "./marker.ts";

const EMPTY: KeyValueImage = { entries: [] };
const MEMBERS = ["node-1", "node-2", "node-3"];
const checksum = (bytes: Uint8Array): number => crc32(bytes);

let ring: MemoryRing;

afterEach(() => ring.stop());

const isReady = (node: MemoryNode): boolean => node.service.ready;
const rowsOf = (node: MemoryNode): KeyValueEntry[] => node.store.contents().filter(({ key }) => key[0] === 0x72);

async function write(node: MemoryNode, at: number): Promise<void> {
  const text = `INSERT INTO notes (owner, at) VALUES ('ann', ${at})`;
  await ring.call(node, "RowsService/Query", { statement: { text, binds: [] } });
}

async function formed(): Promise<MemoryNode[]> {
  ring = new MemoryRing({ size: 3 });
  await ring.start();
  const text = "CREATE TABLE notes (owner text, at bigint, PRIMARY KEY ((owner), at)) WITH kind = 'plain'";
  await ring.call(ring.nodes[0]!, "RowsService/Query", { statement: { text, binds: [] } });
  return ring.nodes;
}

test("[TXR4] first formation: a node is missing: none serves, each logs the peers it waits for; it comes: all serve", async () => {
  const lines: string[] = [];
  const note = (message: string, fields?: object): void => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: () => undefined, info: note, warn: note, error: note };
  ring = new MemoryRing({ size: 3, log });
  const starts = ring.nodes.slice(0, 2).map((node) => node.service.start());
  await ring.clock.advance(12_000);
  assert.deepEqual(ring.nodes.map(isReady), [false, false, false]);
  assert.ok(lines.some((line) => line.includes("waiting for peers") && line.includes("node-3")));
  assert.ok(lines.filter((line) => line.includes("waiting for peers")).length <= 8, "a line now and then, not a flood");
  await assert.rejects(ring.call(ring.nodes[0]!, "RowsService/Read", { keys: [] }), { code: "STARTING" });
  await assert.rejects(ring.call(ring.nodes[0]!, "ReplicaService/ReadRows", { keys: [Uint8Array.of(1)] }, PEER), { code: "STARTING" });
  await ring.clock.run(Promise.all([...starts, ring.nodes[2]!.service.start()]));
  assert.deepEqual(ring.nodes.map(isReady), [true, true, true]);
});

test("[TXR4] formed store: restarts without its peers and serves at once", async () => {
  const nodes = await formed();
  for (const node of nodes) await ring.halt(node);
  await ring.restart(nodes[0]!);
  assert.ok(isReady(nodes[0]!));
  assert.deepEqual(await readMarker(nodes[0]!.store, checksum), { kind: "formed", members: MEMBERS });
});

test("[TXR4] joining store: crashed before its peers knew: finishes joining, copies nothing", async () => {
  ring = new MemoryRing({ size: 3 });
  const node = ring.nodes[0]!;
  await writeMarker(node.store, { kind: "joining", members: MEMBERS }, checksum);
  await ring.start();
  assert.deepEqual(ring.nodes.map(isReady), [true, true, true]);
});

test("[OPS4] start: /readyz names silent peers, the wait before a copy, and why a copy begins anew", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await write(first, 1);
  await ring.halt(second);
  await ring.halt(third);
  const seen: string[] = [];
  const note = (): void => {
    const [text] = ring.startWaits.current;
    if (text !== undefined && text !== seen.at(-1)) seen.push(text);
  };
  const start = ring.beginRestart(third, EMPTY);
  await ring.clock.advance(3_000);
  note();
  await ring.restart(second);
  await ring.clock.advance(1_000);
  note();
  await ring.halt(second);
  await ring.clock.advance(10_000);
  note();
  await ring.restart(second);
  await ring.clock.run(start);
  const expected = [
    /^the nodes of the ring: node-1, node-2, node-3 \(no answer from node-2\)$/,
    /\(copying the store begins once writes of this node's earlier life have ended, after \d+ ms\)$/,
    /\(copying the store failed, trying again: .+\)$/,
  ];
  for (const text of expected)
    assert.ok(
      seen.some((line) => text.test(line)),
      `${text} is not in:\n${seen.join("\n")}`,
    );
  assert.deepEqual(ring.startWaits.current, []);
});

test("[TXR4] empty store that peers remember: writes that only it and one peer had are there after the copy", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.halt(second);
  await write(first, 1);
  await ring.restart(second);
  await ring.halt(first);
  await write(second, 2);
  await ring.restart(first);
  await ring.halt(third);
  await ring.restart(third, EMPTY);
  const keys = rowsOf(third).map(({ key }) => Buffer.from(key).toString("latin1"));
  assert.equal(keys.filter((key) => key.startsWith("rnotes")).length, 2);
});

/** What a halted node left, as if it had found its peers too far ahead. */
async function lagging(node: MemoryNode): Promise<KeyValueImage> {
  const store = new MemoryKeyValue(node.store.crash());
  await writeMarker(store, { kind: "lagging", members: MEMBERS }, checksum);
  return store.crash();
}

test("[TXR4] lagging store: a peer cannot be copied from yet: its own group logs stay", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  const owner = { group: "g1", epoch: 1n, owner: "txn-1" };
  await ring.call(first, "GroupLogService/Raise", { ...owner, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  const entry = { ...owner, seq: 1n, previousEpoch: 0n, timestampCeilingUs: 5n, content: Uint8Array.of(1) };
  await ring.call(first, "GroupLogService/Append", entry, COORDINATOR);
  await ring.clock.advance(1000);
  const logOf = (node: MemoryNode): KeyValueEntry[] => node.store.contents().filter(({ key }) => key[0] === 0x67 || key[0] === 0x6c);
  const held = logOf(third);
  assert.equal(held.length, 2);
  await ring.halt(second);
  await ring.halt(third);
  const starts = [ring.beginRestart(second, EMPTY), ring.beginRestart(third, await lagging(third))];
  const ended = starts.map((start) => start.catch(() => "stopped"));
  await ring.clock.advance(20_000);
  assert.deepEqual(logOf(third), held);
  await ring.stop();
  await ring.clock.run(Promise.all(ended));
});

test("[TXR4] lagging store: copied from both peers, its own group logs replaced: serves", async () => {
  const [first, , third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  const owner = { group: "g1", epoch: 1n, owner: "txn-1" };
  await ring.call(first, "GroupLogService/Raise", { ...owner, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  for (let seq = 1n; seq <= 3n; seq += 1n) {
    const entry = { ...owner, seq, previousEpoch: seq === 1n ? 0n : 1n, timestampCeilingUs: 5n, content: Uint8Array.of(1) };
    await ring.call(first, "GroupLogService/Append", entry, COORDINATOR);
  }
  await ring.clock.advance(1000);
  await ring.halt(third);
  await ring.call(first, "GroupLogService/Trim", { ...owner, appliedSeq: 2n, appliedEpoch: 1n }, COORDINATOR);
  await ring.clock.advance(1000);
  await ring.restart(third, await lagging(third));
  assert.deepEqual([third.service.ready, (await readMarker(third.store, checksum)).kind], [true, "formed"]);
});

function noteKey(at: number): Uint8Array {
  const key: RowKey = { table: "notes", partition: [{ kind: "text", value: "ann" }], clustering: [{ kind: "bigint", value: BigInt(at) }] };
  return storedRowKey(encodeRowKey(key));
}

/** What `concord repair --accept-loss` makes of a halted node's store that lost the rows of notes with these numbers. */
async function mended(node: MemoryNode, lost: readonly number[]): Promise<KeyValueImage> {
  const { entries } = node.store.crash();
  const isLost = ({ key }: KeyValueEntry): boolean => lost.some((at) => Buffer.compare(key, noteKey(at)) === 0);
  const store = new MemoryKeyValue({ entries: entries.filter((entry) => !isLost(entry)) });
  assert.deepEqual(await copiesBeforeServing(store, checksum), MEMBERS);
  return store.crash();
}

test("[TXR4] store mended with losses: serves only when both peers were copied: a write that it had with one of them is there", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.halt(third);
  await write(first, 1);
  await ring.halt(first);
  await ring.halt(second);
  const written = rowsOf(second);
  await ring.restart(third);
  const start = ring.beginRestart(second, await mended(second, [1]));
  assert.ok(rowsOf(second).length < written.length);
  await ring.clock.advance(30_000);
  assert.ok(!isReady(second), "it has lost a write that the node which serves never had");
  await ring.clock.run(Promise.all([start, ring.beginRestart(first, first.store.crash())]));
  assert.deepEqual([isReady(second), rowsOf(second)], [true, written]);
  assert.deepEqual(await readMarker(second.store, checksum), { kind: "formed", members: MEMBERS });
});

/** The disk of a halted node when a table is lost that held the newest version of this row, its deletion: the older version is back. */
async function revived(node: MemoryNode, older: KeyValueEntry): Promise<KeyValueImage> {
  const store = new MemoryKeyValue(node.store.crash());
  await store.batch([{ kind: "put", ...older }], { sync: true });
  await copiesBeforeServing(store, checksum);
  return store.crash();
}

/** A row of notes as it was before its deletion, which every node has forgotten since. */
async function forgottenRow(nodes: readonly MemoryNode[], at: number): Promise<KeyValueEntry> {
  await write(nodes[0]!, at);
  await ring.clock.advance(1000);
  const key = noteKey(at);
  const older = rowsOf(nodes[2]!).find((entry) => Buffer.compare(entry.key, key) === 0)!;
  for (const node of nodes) await node.store.batch([{ kind: "delete", key }], { sync: true });
  return older;
}

test("[TXR4] store mended with losses: a row whose deletion was lost and which all peers have forgotten does not return", async () => {
  const nodes = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  const [first, , third] = nodes;
  const older = await forgottenRow(nodes, 1);
  await write(first, 2);
  await ring.clock.advance(1000);
  await ring.halt(third);
  const kept = rowsOf(first);
  await ring.restart(third, await revived(third, older));
  assert.deepEqual([isReady(third), rowsOf(third)], [true, kept]);
  await ring.clock.advance(60_000);
  for (const node of nodes) assert.deepEqual(rowsOf(node), kept);
});

test("[TXR4] store mended with losses beside one that lags: the lagging one waits for it: a forgotten row does not come by it", async () => {
  const nodes = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  const [first, second, third] = nodes;
  const older = await forgottenRow(nodes, 1);
  await write(first, 2);
  await ring.clock.advance(1000);
  await ring.halt(second);
  await ring.halt(third);
  const kept = rowsOf(first);
  const images = [await lagging(second), await revived(third, older)];
  await ring.clock.run(Promise.all([second, third].map((node, at) => ring.beginRestart(node, images[at]!))));
  for (const node of nodes) assert.deepEqual([isReady(node), rowsOf(node)], [true, kept]);
});

test("[TXR4] all three stores mended with losses, of other rows each: all serve, with every row that one of them has", async () => {
  const nodes = await formed();
  for (const at of [1, 2, 3]) await write(nodes[0]!, at);
  await ring.clock.advance(1000);
  for (const node of nodes) await ring.halt(node);
  const written = rowsOf(nodes[0]!);
  const images = await Promise.all(nodes.map((node, at) => mended(node, [at + 1])));
  await ring.clock.run(Promise.all(nodes.map((node, at) => ring.beginRestart(node, images[at]!))));
  for (const node of nodes) assert.deepEqual([isReady(node), rowsOf(node)], [true, written]);
});

test("store of a ring of one mended with losses: no other node to copy: it serves", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  const node = ring.nodes[0]!;
  await ring.halt(node);
  const store = new MemoryKeyValue(node.store.crash());
  assert.deepEqual(await copiesBeforeServing(store, checksum), ["node-1"]);
  assert.deepEqual(store.crash(), node.store.crash());
  assert.deepEqual(await copiesBeforeServing(new MemoryKeyValue(), checksum), []);
});

test("[TXR4] two stores lost at once: neither serves, nor forms a new ring", async () => {
  const [, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.halt(second);
  await ring.halt(third);
  const starts = [second, third].map((node) => ring.beginRestart(node, EMPTY).catch(() => "stopped"));
  await ring.clock.advance(60_000);
  assert.deepEqual(ring.nodes.map(isReady), [true, false, false]);
  await ring.stop();
  await ring.clock.run(Promise.all(starts));
});

test("[TXR4] copy interrupted: the store counts as empty, what is there goes, and it is copied again", async () => {
  const [first, , third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await write(first, 1);
  await ring.clock.advance(1000);
  await ring.halt(third);
  const partial = third.store
    .crash()
    .entries.filter(({ key }) => key[0] === 0x72)
    .slice(1);
  await ring.restart(third, { entries: partial });
  assert.deepEqual(rowsOf(third), rowsOf(first));
});

test("[TXR4] copy: one peer's row is corrupt: the sound one is kept", async () => {
  const [first, , third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await write(first, 1);
  await ring.clock.advance(1000);
  await ring.halt(third);
  const sound = rowsOf(first);
  const { key, value } = sound.at(-1)!;
  const spoilt = Uint8Array.from(value);
  spoilt[9]! ^= 1;
  await first.store.batch([{ kind: "put", key, value: spoilt }], { sync: true });
  await ring.restart(third, EMPTY);
  assert.deepEqual(rowsOf(third), sound);
});

test("[TXR4] [OPS22] members differ: a node configured for another ring refuses to start and says why; so does its own store", async () => {
  ring = new MemoryRing({ size: 3 });
  const [first] = ring.nodes as [MemoryNode, MemoryNode, MemoryNode];
  await writeMarker(first.store, { kind: "formed", members: ["node-1", "node-2", "node-4"] }, checksum);
  await assert.rejects(ring.clock.run(first.service.start()), /a ring's members never change/);
  const other = new MemoryRing({
    size: 1,
    config: { ring: ring.ringOf(["node-1", "node-2", "node-4"]) },
    network: ring.network,
    clock: ring.clock,
  });
  const second = ring.nodes[1]!.service.start().catch((error: Error) => error.message);
  await assert.rejects(ring.clock.run(other.nodes[0]!.service.start()), /configured for \[node-1, node-2, node-4\]/);
  await ring.stop();
  await ring.clock.run(second);
});

test("single node: empty store: serves at once, alone", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  assert.ok(isReady(ring.nodes[0]!));
});

test("copy: rows beyond a page: all of them, in pages", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  const rows = Array.from({ length: 2500 }, (_, at) => rowEntry(at));
  for (const node of [first, second])
    await node.store.batch(
      rows.map(({ key, value }) => ({ kind: "put", key, value })),
      { sync: true },
    );
  await ring.halt(third);
  await ring.restart(third, EMPTY);
  assert.deepEqual(rowsOf(third), rowsOf(first));
});

function rowEntry(at: number): KeyValueEntry {
  const key: RowKey = { table: "many", partition: [{ kind: "text", value: "p" }], clustering: [{ kind: "bigint", value: BigInt(at) }] };
  const mutation: Mutation = { kind: "insert", key, columns: [], timestampUs: timestampUsOf(5n) };
  return { key: storedRowKey(encodeRowKey(key)), value: sealRecord(1, encodeImage(imageOf(mutation)), checksum) };
}

test("marker: damaged: the node does not start", async () => {
  ring = new MemoryRing({ size: 1 });
  const store = new MemoryKeyValue();
  await writeMarker(store, { kind: "formed", members: ["node-1"] }, checksum);
  const [entry] = store.contents();
  entry!.value[8]! ^= 1;
  await store.batch([{ kind: "put", key: entry!.key, value: entry!.value }], { sync: true });
  await assert.rejects(ring.clock.run(ring.beginRestart(ring.nodes[0]!, store.crash())), { code: "CORRUPT_DATA" });
});

const OWNER = { group: "g1", epoch: 1n, owner: "txn-1" };

async function append(node: MemoryNode, seq: bigint): Promise<void> {
  const entry = { ...OWNER, seq, previousEpoch: seq === 1n ? 0n : 1n, timestampCeilingUs: 5n, content: Uint8Array.of(Number(seq)) };
  await ring.call(node, "GroupLogService/Append", entry, COORDINATOR);
}

const logOf = (node: MemoryNode): string[] =>
  node.store.contents().flatMap(({ key }) => (key[0] === 0x67 || key[0] === 0x6c ? [Buffer.from(key).toString("hex")] : []));

/** What the disk of a halted node has when its newest write, and the entries with it, turn out to be torn. */
function torn(node: MemoryNode, lost: (key: Uint8Array) => boolean): KeyValueImage {
  const { entries } = node.store.crash();
  return { entries: entries.filter(({ key }) => !lost(key)), cutTail: true };
}

const isLog = (key: Uint8Array): boolean => key[0] === 0x67 || key[0] === 0x6c;

/** A halted node's store after `concord repair --accept-loss`, whose log had applied and dropped both entries. */
async function mendedLog(node: MemoryNode): Promise<KeyValueImage> {
  const store = new MemoryKeyValue(node.store.crash());
  const [{ key, value }] = store.contents().filter((entry) => entry.key[0] === 0x67) as [KeyValueEntry];
  const header = decodeHeader(value, checksum);
  const ahead = { ...header, appliedSeq: seqOf(2n), appliedEpoch: epochOf(1n), droppedSeq: seqOf(2n) };
  const entries = store.contents().filter((entry) => entry.key[0] === 0x6c);
  const drops = entries.map((entry) => ({ kind: "delete" as const, key: entry.key }));
  await store.batch([...drops, { kind: "put", key, value: encodeHeader(ahead, checksum) }], { sync: true });
  await copiesBeforeServing(store, checksum);
  return store.crash();
}

test("[TXR4] store mended with losses: its log dropped entries that the peers have yet to apply: it takes their entries again", async () => {
  const [first, , third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.call(first, "GroupLogService/Raise", { ...OWNER, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  for (const seq of [1n, 2n]) await append(first, seq);
  await ring.clock.advance(1000);
  const held = logOf(third);
  assert.equal(held.length, 3);
  await ring.halt(third);
  await ring.restart(third, await mendedLog(third));
  assert.deepEqual([isReady(third), logOf(third)], [true, held]);
});

test("[TXR4] all three stores mended with losses, entries of a log are nowhere any more: all serve with what is left", async () => {
  const nodes = await formed();
  await ring.call(nodes[0]!, "GroupLogService/Raise", { ...OWNER, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  for (const seq of [1n, 2n]) await append(nodes[0]!, seq);
  await ring.clock.advance(1000);
  for (const node of nodes) await ring.halt(node);
  const images = await Promise.all(nodes.map(mendedLog));
  await ring.clock.run(Promise.all(nodes.map((node, at) => ring.beginRestart(node, images[at]!))));
  for (const node of nodes) assert.deepEqual([isReady(node), logOf(node).length], [true, 1]);
});

test("[TXR2] torn journal: a peer is missing: votes for nothing, also after another restart; both are back: holds what it had accepted", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.call(first, "GroupLogService/Raise", { ...OWNER, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  await ring.halt(second);
  await append(first, 1n);
  await ring.clock.advance(1000);
  const held = logOf(third);
  await ring.halt(third);
  // Its entry was acknowledged, and is now at the first node only.
  const image = torn(third, isLog);
  for (const restart of ["first", "second"]) {
    const starting = ring.beginRestart(third, restart === "first" ? image : third.store.crash());
    void starting.catch(() => undefined);
    await ring.clock.advance(3_000);
    assert.equal(isReady(third), false, restart);
    await assert.rejects(ring.call(third, "ReplicaService/LogRaise", { ...OWNER, epoch: 2n }, PEER), { code: "STARTING" });
    assert.equal(third.store.cutTail, true);
    await ring.halt(third);
  }
  const starting = ring.beginRestart(third, third.store.crash());
  await ring.clock.run(Promise.all([starting, ring.beginRestart(second, second.store.crash())]));
  assert.ok(isReady(third));
  assert.equal(third.store.cutTail, false);
  assert.deepEqual(logOf(third), held);
});

test("[TXR2] torn journals of all three at once: none waits for another to serve; what one holds all hold", async () => {
  const nodes = await formed();
  await ring.call(nodes[0]!, "GroupLogService/Raise", { ...OWNER, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  await append(nodes[0]!, 1n);
  await ring.clock.advance(1000);
  const held = logOf(nodes[0]!);
  for (const node of nodes) await ring.halt(node);
  const images = nodes.map((node, at) => torn(node, at === 0 ? () => false : isLog));
  await ring.clock.run(Promise.all(nodes.map((node, at) => ring.beginRestart(node, images[at]!))));
  for (const node of nodes) assert.deepEqual(logOf(node), held);
});

test("torn journal on a ring of one: nothing knows more: serves, and the doubt ends with the report", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  const [node] = ring.nodes as [MemoryNode];
  await ring.halt(node);
  await ring.restart(
    node,
    torn(node, () => false),
  );
  assert.deepEqual([isReady(node), node.store.cutTail], [true, false]);
});

test("[TXR4] two lagging stores: each is copied from the other, too: both serve", async () => {
  const [first, second, third] = (await formed()) as [MemoryNode, MemoryNode, MemoryNode];
  await ring.call(first, "GroupLogService/Raise", { ...OWNER, protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  for (let seq = 1n; seq <= 3n; seq += 1n) await append(first, seq);
  await write(first, 1);
  await ring.clock.advance(1000);
  await ring.halt(second);
  await ring.halt(third);
  const images = [await lagging(second), await lagging(third)];
  await ring.clock.run(Promise.all([second, third].map((node, at) => ring.beginRestart(node, images[at]!))));
  assert.ok(isReady(second) && isReady(third));
  for (const node of [second, third]) assert.deepEqual(await readMarker(node.store, checksum), { kind: "formed", members: MEMBERS });
});
