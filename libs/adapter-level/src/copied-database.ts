// A database on a disk that is full: read through a copy elsewhere, in memory where the system has files there.
import { createHash } from "node:crypto";
import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { copyFiles, type TableContents } from "./copied-files.ts";
import { openDatabase, requireLock, type Database } from "./database.ts";

/** Files in memory on Linux. */
const MEMORY_FOLDER = "/dev/shm";
const ID_CHARACTERS = 16;

/**
 * Opens the database in `folder`, which has no space to open there, without a write there: with links to its tables and copies of its logs, under its
 * own lock. What is written to it would be gone. Tables in `instead` have that content. Rejects when there is no space for the copy either.
 */
export async function openCopiedDatabase(folder: string, instead?: TableContents): Promise<Database> {
  // Copies of a process that was killed go while none can run.
  await requireLock(folder);
  await removeCopies(folder);
  const failures: unknown[] = [];
  for (const prefix of prefixesOf(folder)) {
    let copy: string | undefined;
    try {
      copy = await copyFiles(folder, prefix, "shared", instead);
      return { ...(await openDatabase(copy)), isCopy: true };
    } catch (thrown) {
      if (copy !== undefined) await rm(copy, { recursive: true, force: true });
      failures.push(thrown);
    }
  }
  throw new AggregateError(
    failures,
    `no space left on device, nor for a copy of the logs in ${MEMORY_FOLDER} or ${tmpdir()}: ${failures.map(String).join("; ")}`,
  );
}

export async function closeDatabase({ level, folder, isCopy }: Database): Promise<void> {
  await level.close();
  if (isCopy) await rm(folder, { recursive: true, force: true });
}

/** Called under the lock of `folder`. What cannot be removed stops nothing. */
export async function removeCopies(folder: string): Promise<void> {
  for (const prefix of prefixesOf(folder)) {
    const parent = dirname(prefix);
    const names = await readdir(parent).catch((): string[] => []);
    for (const name of names) {
      if (name.startsWith(basename(prefix))) await rm(join(parent, name), { recursive: true, force: true }).catch(() => undefined);
    }
  }
}

/** Prefixes of its copies' names; other folders have others. */
function prefixesOf(folder: string): readonly string[] {
  const id = createHash("sha256").update(resolve(folder)).digest("hex").slice(0, ID_CHARACTERS);
  const parents = process.platform === "linux" ? [MEMORY_FOLDER, tmpdir()] : [tmpdir()];
  return parents.map((parent) => join(parent, `concord-full-disk-${id}-`));
}
