import { corrupt } from "@concord/codec";
import type { KeyValue, KeyValueEntry } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { EMPTY_GROUP, lastSeq, type GroupState } from "./group-state.ts";
import { decodeEntry, decodeHeader, ENTRY_RANGE, HEADER_RANGE, readEntryKey, readHeaderKey } from "./log-format.ts";
import { ReplicaLogSteps, type ReplicaLog } from "./replica-steps.ts";

const PAGE_ENTRIES = 256;

/**
 * Loads a replica's group logs. CORRUPT_DATA when a record fails its check or a tail has a gap: a replica that forgot what it
 * accepted must not answer a raise; the node does not start and is copied from its peers (TXR4).
 */
export async function openReplicaLog(store: KeyValue, checksum: Checksum): Promise<ReplicaLog> {
  const groups = new Map<string, GroupState>();
  for await (const { key, value } of pages(store, HEADER_RANGE)) {
    groups.set(readHeaderKey(key), { ...EMPTY_GROUP, ...decodeHeader(value, checksum) });
  }
  for await (const { key, value } of pages(store, ENTRY_RANGE)) {
    const { group, seq } = readEntryKey(key);
    const state = groups.get(group);
    if (state === undefined || seq !== lastSeq(state) + 1n) throw corrupt(`entry ${seq} of group ${group} follows a gap`);
    const entry = decodeEntry(seq, value, checksum);
    groups.set(group, { ...state, entries: [...state.entries, entry], tailBytes: state.tailBytes + entry.bytes.length });
  }
  return new ReplicaLogSteps(groups, checksum);
}

async function* pages(store: KeyValue, range: { from: Uint8Array; to: Uint8Array }): AsyncGenerator<KeyValueEntry> {
  let from = range.from;
  for (;;) {
    const page = await store.range({ from, to: range.to, limit: PAGE_ENTRIES });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ENTRIES) return;
    from = Uint8Array.of(...last.key, 0);
  }
}
