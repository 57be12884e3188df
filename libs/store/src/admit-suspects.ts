import { openJournal, type Journal } from "@concord/journal";
import type { SuspectRange } from "@concord/ports";
import { assert, type Disk } from "@concord/runtime";
import { readCheckpoint, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { damaged, describeDifference } from "./damage.ts";
import { KeyFilter } from "./key-filter.ts";
import { accountIntents, boundsOf, journalFolder, type StoreOptions } from "./open.ts";
import { RangeSums, type RangeSum } from "./range-sums.ts";
import { newestIntent } from "./remake-checkpoint.ts";
import { replay } from "./replay.ts";
import { scanAll } from "./scan-sums.ts";
import { covers, describeSuspects, namespacesOf, shortened, unionOf } from "./suspect-ranges.ts";

/**
 * Makes it durable that keys in `found` are suspect, whose newest values may have been in blocks that are left out of `options.backing`: a checkpoint that names
 * them, and counts what is there, is on `target` when it resolves. `options.disk` is only read, and may forget what is written. All else must be
 * proven: the checkpoint's evidence, and the sums of every namespace without a key in `found`. CORRUPT_DATA: it is not, or a key in `found` is none of
 * `namespaces`, whose keys alone may be suspect. Idempotent; opening the store that follows finds exactly what was counted.
 */
export async function admitSuspects(
  options: StoreOptions,
  target: Disk,
  found: readonly SuspectRange[],
  namespaces: Uint8Array,
): Promise<void> {
  const { folder, disk, backing, checksum, log, failpoint } = options;
  const ranges = unionOf(found, []);
  const touched = namespacesOf(ranges);
  requireWithin(namespaces, ranges, folder);
  const checkpoint = await readCheckpoint(disk, folder, checksum);
  if (checkpoint === undefined) throw damaged(folder, "its checkpoint is missing");
  if (!backing.holds(checkpoint.evidence)) throw damaged(folder, "its other files are not proven to be what its checkpoint noted");
  const { journal } = await openJournal({ ...options, folder: journalFolder(folder), strict: true, limits: {} });
  try {
    const expected = await expectedSums(options, journal, checkpoint, ranges);
    const held = await scanAll(backing, checksum, new KeyFilter());
    const wrong = untouched(expected, touched).difference(untouched(held, touched));
    if (wrong !== undefined) throw damaged(folder, describeDifference(wrong));
    const suspects = shortened(unionOf(checkpoint.suspects, ranges));
    if (suspects === undefined) throw damaged(folder, "the bounds of its damage are longer than a checkpoint file has space for");
    requireWithin(namespaces, suspects, folder);
    assert(covers(suspects, [...checkpoint.suspects, ...found]), "I11: every key that was found suspect, now or before, stays so");
    failpoint("store:suspects-counted");
    // Checkpoints that did not end count as ended: whichever value they left is counted. Keys that were deleted may be there again: no note of keys holds.
    const newest = await newestIntent(journal);
    const number = newest > checkpoint.number ? newest : checkpoint.number;
    await writeCheckpoint(
      target,
      folder,
      { ...checkpoint, number, sums: held.list(), scannedMs: undefined, keys: undefined, suspects },
      checksum,
    );
    failpoint("store:suspects-noted");
    for (const range of ranges) log.error(`a block of a table is damaged: ${describeSuspects(range)} are refused`, { folder });
  } finally {
    await journal.close();
  }
}

/** A vote, an epoch or a promise that may be older than it was is worse than an outage. */
function requireWithin(namespaces: Uint8Array, ranges: readonly SuspectRange[], folder: string): void {
  const wrong = ranges.find((range) => namespacesOf([range]).some((namespace) => !namespaces.includes(namespace)));
  if (wrong !== undefined) throw damaged(folder, `${describeSuspects(wrong)} are not all rows, and nothing else may be older than it was`);
}

/** Sums of all that the backing store must hold, but for keys in `ranges`: a key of a checkpoint that did not end counts as what is there. */
async function expectedSums(
  options: StoreOptions,
  journal: Journal,
  checkpoint: Checkpoint,
  ranges: readonly SuspectRange[],
): Promise<RangeSums> {
  const wrong = boundsOf(journal, checkpoint);
  if (wrong !== undefined) throw damaged(options.folder, wrong);
  const sums = new RangeSums(checkpoint.sums);
  await accountIntents(options, await replay(journal, checkpoint, options.failpoint), sums, ranges);
  return sums;
}

function untouched(sums: RangeSums, touched: Uint8Array): RangeSums {
  const list: readonly RangeSum[] = sums.list();
  return new RangeSums(list.filter(({ range }) => !touched.includes(range)));
}
