import { open, readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { crc32c } from "@concord/checksums";
import type { BackingStore, SuspectRange } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { contentOf, numberOf, openIfThere, damageOf, TABLE, type Suspect } from "./check-tables.ts";
import { closeDatabase, openCopiedDatabase } from "./copied-database.ts";
import type { Database } from "./database.ts";
import { withoutBlocks, type WithoutBlocks } from "./leave-out-blocks.ts";
import { ManifestEvidence } from "./manifest-evidence.ts";
import type { ListedTables } from "./manifest-tables.ts";
import { replaceTable } from "./write-table.ts";

const LOG = /^\d+\.log$/;

/**
 * Makes it durable that keys in `ranges` are suspect, or rejects with CORRUPT_DATA: they must not be served. `backing` is the database without its
 * damaged blocks, to be read only; its `holds` is that of the database where it is.
 */
export type AdmitSuspects = (backing: BackingStore, ranges: readonly SuspectRange[]) => Promise<void>;

export interface SuspectTables {
  readonly folder: string;
  readonly suspects: readonly Suspect[];
  readonly tables: ListedTables;
  readonly evidence: ManifestEvidence;
  readonly backingOf: (database: Database) => BackingStore;
}

interface Replaced extends WithoutBlocks {
  readonly path: string;
  readonly damaged: Buffer;
}

/**
 * Replaces each damaged table of the store by one without what is damaged in it, once `admit` has resolved. All of it runs under the lock of the folder, and
 * a crash anywhere leads to the same end: until its table is replaced, the next opening finds the same damage. The tables of before are kept under names
 * that are not LevelDB's. Returns the paths of the tables; rejects with CORRUPT_DATA, and nothing is changed, when they must not be replaced.
 */
export async function leaveOutBlocks(context: SuspectTables, admit: AdmitSuspects): Promise<readonly string[]> {
  const { folder, suspects, tables, evidence, backingOf } = context;
  const replaced = await withoutDamage(suspects, tables);
  // Values that are counted must not be gone after a power cut.
  await syncLogs(folder);
  const instead = new Map(replaced.map(({ path, content }) => [basename(path), content]));
  const database = await openCopiedDatabase(folder, instead);
  try {
    if (!(await evidence.isUnchanged())) throw refused("another process had it open meanwhile: start again");
    await admit(
      backingOf(database),
      replaced.flatMap(({ ranges }) => ranges),
    );
    // Admitted before any table is replaced: a table whose damage cannot be found any more is always one whose keys are known to be suspect.
    for (const { path, damaged, content } of replaced) {
      await replaceTable(`${path}.damaged-${crc32c(damaged).toString(16).padStart(8, "0")}`, damaged);
      await replaceTable(path, content);
    }
    return replaced.map(({ path }) => path);
  } finally {
    await closeDatabase(database);
  }
}

/** Keys of which a damaged block of a table in `folder` may have held the newest version; undefined: that is not known of each damaged table. */
export async function suspectRangesIn(folder: string): Promise<readonly SuspectRange[] | undefined> {
  const tables = (await ManifestEvidence.of(folder)).tables();
  if (tables === undefined) return undefined;
  const ranges: SuspectRange[] = [];
  for (const name of (await readdir(folder)).filter((one) => TABLE.test(one))) {
    const path = join(folder, name);
    const listed = tables.get(numberOf(path));
    const file = listed && (await openIfThere(path));
    if (listed === undefined || file === undefined) continue;
    try {
      if ((await damageOf(path, file)) === undefined) continue;
      const without = withoutBlocks(await contentOf(file), listed);
      if (without === undefined) return undefined;
      ranges.push(...without.ranges);
    } finally {
      await file.close();
    }
  }
  return ranges;
}

async function withoutDamage(suspects: readonly Suspect[], tables: ListedTables): Promise<readonly Replaced[]> {
  const replaced: Replaced[] = [];
  for (const { path, file } of suspects) {
    const listed = tables.get(numberOf(path));
    if (listed === undefined) continue;
    const damaged = await contentOf(file);
    const without = withoutBlocks(damaged, listed);
    if (without === undefined) throw refused(`the manifest lists ${path} as too short for a table`);
    replaced.push({ path, damaged, ...without });
  }
  return replaced;
}

async function syncLogs(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((one) => LOG.test(one))) {
    const file = await open(join(folder, name), "r");
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

function refused(why: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", why, { applied: "no" });
}
