import { corrupt } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, seqOf, type Checksum, type Seq } from "@concord/runtime";
import type { GroupHeader } from "./group-state.ts";
import {
  decodeEntry,
  decodeHeader,
  encodeHeader,
  ENTRY_RANGE,
  entryKey,
  HEADER_RANGE,
  headerKey,
  readEntryKey,
  readHeaderKey,
} from "./log-format.ts";

const PAGE_ENTRIES = 256;

/**
 * Makes group logs without gaps of the logs of a store that lost some entries: the store opens again, and an operator has accepted the loss. A replica
 * that forgot what it had accepted must not answer others: with peers it is copied from them first. Applied entries up to the last gap are dropped, what follows a gap behind the applied ones is removed. Returns a line for
 * each loss. CORRUPT_DATA when a header is lost or damaged.
 */
export async function closeLogGaps(store: Pick<KeyValue, "range" | "batch">, checksum: Checksum): Promise<readonly string[]> {
  const headers = new Map<string, GroupHeader>();
  for await (const { key, value } of entriesOf(store, HEADER_RANGE)) headers.set(readHeaderKey(key), decodeHeader(value, checksum));
  const seqs = new Map<string, Seq[]>([...headers.keys()].map((group) => [group, []]));
  for await (const { key, value } of entriesOf(store, ENTRY_RANGE)) {
    const { group, seq } = readEntryKey(key);
    decodeEntry(seq, value, checksum);
    const known = seqs.get(group);
    if (known === undefined) throw corrupt(`entry ${seq} is of group ${group}, which has no header`);
    known.push(seq);
  }
  const lost: string[] = [];
  for (const [group, header] of headers) {
    const { operations, losses } = closeGaps(group, header, seqs.get(group)!, checksum);
    if (operations.length > 0) await store.batch(operations, { sync: true });
    lost.push(...losses);
  }
  return lost;
}

interface Closed {
  readonly operations: readonly KeyValueOperation[];
  readonly losses: readonly string[];
}

function closeGaps(group: string, header: GroupHeader, seqs: readonly Seq[], checksum: Checksum): Closed {
  const { droppedSeq, appliedSeq } = header;
  assert(droppedSeq <= appliedSeq, "I9: only applied entries are dropped");
  const there = new Set(seqs);
  const operations: KeyValueOperation[] = [];
  const losses: string[] = [];
  let gapEnd = appliedSeq;
  while (gapEnd > droppedSeq && there.has(gapEnd)) gapEnd = seqOf(gapEnd - 1n);
  assert(gapEnd >= droppedSeq, "I9: what is dropped is no gap");
  if (gapEnd > droppedSeq) {
    for (const seq of seqs) if (seq <= gapEnd) operations.push({ kind: "delete", key: entryKey(group, seq) });
    operations.push({ kind: "put", key: headerKey(group), value: encodeHeader({ ...header, droppedSeq: gapEnd }, checksum) });
    losses.push(
      `entries ${droppedSeq + 1n} to ${gapEnd} of the log of group ${group}, which are applied: those of their rows that were not in place`,
    );
  }
  let next = seqOf(appliedSeq + 1n);
  while (there.has(next)) next = seqOf(next + 1n);
  const behind = seqs.filter((seq) => seq > next);
  assert(!there.has(next) && next > appliedSeq, "I3: a tail ends before its first gap");
  if (behind.length > 0) {
    for (const seq of behind) operations.push({ kind: "delete", key: entryKey(group, seq) });
    losses.push(`entries ${next} to ${behind.at(-1)!} of the log of group ${group}, which were not applied: their transactions`);
  }
  return { operations, losses };
}

async function* entriesOf(
  store: Pick<KeyValue, "range">,
  range: { readonly from: Uint8Array; readonly to: Uint8Array },
): AsyncGenerator<{ readonly key: Uint8Array; readonly value: Uint8Array }> {
  let { from } = range;
  for (;;) {
    const page = await store.range({ from, to: range.to, limit: PAGE_ENTRIES });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    from = Uint8Array.of(...last.key, 0);
  }
}
