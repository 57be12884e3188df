import { ConcordError } from "@concord/runtime";
import { Level } from "level";

/** What `Level` of Node, classic-level, has beyond the common interface. */
interface Repairable {
  repair(folder: string): Promise<void>;
}

const ALL = { from: new Uint8Array(), to: new Uint8Array(64).fill(0xff) };

/**
 * Makes the files of a LevelDB anew from the tables and logs in `folder`: manifest and filters follow from them. What can no longer be
 * read is not in it, and what LevelDB had deleted may be in it again, so the caller proves what is there against counts and sums of its own.
 * For a copy: the files of before are gone. STORE_FAILED.
 */
export async function remakeLevel(folder: string): Promise<void> {
  try {
    await (Level as unknown as Repairable).repair(folder);
    const database = new Level<Uint8Array, Uint8Array>(folder, { keyEncoding: "view", valueEncoding: "view", compression: false });
    try {
      await database.open();
      // It keeps a table that it can read as it is, a damaged filter in it too: a compaction of everything writes each anew.
      await (database as unknown as { compactRange(from: Uint8Array, to: Uint8Array): Promise<void> }).compactRange(ALL.from, ALL.to);
    } finally {
      await database.close();
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConcordError("STORE_FAILED", `LevelDB cannot make ${folder} anew: ${reason}`, { applied: "unknown", cause });
  }
}
