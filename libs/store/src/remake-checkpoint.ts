import { openJournal, type Journal } from "@concord/journal";
import { assert, type Disk } from "@concord/runtime";
import { NO_EVIDENCE, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { KeyFilter } from "./key-filter.ts";
import { journalFolder, type StoreOptions } from "./open.ts";
import { decodeRecord } from "./record-format.ts";
import { countOf, scanAll } from "./scan-sums.ts";

export interface RemadeCheckpoint {
  /** In the backing store, as the new checkpoint counts them. */
  readonly values: number;
  /** Where the journal is replayed from. */
  readonly position: bigint;
}

/**
 * Replaces a checkpoint file that is lost or damaged by one made of what is there: the sums of what the backing store holds now, and the journal's
 * first record as position. Records are whole values, so replaying those that the lost checkpoint had passed leads to the same values. What the
 * backing store lacks cannot be noticed any more: the sums that told it were in the file. Whether that is acceptable is an operator's decision.
 * Only for a store without `derived` writes: what those left in the backing store is newer than some records. `disk` is only read and may forget
 * what is written; the file is written to `target`. CORRUPT_DATA: the journal is damaged, too.
 */
export async function remakeCheckpoint(options: StoreOptions, target: Disk): Promise<RemadeCheckpoint> {
  const { folder, backing, checksum } = options;
  const { journal } = await openJournal({ ...options, folder: journalFolder(folder), strict: true, limits: {} });
  try {
    const position = journal.firstSequence;
    const number = await newestIntent(journal);
    const sums = (await scanAll(backing, checksum, new KeyFilter())).list();
    const left = { from: position, namespaces: new Uint8Array() };
    const checkpoint: Checkpoint = {
      number,
      position,
      left,
      sums,
      evidence: NO_EVIDENCE,
      scannedMs: undefined,
      keys: undefined,
      suspects: [],
    };
    assert(left.from <= position && position <= journal.durableSequence, "I7: the journal holds everything from the position on");
    await writeCheckpoint(target, folder, checkpoint, checksum);
    return { values: countOf(sums), position };
  } finally {
    await journal.close();
  }
}

/** Intents up to this checkpoint are none of what opening has to account for: whichever value they left is in the sums. */
export async function newestIntent(journal: Journal): Promise<bigint> {
  let newest = 0n;
  for await (const { payload } of journal.read(journal.firstSequence)) {
    const record = decodeRecord(payload.slice());
    if (record.kind === "intent" && record.number > newest) newest = record.number;
  }
  return newest;
}
