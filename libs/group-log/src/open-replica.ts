import { corrupt } from "@concord/codec";
import type { KeyValue, KeyValueEntry, KeyValueOperation, StepRunner } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { EMPTY_GROUP, lastSeq } from "./group-state.ts";
import { KeptEntries } from "./kept-entries.ts";
import { decodeEntry, decodeHeader, ENTRY_RANGE, HEADER_RANGE, readEntryKey, readHeaderKey } from "./log-format.ts";
import { ReplicaLogSteps, type LoadedGroup, type ReplicaLog, type ReplicaLogOptions, type RowsOf } from "./replica-steps.ts";

const PAGE_ENTRIES = 256;
const PAGE_BYTES = 4 * 1024 * 1024;

export interface OpenReplicaOptions extends ReplicaLogOptions {
  readonly reader: { range: KeyValue["range"] };
  readonly runner: StepRunner;
}

/**
 * Loads a replica's group logs, and derives the rows of every applied entry it still keeps again: a crash may have taken them back (I9).
 * CORRUPT_DATA when a record fails its check or a log has a gap: a replica that forgot what it accepted must not answer a raise; the
 * node does not start and is copied from its peers (TXR4).
 */
export async function openReplicaLog(options: OpenReplicaOptions): Promise<ReplicaLog> {
  const { reader, runner, checksum, rowsOf } = options;
  const groups = new Map<string, LoadedGroup>();
  for await (const page of pagesOf(reader, HEADER_RANGE)) {
    for (const { key, value } of page) {
      const header = decodeHeader(value, checksum);
      groups.set(readHeaderKey(key), { state: { ...EMPTY_GROUP, ...header }, kept: new KeptEntries(header.droppedSeq) });
    }
  }
  for await (const page of pagesOf(reader, ENTRY_RANGE)) {
    const rows = page.flatMap(({ key, value }) => load(groups, key, value, checksum, rowsOf));
    if (rows.length > 0) await runner.submit({ load: [], run: () => ({ persist: [], derived: rows, reply: undefined }) });
  }
  for (const [group, { state, kept }] of groups) {
    if (kept.lastSeq !== state.appliedSeq) throw corrupt(`group ${group} lacks entries up to ${state.appliedSeq}`);
  }
  return new ReplicaLogSteps(groups, options);
}

/** Adds an entry to its group; answers the rows of an applied one. */
function load(
  groups: Map<string, LoadedGroup>,
  key: Uint8Array,
  value: Uint8Array,
  checksum: Checksum,
  rowsOf: RowsOf,
): readonly KeyValueOperation[] {
  const { group, seq } = readEntryKey(key);
  const loaded = groups.get(group);
  if (loaded === undefined) throw corrupt(`entry ${seq} is of group ${group}, which has no header`);
  const { state, kept } = loaded;
  const entry = decodeEntry(seq, value, checksum);
  const bytes = entry.bytes.length + entry.rows.length;
  const isKept = seq <= state.appliedSeq;
  if (seq !== (isKept ? kept.lastSeq : lastSeq(state)) + 1n) throw corrupt(`entry ${seq} of group ${group} follows a gap`);
  if (isKept) {
    kept.push(bytes);
    return rowsOf(group, entry);
  }
  groups.set(group, { kept, state: { ...state, entries: [...state.entries, entry], tailBytes: state.tailBytes + bytes } });
  return [];
}

async function* pagesOf(
  reader: OpenReplicaOptions["reader"],
  range: { readonly from: Uint8Array; readonly to: Uint8Array },
): AsyncGenerator<readonly KeyValueEntry[]> {
  let { from } = range;
  for (;;) {
    const page = await reader.range({ from, to: range.to, limit: PAGE_ENTRIES, bytesMax: PAGE_BYTES });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    from = Uint8Array.of(...last.key, 0);
  }
}
