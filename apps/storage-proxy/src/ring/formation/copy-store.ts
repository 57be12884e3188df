import { COPY_PAGE_ENTRIES_MAX, RemoteLogReplica, type PeerSession } from "@concord/adapter-ring";
import type { StoreEntry } from "@concord/protos-storage";
import { LOG_READ_ENTRIES_MAX, readHeaderKey, restoreGroup } from "@concord/group-log";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { decodeImage, encodeImage, mergeImages } from "@concord/rows";
import { sealRecord } from "@concord/codec";
import { openRow, ROW_FORMAT_VERSION, ROWS_NAMESPACE } from "@concord/quorum";
import { nextSeq, SEQ_NONE, toConcordError, type Checksum, type Log } from "@concord/runtime";
import { COPY_CALL_TIMEOUT_MS } from "../limits.ts";

/** First bytes of what peers copy from each other; 'd', 'm' and 'x' are a node's own, 'l' comes with its group (see below). */
export const COPIED_NAMESPACES = [0x62 /* b */, 0x67 /* g */, ROWS_NAMESPACE /* r */] as const;
const GROUP_HEADERS = 0x67;
const GROUP_ENTRIES = 0x6c;

export interface CopyOptions {
  readonly store: KeyValue;
  readonly peers: readonly PeerSession[];
  readonly checksum: Checksum;
  readonly log: Log;
}

/**
 * Fills the store from both peers (TXR4): rows merged, batchlog united, of each group log the newest promise, mark and entries. Group
 * logs are asked for whole, one group at a time: a page of headers and a later page of entries could have a trim between them.
 */
export async function copyStore(options: CopyOptions): Promise<void> {
  await forgetLogs(options.store);
  const groups = new Set<string>();
  let entries = 0;
  for (const peer of options.peers) {
    let afterKey: Uint8Array = new Uint8Array();
    for (let done = false; !done;) {
      const page = await peer.copy(afterKey, COPY_PAGE_ENTRIES_MAX, COPY_CALL_TIMEOUT_MS);
      for (const { key } of page.entries) if (key[0] === GROUP_HEADERS) groups.add(readHeaderKey(key));
      await mergeEntries(
        options,
        page.entries.filter(({ key }) => key[0] !== GROUP_HEADERS),
      );
      entries += page.entries.length;
      done = page.done;
      afterKey = page.lastKey;
    }
  }
  for (const group of groups) await copyGroup(options, group);
  options.log.info("store copied from the peers", { entries, groups: groups.size });
}

async function copyGroup({ store, peers, checksum }: CopyOptions, group: string): Promise<void> {
  const read = { group, fromSeq: nextSeq(SEQ_NONE), limit: LOG_READ_ENTRIES_MAX };
  const states = await Promise.all(peers.map((peer) => new RemoteLogReplica(peer).logRead(read, COPY_CALL_TIMEOUT_MS)));
  await store.batch(restoreGroup(group, states, checksum), { sync: true });
}

/** What an interrupted copy left of the group logs may have been trimmed since: it would leave a gap in the tail. */
async function forgetLogs(store: KeyValue): Promise<void> {
  for (const namespace of [GROUP_HEADERS, GROUP_ENTRIES]) {
    for (;;) {
      const found = await store.range({ from: Uint8Array.of(namespace), to: Uint8Array.of(namespace + 1), limit: COPY_PAGE_ENTRIES_MAX });
      if (found.length === 0) break;
      await store.batch(
        found.map(({ key }) => ({ kind: "delete", key })),
        { sync: true },
      );
    }
  }
}

/** Merges a page into what the store has from the other peer, or from a copy that was interrupted. */
async function mergeEntries({ store, checksum, log }: CopyOptions, entries: readonly StoreEntry[]): Promise<void> {
  const present = await store.getMany(entries.map(({ key }) => key));
  const operations = entries.map(({ key, value }, at): KeyValueOperation => {
    const other = present[at];
    const isRow = key[0] === ROWS_NAMESPACE;
    return { kind: "put", key, value: other === undefined || !isRow ? value : mergeRows(value, other, checksum, log) };
  });
  // Each page for itself: a store that has begun another file of its own since does not sync the earlier one with a later write.
  if (operations.length > 0) await store.batch(operations, { sync: true });
}

function mergeRows(left: Uint8Array, right: Uint8Array, checksum: Checksum, log: Log): Uint8Array {
  try {
    const merged = mergeImages(decodeImage(openRow(left, checksum)), decodeImage(openRow(right, checksum)));
    return sealRecord(ROW_FORMAT_VERSION, encodeImage(merged), checksum);
  } catch (thrown) {
    // The sound one of two is kept; of two corrupt ones either, so that this replica refuses to answer for the row as they do.
    log.error("a row came corrupt from a peer", { reason: toConcordError(thrown).message });
    return isSound(left, checksum) ? left : right;
  }
}

function isSound(value: Uint8Array, checksum: Checksum): boolean {
  try {
    decodeImage(openRow(value, checksum));
    return true;
  } catch {
    return false;
  }
}
