import { COPY_PAGE_ENTRIES_MAX, readLarge, RemoteLogReplica, type PeerSession } from "@concord/adapter-ring";
import { compareBytes, keyText } from "@concord/codec";
import type { StoreEntry } from "@concord/protos-storage";
import {
  decodeHeader,
  GROUPS_MAX,
  LOG_READ_ENTRIES_MAX,
  readHeaderKey,
  readStoredGroup,
  restoreGroup,
  type LogReplica,
  type ReplicaLogState,
} from "@concord/group-log";
import type { KeyValue, KeyValueOperation, LogPosition } from "@concord/ports";
import { decodeImage } from "@concord/rows";
import { forgottenNote, mergeAnswers, openRow, readForgotten, ROWS_NAMESPACE, tombstoneOf } from "@concord/quorum";
import {
  ConcordError,
  isTimestampUs,
  nextSeq,
  SEQ_NONE,
  TIMESTAMP_ZERO,
  toConcordError,
  type Checksum,
  type Log,
  type Seq,
} from "@concord/runtime";
import { COPY_CALL_FIRST_MS, COPY_CALL_TIMEOUT_MS, COPY_PAGE_BYTES_TARGET } from "../limits.ts";

/** First bytes of what peers copy from each other; 'd', 'm', 't' and 'x' are a node's own, 'l' comes with its group (see below). */
export const COPIED_NAMESPACES = [0x62 /* b */, 0x67 /* g */, ROWS_NAMESPACE /* r */] as const;
export const HEADERS_NAMESPACE = 0x67;
const ENTRIES_NAMESPACE = 0x6c;
const FIRST_ROW = Uint8Array.of(ROWS_NAMESPACE);
const BYTES_PER_MIB = 1024 * 1024;
const BEHIND_ROWS = Uint8Array.of(ROWS_NAMESPACE + 1);

export interface CopyOptions {
  readonly store: KeyValue;
  readonly peers: readonly PeerSession[];
  readonly checksum: Checksum;
  readonly log: Log;
  /** Shows an operator how far the copy is. */
  readonly doing?: (text: string) => void;
  /** `lost`: what the store holds of group logs is the rest of an interrupted copy. `own`: it is the node's own, which counts. */
  readonly logs: "lost" | "own";
  /**
   * Rows of the store. "whole": all that it acknowledged. "lost": some are missing, or older than they were; they go first when both peers are whole, since
   * a row whose deletion was lost would return. "cleared": those of some ranges are deleted, the others whole; both peers must serve.
   */
  readonly rows: "whole" | "lost" | "cleared";
}

/** Entries of a group up to which the copied rows hold what followed from them. */
interface CopiedRows {
  readonly provenSeq: Seq;
  /** The same if nothing had been lost: counts when the entries from `provenSeq` on are nowhere any more. */
  readonly claimedSeq: Seq;
}

const NO_ROWS: CopiedRows = { provenSeq: SEQ_NONE, claimedSeq: SEQ_NONE };
const later = (left: Seq, right: Seq): Seq => (left > right ? left : right);

/**
 * Fills the store from both peers (TXR4): rows united, batchlog united, of each group log the newest promise, mark and entries. A peer's
 * header comes before its rows, so these hold what it had applied then; the entries after that bring the rest (`restoreGroup`).
 */
