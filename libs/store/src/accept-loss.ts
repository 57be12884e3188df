import { openJournal, salvageJournal, type Journal } from "@concord/journal";
import { ConcordError, type Disk } from "@concord/runtime";
import { NO_EVIDENCE, readCheckpoint, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { damaged } from "./damage.ts";
import { KeyFilter } from "./key-filter.ts";
import { READ_KEYS_PER_CALL } from "./limits.ts";
import { boundsOf, journalFolder, type StoreOptions } from "./open.ts";
import { imageOf, RangeSums } from "./range-sums.ts";
import { newestIntent } from "./remake-checkpoint.ts";
import { encodeBatch } from "./record-format.ts";
import { replay } from "./replay.ts";
import { countOf, scanAll } from "./scan-sums.ts";
import { describeSuspects } from "./suspect-ranges.ts";

export interface AcceptedLoss {
  /** In the backing store. */
  readonly values: number;
  /** Everything that is missing, one line each; none: it cannot be said what. */
  readonly lost: readonly string[];
}

/**
 * Makes a store of what is left of a damaged one, whose losses an operator accepts: on `target` a journal with every sound record, and a checkpoint that counts what
 * `backing` holds now. `options.disk` is only read. Says what is missing by the counts of the checkpoint before and the gaps of the journal. CORRUPT_DATA when the journal
 * lacks what the checkpoint needs at its beginning or end: then values in place may be older than others.
 */
export async function acceptLoss(options: StoreOptions, target: Disk): Promise<AcceptedLoss> {
  const { folder, disk, backing, checksum } = options;
  const source = { ...options, folder: journalFolder(folder), limits: {} };
  await target.makeFolder(folder);
  const gaps = await salvageJournal(source, { disk: target, folder: journalFolder(folder) }, () => encodeBatch([]).payload);
  const lost = gaps.lost.map(
    ({ from, to }) => `writes ${from} to ${to - 1n} of the journal: ${to - from} batches, of one transaction or step each`,
  );
  const before = await readCheckpoint(disk, folder, checksum).catch(corruptAsNone);
  const { journal } = await openJournal({ ...source, disk: target, strict: true });
  try {
    const base = before ?? unknown(journal);
    const wrong = boundsOf(journal, base);
    if (wrong !== undefined) throw damaged(folder, wrong);
    const found = await scanAll(backing, checksum, new KeyFilter());
    if (before === undefined) lost.push("values that the damaged checkpoint counted, if LevelDB lacks any");
    else lost.push(...missing(await expected(options, journal, before), found));
    lost.push(
      ...(before?.suspects ?? []).map(
        (range) => `${describeSuspects(range)} were refused until now, since any may be older than it was, or deleted`,
      ),
    );
    // Checkpoints that did not end left one value or the other: whichever is there is counted.
    const newest = await newestIntent(journal);
    const number = newest > base.number ? newest : base.number;
    const accepted = { ...base, number, sums: found.list(), evidence: NO_EVIDENCE, scannedMs: undefined, keys: undefined, suspects: [] };
    await writeCheckpoint(target, folder, accepted, checksum);
    return { values: countOf(found.list()), lost };
  } finally {
    await journal.close();
  }
}

/** Whether the store's checkpoint can be read: then its counts say whether values are missing. */
export async function hasCheckpoint({ disk, folder, checksum }: StoreOptions): Promise<boolean> {
  return (await readCheckpoint(disk, folder, checksum).catch(corruptAsNone)) !== undefined;
}

function corruptAsNone(thrown: unknown): undefined {
  if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
  throw thrown;
}

function unknown(journal: Journal): Checkpoint {
  const position = journal.firstSequence;
  const left = { from: position, namespaces: new Uint8Array() };
  return { number: 0n, position, left, sums: [], evidence: NO_EVIDENCE, scannedMs: undefined, keys: undefined, suspects: [] };
}

/** What the backing store would hold if it were whole: the checkpoint's counts, with keys of a checkpoint that did not end as they are. */
async function expected({ backing, checksum }: StoreOptions, journal: Journal, checkpoint: Checkpoint): Promise<RangeSums> {
  const sums = new RangeSums(checkpoint.sums);
  const { intents } = await replay(journal, checkpoint, () => undefined);
  const all = [...intents.values()];
  for (let at = 0; at < all.length; at += READ_KEYS_PER_CALL) {
    const part = all.slice(at, at + READ_KEYS_PER_CALL);
    const values = await backing.getMany(part.map(({ key }) => key));
    for (const [place, { key, images }] of part.entries()) {
      const image = imageOf(key, values[place], checksum);
      if (images.includes(image)) sums.change(key, images[0]!, image);
    }
  }
  return sums;
}

function missing(whole: RangeSums, found: RangeSums): readonly string[] {
  const counts = (sums: RangeSums): Map<number, number> => new Map(sums.list().map(({ range, count }) => [range, count]));
  const [expectedCounts, foundCounts] = [counts(whole), counts(found)];
  const sums = new Map(whole.list().map(({ range, sum }) => [range, sum]));
  const ranges = new Set([...expectedCounts.keys(), ...foundCounts.keys()]);
  return [...ranges].flatMap((range) => {
    const [expectedCount, foundCount] = [expectedCounts.get(range) ?? 0, foundCounts.get(range) ?? 0];
    const name = `values with keys that begin with ${JSON.stringify(String.fromCharCode(range))}`;
    if (foundCount !== expectedCount) return [`${name}: ${expectedCount} were there, ${foundCount} are left`];
    const same = found.list().some((one) => one.range === range && one.sum === sums.get(range));
    return same ? [] : [`${name}: all ${foundCount} are there, one or more are older or not what was written`];
  });
}
