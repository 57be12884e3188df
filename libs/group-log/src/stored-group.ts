import type { KeyValue, LogEntry } from "@concord/ports";
import { seqOf, type Checksum } from "@concord/runtime";
import { describeState, EMPTY_GROUP } from "./group-state.ts";
import { SEQ_MAX } from "./limits.ts";
import { decodeEntry, decodeHeader, entryKey, headerKey, readEntryKey } from "./log-format.ts";
import type { ReplicaLogState } from "./replica.ts";

const PAGE_ENTRIES = 256;

/** What the store of a node that does not run holds of a group, kept entries included. CORRUPT_DATA when a record fails its check. */
export async function readStoredGroup(
  store: Pick<KeyValue, "get" | "range">,
  group: string,
  checksum: Checksum,
): Promise<ReplicaLogState | undefined> {
  const stored = await store.get(headerKey(group));
  if (stored === undefined) return undefined;
  const header = decodeHeader(stored, checksum);
  const entries: LogEntry[] = [];
  let from = entryKey(group, seqOf(0n));
  for (;;) {
    const page = await store.range({ from, to: entryKey(group, seqOf(SEQ_MAX)), limit: PAGE_ENTRIES });
    for (const { key, value } of page) entries.push(decodeEntry(readEntryKey(key).seq, value, checksum));
    if (page.length < PAGE_ENTRIES) break;
    from = Uint8Array.of(...page.at(-1)!.key, 0);
  }
  const tail = entries.filter(({ seq }) => seq > header.appliedSeq);
  return describeState({ ...EMPTY_GROUP, ...header, entries: tail }, entries);
}