export async function copyStore(options: CopyOptions): Promise<void> {
  if (options.logs === "lost") await forget(options.store, [HEADERS_NAMESPACE, ENTRIES_NAMESPACE, ROWS_NAMESPACE]);
  const before = await collectionsOf(options.peers);
  if (options.logs === "own" && areRowsLost(options, before)) await forget(options.store, [ROWS_NAMESPACE]);
  /** Of each group: some peer had applied so much before its rows were copied. */
  const groups = new Map<string, CopiedRows>();
  /** The same, of the peers that were read and are whole. */
  const earlier = new Map<string, Seq>();
  let [entries, bytes] = [0, 0];
  for (const peer of options.peers) {
    /** The same of this peer, as far as its rows are sure to follow from it. */
    const applied = new Map<string, Seq>();
    let afterKey: Uint8Array = new Uint8Array();
    for (let done = false; !done;) {
      const page = await asked((timeoutMs) => peer.copy(afterKey, COPY_PAGE_ENTRIES_MAX, timeoutMs));
      for (const { key, value } of page.entries) {
        if (key[0] !== HEADERS_NAMESPACE) continue;
        const [group, { appliedSeq, droppedSeq }] = [readHeaderKey(key), decodeHeader(value, options.checksum)];
        // Of a peer that is being copied itself only what its own checkpoint holds is sure to be among its rows.
        const copiedSeq = page.recovering ? droppedSeq : appliedSeq;
        const { provenSeq, claimedSeq } = groups.get(group) ?? NO_ROWS;
        if (!page.lacksRows) applied.set(group, copiedSeq);
        groups.set(group, {
          provenSeq: page.lacksRows ? provenSeq : later(provenSeq, copiedSeq),
          claimedSeq: later(claimedSeq, copiedSeq),
        });
      }
      const copied = await wholeEntries(
        peer,
        page.entries.filter(({ key }) => key[0] !== HEADERS_NAMESPACE),
      );
      await mergeEntries(options, copied, earlier);
      const to = page.done ? BEHIND_ROWS : successor(page.lastKey);
      await removeDeleted(options, { from: laterOf(FIRST_ROW, afterKey), to }, copied, applied);
      entries += page.entries.length;
      bytes += copied.reduce((sum, { value }) => sum + value.length, 0);
      options.doing?.(`copying the store from ${peer.name}: ${entries} entries, ${Math.round(bytes / BYTES_PER_MIB)} MiB so far`);
      done = page.done;
      afterKey = page.lastKey;
    }
    for (const [group, seq] of applied) earlier.set(group, later(earlier.get(group) ?? SEQ_NONE, seq));
  }
  const after = await collectionsOf(options.peers);
  if (after.some(({ collection }, at) => collection !== before[at]!.collection))
    throw new ConcordError(
      "REPLICAS_UNAVAILABLE",
      "a peer has dropped tombstones while its rows were copied: what they deleted may be among the copies",
    );
  await noteForgotten(options, after);
  options.doing?.(`copying the logs of ${groups.size} groups from the peers`);
  for (const [group, copied] of groups) await copyGroup(options, group, copied, before);
  options.log.info("store copied from the peers", { entries, groups: groups.size });
}

/** Entries of a page with the values that do not fit into one; a row that is gone since is left out, as if the page had been read later. */
async function wholeEntries(peer: PeerSession, entries: readonly StoreEntry[]): Promise<readonly StoreEntry[]> {
  if (entries.every(({ leftOutBytes }) => leftOutBytes === 0n)) return entries;
  const whole: StoreEntry[] = [];
  for (const entry of entries) {
    const value = entry.leftOutBytes === 0n ? entry.value : await readLarge(peer, entry.key, COPY_CALL_TIMEOUT_MS);
    if (value !== undefined) whole.push({ key: entry.key, value, leftOutBytes: 0n });
  }
  return whole;
}

/** Every group of which this store or a peer's holds a log. */
export async function readGroups({ store, peers }: Pick<CopyOptions, "store" | "peers">): Promise<ReadonlySet<string>> {
  const range = { from: Uint8Array.of(HEADERS_NAMESPACE), to: Uint8Array.of(HEADERS_NAMESPACE + 1), limit: GROUPS_MAX };
  const groups = new Set((await store.range(range)).map(({ key }) => readHeaderKey(key)));
  for (const peer of peers) for (const { key } of await readHeaders(peer)) groups.add(readHeaderKey(key));
  return groups;
}

/** How far the peer has applied the log of each group that it holds. */
export async function readApplied(peer: PeerSession, checksum: Checksum): Promise<readonly LogPosition[]> {
  const headers = await readHeaders(peer);
  return headers.map(({ key, value }) => ({ group: readHeaderKey(key), seq: decodeHeader(value, checksum).appliedSeq }));
}

/** Headers of the peer's group logs. */
async function readHeaders(peer: PeerSession): Promise<readonly StoreEntry[]> {
  const headers: StoreEntry[] = [];
  let afterKey: Uint8Array = new Uint8Array();
  for (let done = false; !done;) {
    const page = await asked((timeoutMs) => peer.copy(afterKey, COPY_PAGE_ENTRIES_MAX, timeoutMs, true));
    headers.push(...page.entries);
    ({ done, lastKey: afterKey } = page);
  }
  return headers;
}

/** One batch replaces what the store holds of the group. */
async function copyGroup(options: CopyOptions, group: string, copied: CopiedRows, answers: readonly Collection[]): Promise<void> {
  const { store, checksum, logs, log, rows } = options;
  const own = logs === "own" ? await readStoredGroup(store, group, checksum) : undefined;
  const lacking = { own: rows !== "whole", peers: answers.map(({ lacksRows }) => lacksRows) };
  const restored = await restoreFrom(options, group, copied.provenSeq, own, lacking).catch(async (thrown: unknown) => {
    const claimedSeq = lacking.own && own !== undefined ? later(copied.claimedSeq, own.droppedSeq) : copied.claimedSeq;
    if (claimedSeq === copied.provenSeq || !lacking.peers.includes(true)) throw thrown;
    log.warn("rows of a group were lost at two nodes in repairs, and its entries are gone: what is left is kept", { group });
    return restoreFrom(options, group, claimedSeq, own, { own: false, peers: [] });
  });
  await store.batch(restored, { sync: true });
}

