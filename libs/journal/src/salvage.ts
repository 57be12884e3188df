import { assert } from "@concord/runtime";
import type { JournalOptions } from "./api.ts";
import type { JournalLimits } from "./limits.ts";
import { openJournal } from "./open.ts";

/** Sequences [from, to) of which no record can be read. */
export interface LostSpan {
  readonly from: bigint;
  readonly to: bigint;
}

export interface Salvaged {
  readonly records: number;
  readonly lost: readonly LostSpan[];
}

/** Payload that stands for the units of a lost span; `before`: the payload in front of it, if there is one. */
export type Filler = (before: Uint8Array | undefined) => Uint8Array;

const MIB = 1024 * 1024;
/** Appends that wait for one sync: a journal has millions of small records. */
const RECORDS_PER_SYNC = 4_096;
const SALVAGE_LIMITS: JournalLimits = {
  segmentBytes: 32 * MIB,
  preparedBytes: 0,
  journalBytes: Number.MAX_SAFE_INTEGER,
  recordBytes: 128 * MIB,
  groupBytes: 4 * MIB,
  queueBytes: Number.MAX_SAFE_INTEGER,
};

/**
 * Copies what a damaged journal still has into a new one at `target`: every sound record keeps its sequence, a filler takes each lost span. The source is only read. CORRUPT_DATA
 * when no segment of it has a sound header.
 */
export async function salvageJournal(
  source: JournalOptions,
  target: Pick<JournalOptions, "disk" | "folder">,
  filler: Filler,
): Promise<Salvaged> {
  const { journal } = await openJournal({ ...source, strict: true, readsDamaged: true, verify: "all" });
  const lost: LostSpan[] = [];
  let records = 0;
  try {
    const { firstSequence } = journal;
    const { checksum, random } = source;
    const { journal: copy } = await openJournal({
      ...target,
      checksum,
      random,
      strict: true,
      limits: SALVAGE_LIMITS,
      processedTo: firstSequence,
    });
    try {
      assert(copy.durableSequence === firstSequence, "a journal is salvaged into an empty folder");
      let [next, before] = [firstSequence, undefined as Uint8Array | undefined];
      let waiting: Promise<unknown>[] = [];
      for await (const { sequence, count, payload } of journal.read(firstSequence)) {
        if (sequence > next) {
          lost.push({ from: next, to: sequence });
          waiting.push(copy.append(filler(before), Number(sequence - next)));
        }
        before = payload.slice();
        waiting.push(copy.append(before, count));
        next = sequence + BigInt(count);
        records += 1;
        if (waiting.length < RECORDS_PER_SYNC) continue;
        await Promise.all(waiting);
        waiting = [];
      }
      await Promise.all(waiting);
    } finally {
      await copy.close();
    }
  } finally {
    await journal.close();
  }
  return { records, lost };
}
