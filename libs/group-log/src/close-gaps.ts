import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, seqOf, type Checksum, type Epoch, type Seq, type TimestampUs } from "@concord/runtime";
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

/** An entry that is there. */
interface Held {
  readonly seq: Seq;
  readonly epoch: Epoch;
}

export interface CloseGapsOptions {
  readonly checksum: Checksum;
  /** Wall clock: no timestamp of the store is above it. */
  readonly nowUs: TimestampUs;
}

/**
 * Makes group logs without gaps of the logs of a store that lost some entries, or a header: the store opens again, and an operator has accepted the
 * loss. A replica that forgot what it had accepted must not answer others: with peers it is copied from them first. Applied entries up to the last gap
 * are dropped, what follows a gap behind the applied ones is removed. Returns a line for each loss. CORRUPT_DATA when what is there fails its check.
 */
export async function closeLogGaps(store: Pick<KeyValue, "range" | "batch">, options: CloseGapsOptions): Promise<readonly string[]> {
  const { checksum } = options;
  const headers = new Map<string, GroupHeader>();
  for await (const { key, value } of entriesOf(store, HEADER_RANGE)) headers.set(readHeaderKey(key), decodeHeader(value, checksum));
  const groups = new Map<string, Held[]>([...headers.keys()].map((group) => [group, []]));
  for await (const { key, value } of entriesOf(store, ENTRY_RANGE)) {
    const { group, seq } = readEntryKey(key);
    const { epoch } = decodeEntry(seq, value, checksum);
    const held = groups.get(group);
    if (held === undefined) groups.set(group, [{ seq, epoch }]);
    else held.push({ seq, epoch });
  }
  const lost: string[] = [];
  for (const [group, held] of groups) {
    const stored = headers.get(group);
    const header = stored ?? headerOf(held, options.nowUs);
    if (stored === undefined) {
      await store.batch([{ kind: "put", key: headerKey(group), value: encodeHeader(header, checksum) }], { sync: true });
      lost.push(`the promise and the marks of the log of group ${group}: its entries ${held[0]!.seq} to ${held.at(-1)!.seq} have new ones`);
    }
    const { operations, losses } = closeGaps(
      group,
      header,
      held.map(({ seq }) => seq),
      checksum,
    );
    if (operations.length > 0) await store.batch(operations, { sync: true });
    lost.push(...losses);
  }
  return lost;
}

/**
 * A header in the place of one that is lost. All entries but the newest one were logged, since an owner offers an entry only after the one before was.
 * The promise has no owner: the next owner raises above it.
 */
function headerOf(held: readonly Held[], nowUs: TimestampUs): GroupHeader {
  const [oldest, newest] = [held[0], held.at(-1)];
  assert(oldest !== undefined && newest !== undefined && oldest.seq > 0n, "a header is made of entries");
  const appliedSeq = seqOf(newest.seq - 1n);
  const applied = held.find(({ seq }) => seq === appliedSeq) ?? newest;
  const promisedEpoch = held.reduce((highest, { epoch }) => (epoch > highest ? epoch : highest), oldest.epoch);
  assert(applied.epoch <= newest.epoch, "I4: an entry is of the epoch of the one before, or a newer one");
  return {
    promisedEpoch,
    owner: "",
    appliedSeq,
    appliedEpoch: applied.epoch,
    timestampCeilingUs: nowUs,
    droppedSeq: seqOf(oldest.seq - 1n),
  };
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