async function restoreFrom(
  { peers, checksum }: CopyOptions,
  group: string,
  copiedSeq: Seq,
  own: ReplicaLogState | undefined,
  lacking: { readonly own: boolean; readonly peers: readonly boolean[] },
): Promise<KeyValueOperation[]> {
  const read = peers.map(async (peer, at) => {
    return { ...(await readWhole(new RemoteLogReplica(peer), group, copiedSeq)), lacksRows: lacking.peers[at] === true };
  });
  return restoreGroup(group, copiedSeq, await Promise.all(read), checksum, own && { ...own, lacksRows: lacking.own });
}

/**
 * A peer's state with all entries after `copiedSeq`, page by page; each page repeats the last entry of the one before, which may have been
 * replaced meanwhile. REPLICAS_UNAVAILABLE when it was, or when another owner raised.
 */
export async function readWhole(replica: Pick<LogReplica, "logRead">, group: string, copiedSeq: Seq): Promise<ReplicaLogState> {
  const read = (fromSeq: Seq): Promise<ReplicaLogState> => {
    return asked((timeoutMs) => replica.logRead({ group, fromSeq, limit: LOG_READ_ENTRIES_MAX, recovering: true }, timeoutMs));
  };
  let state = await read(nextSeq(copiedSeq));
  const { promisedEpoch } = state;
  let { entries } = state;
  for (let last = entries.at(-1); last !== undefined && last.seq < state.lastSeq; last = entries.at(-1)) {
    state = await read(last.seq);
    const [again, next] = state.entries;
    if (state.promisedEpoch !== promisedEpoch || again?.epoch !== last.epoch || next?.seq !== nextSeq(last.seq))
      throw new ConcordError("REPLICAS_UNAVAILABLE", `the log of group ${group} changed while it was copied`);
    entries = [...entries, ...state.entries.slice(1)];
  }
  return { ...state, entries };
}

interface Collection {
  readonly collection: string;
  readonly forgottenUs: bigint;
  readonly recovering: boolean;
  readonly lacksRows: boolean;
}

/**
 * Whether the own rows go before the copy: both peers have every row that this store acknowledged. A peer that lost rows, too, may have acknowledged some
 * with this node alone: then what both have left is united. REPLICAS_UNAVAILABLE for a whole store: a row of that peer may be one that all have deleted. And
 * for one with cleared ranges, beside a peer that recovers: the peer may lack what this store had acknowledged with it alone.
 */
function areRowsLost({ rows, peers }: CopyOptions, answers: readonly Collection[]): boolean {
  const awaited = peers.filter((_, at) => answers[at]?.lacksRows === true || (rows === "cleared" && answers[at]?.recovering === true));
  if (awaited.length === 0) return rows === "lost";
  if (rows === "lost") return false;
  const names = awaited.map(({ name }) => name).join(", ");
  throw new ConcordError("REPLICAS_UNAVAILABLE", `${names} lacks rows, or catches up itself: copied from once it serves`);
}

/** What each peer has dropped so far. */
function collectionsOf(peers: readonly PeerSession[]): Promise<readonly Collection[]> {
  return Promise.all(peers.map((peer) => asked((timeoutMs) => peer.copy(new Uint8Array(), 1, timeoutMs, true))));
}

/** Writes that the peers refuse, since tombstones of theirs are gone, are to be refused here too (I12 of the quorum README). */
async function noteForgotten({ store, checksum }: CopyOptions, peers: readonly Collection[]): Promise<void> {
  let newestUs = await readForgotten(store, checksum);
  for (const { forgottenUs } of peers) if (isTimestampUs(forgottenUs) && forgottenUs > newestUs) newestUs = forgottenUs;
  if (newestUs > TIMESTAMP_ZERO) await store.batch([forgottenNote(newestUs, checksum)], { sync: true });
}

/**
 * What an interrupted copy left of the group logs may have been trimmed since: it would leave a gap in the tail. And what it left of rows may have been
 * deleted since, and the deletion dropped.
 */
async function forget(store: KeyValue, namespaces: readonly number[]): Promise<void> {
  for (const namespace of namespaces) {
    for (;;) {
      const limits = { limit: COPY_PAGE_ENTRIES_MAX, bytesMax: COPY_PAGE_BYTES_TARGET };
      const found = await store.range({ from: Uint8Array.of(namespace), to: Uint8Array.of(namespace + 1), ...limits });
      if (found.length === 0) break;
      await store.batch(
        found.map(({ key }) => ({ kind: "delete", key })),
        { sync: true },
      );
    }
  }
}

