// Reading a peer's log of a group page by page while its owner goes on (TXR4).
import assert from "node:assert/strict";
import { test } from "node:test";
import { logStateToWire, PeerSession } from "@concord/adapter-ring";
import { encodeHeader, headerKey, type LogReadRequest, type ReplicaLogState } from "@concord/group-log";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { KeyValueEntry, RowKey } from "@concord/ports";
import { readForgotten, ROWS_NAMESPACE, rowsOfEntry, sealMerged, storedRowKey } from "@concord/quorum";
import { encodeImage, encodeRowKey, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { ConcordError, epochOf, seqOf, silentLog, timestampUsOf } from "@concord/runtime";
import { crc32 } from "node:zlib";
import { copyStore, readWhole, type CopyOptions } from "./copy-store.ts";

const entry = (seq: number, epoch: number): ReplicaLogState["entries"][number] => ({
  seq: seqOf(BigInt(seq)),
  epoch: epochOf(BigInt(epoch)),
  bytes: Uint8Array.of(seq, epoch),
  rows: new Uint8Array(),
});

/** A peer that answers two entries at a time; before each read it may change. */
function peer(entries: ReplicaLogState["entries"][number][], before: (read: number) => void = () => undefined) {
  let reads = 0;
  return {
    logRead: ({ fromSeq }: LogReadRequest): Promise<ReplicaLogState> => {
      before((reads += 1));
      const last = entries.at(-1)!;
      return Promise.resolve({
        promisedEpoch: epochOf(3n),
        owner: "c",
        appliedSeq: seqOf(4n),
        appliedEpoch: epochOf(2n),
        lastSeq: last.seq,
        lastEpoch: last.epoch,
        timestampCeilingUs: timestampUsOf(0n),
        droppedSeq: seqOf(0n),
        entries: entries.filter(({ seq }) => seq >= fromSeq).slice(0, 2),
      });
    },
  };
}

const labels = (state: ReplicaLogState): string[] => state.entries.map(({ seq, epoch }) => `${seq}@${epoch}`);

test("[TXR4] copy: a log of several pages: every entry once", async () => {
  const entries = [entry(5, 2), entry(6, 2), entry(7, 2), entry(8, 3)];
  assert.deepEqual(labels(await readWhole(peer(entries), "g", seqOf(4n))), ["5@2", "6@2", "7@2", "8@3"]);
});

test("[TXR4] copy: a stale entry at the end of a page is replaced before the next page is read: REPLICAS_UNAVAILABLE", async () => {
  const entries = [entry(5, 3), entry(6, 2)];
  const source = peer(entries, (read) => {
    if (read === 1) entries.push(entry(7, 2));
    if (read === 2) entries.splice(1, 2, entry(6, 3), entry(7, 3));
  });
  await assert.rejects(readWhole(source, "g", seqOf(4n)), { code: "REPLICAS_UNAVAILABLE" });
});

const checksum = (bytes: Uint8Array): number => crc32(bytes);

/** The row of a key as the entry `seq` of group g put it. */
function row(name: string, seq: number): KeyValueEntry {
  const key: RowKey = { table: "notes", partition: [{ kind: "text", value: name }], clustering: [] };
  const rows = joinRows([encodeRowsPart([imageOf({ kind: "insert", key, columns: [], timestampUs: timestampUsOf(BigInt(seq)) })])]);
  const [operation] = rowsOfEntry("g", { seq: seqOf(BigInt(seq)), rows }, checksum);
  assert.ok(operation?.kind === "put");
  return operation;
}

interface CopiedState {
  readonly forgottenUs?: number;
  readonly recovering?: boolean;
  readonly lacksRows?: boolean;
}

/** A peer that has applied group g up to `appliedSeq`, and what of its store it gives out, two entries a page. */
function copiedPeer(name: string, appliedSeq: number, rows: readonly KeyValueEntry[], state: CopiedState = {}): PeerSession {
  const { forgottenUs = 0, recovering = false, lacksRows = false } = state;
  const seq = seqOf(BigInt(appliedSeq));
  const zero = { timestampCeilingUs: timestampUsOf(0n), promisedEpoch: epochOf(1n), owner: "a" };
  const header = { ...zero, appliedSeq: seq, appliedEpoch: epochOf(1n), droppedSeq: seq };
  const value = encodeHeader(header, checksum);
  const contents = [{ key: headerKey("g"), value }, ...rows].toSorted((left, right) => Buffer.compare(left.key, right.key));
  const peer: Pick<PeerSession, "name" | "copy" | "call"> = {
    name,
    copy: (afterKey) => {
      const behind = contents.filter(({ key }) => Buffer.compare(key, afterKey) > 0);
      const entries = behind.slice(0, 2).map(({ key, value: copied }) => ({ key, value: copied, leftOutBytes: 0n }));
      const page = { entries, done: behind.length <= 2, lastKey: entries.at(-1)?.key ?? afterKey, recovering, lacksRows };
      return Promise.resolve({ ...page, collection: `${name}-${forgottenUs}`, forgottenUs: BigInt(forgottenUs) });
    },
    call: () => {
      const last = { lastSeq: seq, lastEpoch: epochOf(1n) };
      return Promise.resolve({ state: logStateToWire({ ...header, ...last, entries: [] }) }) as never;
    },
  };
  return Object.assign(Object.create(PeerSession.prototype) as PeerSession, peer);
}

async function rowsCopied(logs: CopyOptions["logs"], own: readonly KeyValueEntry[], peers: readonly PeerSession[]): Promise<string[]> {
  const store = new MemoryKeyValue({ entries: own });
  await copyStore({ store, peers, checksum, log: silentLog, logs, rows: logs === "lost" ? "lost" : "whole" });
  return hexOf(...store.contents().filter(({ key }) => key[0] === ROWS_NAMESPACE));
}

const hexOf = (...rows: readonly KeyValueEntry[]): string[] => rows.map(({ value }) => Buffer.from(value).toString("hex")).toSorted();

test("[TXR4] copy over own rows: both peers have forgotten the deletion of one: it is removed, wherever it lies in a page", async () => {
  const kept = [row("b", 3), row("d", 4)];
  const peers = [copiedPeer("p1", 9, kept), copiedPeer("p2", 9, kept)];
  const own = [row("a", 5), row("c", 5), row("e", 5), ...kept];
  assert.deepEqual(await rowsCopied("own", own, peers), hexOf(...kept));
});

test("[TXR4] copy over own rows: what this node applied and the peers have not yet: stays", async () => {
  const own = [row("a", 8), row("b", 3)];
  const peers = [copiedPeer("p1", 7, [row("b", 3)]), copiedPeer("p2", 6, [row("b", 3)])];
  assert.deepEqual(await rowsCopied("own", own, peers), hexOf(...own));
});

test("[TXR4] copy: one peer gave a row before it deleted it, the other has forgotten the deletion: the row is not copied", async () => {
  const old = copiedPeer("p1", 6, [row("a", 5), row("b", 3)]);
  const ahead = copiedPeer("p2", 9, [row("b", 3)]);
  assert.deepEqual(await rowsCopied("lost", [], [old, ahead]), hexOf(row("b", 3)));
  assert.deepEqual(await rowsCopied("lost", [], [ahead, old]), hexOf(row("b", 3)));
});

test("[TXR4] copy: a peer lost rows in a repair: a row that it lacks was not deleted: the other one's is copied", async () => {
  const mended = copiedPeer("p1", 9, [row("b", 3)], { recovering: true, lacksRows: true });
  const whole = copiedPeer("p2", 9, [row("a", 5), row("b", 3)]);
  for (const peers of [
    [mended, whole],
    [whole, mended],
  ])
    assert.deepEqual(await rowsCopied("lost", [], peers), hexOf(row("a", 5), row("b", 3)));
});

test("[TXR4] copy: calls whose answers are lost: asked again soon, and a peer that never answers ends the copy", async () => {
  const kept = [row("a", 3), row("b", 4), row("c", 4)];
  const budgetsMs: number[] = [];
  const losing = (from: PeerSession, losses: number): PeerSession => {
    const { copy } = from;
    let calls = 0;
    return Object.assign(from, {
      copy: (...[afterKey, limit, timeoutMs]: Parameters<PeerSession["copy"]>) => {
        budgetsMs.push(timeoutMs);
        if ((calls += 1) <= losses) return Promise.reject(new ConcordError("DEADLINE_EXCEEDED", "ordered by the test"));
        return copy(afterKey, limit, timeoutMs);
      },
    });
  };
  const other = copiedPeer("p2", 9, kept);
  assert.deepEqual(await rowsCopied("lost", [], [losing(copiedPeer("p1", 9, kept), 2), other]), hexOf(...kept));
  assert.deepEqual(budgetsMs.slice(0, 4), [1_000, 2_000, 4_000, 1_000]);
  budgetsMs.length = 0;
  await assert.rejects(rowsCopied("lost", [], [losing(copiedPeer("p1", 9, kept), Infinity), other]), { code: "DEADLINE_EXCEEDED" });
  assert.deepEqual(budgetsMs, [1_000, 2_000, 4_000, 8_000, 10_000]);
});

/** A plain row, or its deletion. */
function plainRow(name: string, kind: "insert" | "delete", timestampUs: number): KeyValueEntry {
  const key: RowKey = { table: "plain", partition: [{ kind: "text", value: name }], clustering: [] };
  const at = { key, timestampUs: timestampUsOf(BigInt(timestampUs)) };
  const image = imageOf(kind === "insert" ? { kind, ...at, columns: [] } : { kind, ...at });
  return { key: storedRowKey(encodeRowKey(key)), value: sealMerged(encodeImage(image), checksum) };
}

test("[TXR4] copy: a peer drops tombstones meanwhile: made anew, and what the first try brought goes; then what the peers have forgotten is noted", async () => {
  const [old, kept] = [plainRow("a", "insert", 1), plainRow("b", "insert", 9)];
  const before = [copiedPeer("p1", 9, [old, kept]), copiedPeer("p2", 9, [kept])];
  const after = [copiedPeer("p1", 9, [kept], { forgottenUs: 5 }), copiedPeer("p2", 9, [kept], { forgottenUs: 4 })];
  // All of the first peer is read before the deletion of "a" reaches it; the second one had it, and drops it now.
  let headers = 0;
  const changing = before.map((peer, at) => {
    return Object.assign(Object.create(PeerSession.prototype) as PeerSession, {
      name: peer.name,
      copy: (...call: Parameters<PeerSession["copy"]>) => {
        if (call[3] === true) headers += 1;
        return (headers <= 2 ? peer : after[at]!).copy(...call);
      },
      call: peer.call,
    });
  });
  const store = new MemoryKeyValue();
  const progress: string[] = [];
  const doing = (text: string): void => void progress.push(text);
  const copy = (): Promise<void> => copyStore({ store, peers: changing, checksum, log: silentLog, logs: "lost", rows: "lost", doing });
  await assert.rejects(copy(), { code: "REPLICAS_UNAVAILABLE" });
  await copy();
  assert.deepEqual(hexOf(...store.contents().filter(({ key }) => key[0] === ROWS_NAMESPACE)), hexOf(kept));
  assert.equal(await readForgotten(store, checksum), 5n);
  assert.ok(progress.includes("copying the store from p2: 5 entries, 0 MiB so far"), progress.join("\n"));
});

/** A store with the header of group g, applied and dropped up to `seq`. */
function ownLog(seq: number): MemoryKeyValue {
  const at = seqOf(BigInt(seq));
  const zero = { timestampCeilingUs: timestampUsOf(0n), promisedEpoch: epochOf(1n), owner: "a" };
  const value = encodeHeader({ ...zero, appliedSeq: at, appliedEpoch: epochOf(1n), droppedSeq: at }, checksum);
  return new MemoryKeyValue({ entries: [{ key: headerKey("g"), value }] });
}

test("[TXR4] copy into cleared ranges: the own log has dropped entries that no peer had applied: their rows are nowhere, REPLICAS_UNAVAILABLE", async () => {
  const peers = [copiedPeer("p1", 7, []), copiedPeer("p2", 6, [])];
  const into = (seq: number, rows: CopyOptions["rows"]): Promise<void> =>
    copyStore({ store: ownLog(seq), peers, checksum, log: silentLog, logs: "own", rows });
  await assert.rejects(into(9, "cleared"), { code: "REPLICAS_UNAVAILABLE" });
  await into(9, "whole");
  await into(7, "cleared");
});

test("[TXR4] copy into cleared ranges: a peer that recovers is waited for; one that serves is copied", async () => {
  const from = (state: CopiedState): Promise<void> => {
    const peers = [copiedPeer("p1", 9, [row("a", 3)], state), copiedPeer("p2", 9, [row("a", 3)])];
    return copyStore({ store: ownLog(9), peers, checksum, log: silentLog, logs: "own", rows: "cleared" });
  };
  await assert.rejects(from({ recovering: true }), { code: "REPLICAS_UNAVAILABLE", message: /p1 .* once it serves/ });
  await assert.rejects(from({ recovering: true, lacksRows: true }), { code: "REPLICAS_UNAVAILABLE" });
  await from({});
});
