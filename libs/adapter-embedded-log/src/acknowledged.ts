import { openJournal, type Journal, type JournalOptions } from "@concord/journal";
import { decodePublication } from "./format.ts";

/** The input that a sound output acknowledges; undefined: it is damaged or has no record. Changes nothing. */
export async function acknowledgedBy(output: JournalOptions): Promise<bigint | undefined> {
  let journal: Journal;
  try {
    ({ journal } = await openJournal({ ...output, strict: true, readsDamaged: true, verify: "all" }));
  } catch {
    return undefined;
  }
  try {
    if (journal.damage !== undefined) return undefined;
    return await newestAcknowledged(journal);
  } finally {
    await journal.close();
  }
}

/** The input that the newest record of an output acknowledges; undefined: it has none. */
export async function newestAcknowledged(output: Pick<Journal, "readBackward">): Promise<bigint | undefined> {
  for await (const { payload, sequence } of output.readBackward()) return decodePublication(payload, sequence).acknowledgedInput;
  return undefined;
}