/**
 * Merges a page into what the store has from the other peer, from a copy that was interrupted, or of its own. `earlier`: how far the peers
 * before had applied each group. A row that they put and lack is deleted, and its tombstone forgotten (I8 of the quorum README).
 */
async function mergeEntries(options: CopyOptions, entries: readonly StoreEntry[], earlier: ReadonlyMap<string, Seq>): Promise<void> {
  const { store, checksum, log } = options;
  const present = await store.getMany(entries.map(({ key }) => key));
  const operations: KeyValueOperation[] = [];
  for (const [at, { key, value }] of entries.entries()) {
    const other = present[at];
    const isRow = key[0] === ROWS_NAMESPACE;
    if (isRow && other === undefined && hasApplied(earlier, value, checksum)) continue;
    const merged = other === undefined || !isRow ? value : mergeRows(value, other, checksum, log);
    operations.push({ kind: "put", key, value: merged });
    const tombstone = isRow && isSound(merged, checksum) ? tombstoneOf(openRow(merged, checksum)) : undefined;
    if (tombstone !== undefined) operations.push(tombstone);
  }
  // Each page for itself: a store that has begun another file of its own since does not sync the earlier one with a later write.
  if (operations.length > 0) await store.batch(operations, { sync: true });
}

/** Removes rows within the keys of a page that the peer lacks though it had applied their entries: it has deleted and forgotten them. */
async function removeDeleted(
  { store, checksum }: CopyOptions,
  { from, to }: { readonly from: Uint8Array; readonly to: Uint8Array },
  page: readonly StoreEntry[],
  applied: ReadonlyMap<string, Seq>,
): Promise<void> {
  const copied = new Set(page.map(({ key }) => keyText(key)));
  let next = from;
  while (compareBytes(next, to) < 0) {
    const found = await store.range({ from: next, to, limit: COPY_PAGE_ENTRIES_MAX, bytesMax: COPY_PAGE_BYTES_TARGET });
    const last = found.at(-1);
    if (last === undefined) return;
    const deleted = found.filter(({ key, value }) => !copied.has(keyText(key)) && hasApplied(applied, value, checksum));
    const operations = deleted.map(({ key }): KeyValueOperation => ({ kind: "delete", key }));
    if (operations.length > 0) await store.batch(operations, { sync: true });
    next = successor(last.key);
  }
}

/** Had the peer applied the entry that put this row? False of rows that follow from no log, and of damaged ones, which both peers' copies heal. */
function hasApplied(applied: ReadonlyMap<string, Seq>, stored: Uint8Array, checksum: Checksum): boolean {
  if (!isSound(stored, checksum)) return false;
  const { place } = openRow(stored, checksum);
  return place !== undefined && (applied.get(place.group) ?? SEQ_NONE) >= place.seq;
}

function laterOf(first: Uint8Array, afterKey: Uint8Array): Uint8Array {
  return compareBytes(first, afterKey) > 0 ? first : successor(afterKey);
}

/** The smallest key above this one. */
function successor(key: Uint8Array): Uint8Array {
  return Uint8Array.of(...key, 0);
}

function mergeRows(left: Uint8Array, right: Uint8Array, checksum: Checksum, log: Log): Uint8Array {
  try {
    return mergeAnswers([left, right], checksum).bytes;
  } catch (thrown) {
    // The sound one of two is kept; of two corrupt ones either, so that this replica refuses to answer for the row as they do.
    log.error("a row came corrupt from a peer", { reason: toConcordError(thrown).message });
    return isSound(left, checksum) ? left : right;
  }
}

function isSound(value: Uint8Array, checksum: Checksum): boolean {
  try {
    decodeImage(openRow(value, checksum).image);
    return true;
  } catch {
    return false;
  }
}

/** Reads are asked for again while no answer comes, each time with twice the time. */
async function asked<Answer>(call: (timeoutMs: number) => Promise<Answer>): Promise<Answer> {
  let timeoutMs = COPY_CALL_FIRST_MS;
  for (;;) {
    try {
      return await call(timeoutMs);
    } catch (thrown) {
      if (timeoutMs === COPY_CALL_TIMEOUT_MS || toConcordError(thrown).code !== "DEADLINE_EXCEEDED") throw thrown;
      timeoutMs = Math.min(2 * timeoutMs, COPY_CALL_TIMEOUT_MS);
    }
  }
}
