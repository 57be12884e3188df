import { keyText } from "@concord/codec";
import type { Journal } from "@concord/journal";
import type { Checkpoint } from "./checkpoint-file.ts";
import { DirtyTable } from "./dirty-table.ts";
import { DirtyEntry } from "./dirty-entry.ts";
import { decodeRecord, type IntentEntry } from "./record-format.ts";

/** A key that checkpoints which did not end were going to write: what it may be in the backing store, its image below them first. */
export interface IntendedKey {
  readonly key: Uint8Array;
  readonly images: number[];
}

export interface Replayed {
  readonly table: DirtyTable;
  readonly intents: ReadonlyMap<string, IntendedKey>;
  readonly journalledBytes: number;
  /** Writes below this sequence were answered when the newest record was handed over. */
  readonly acknowledged: bigint;
}

/** What the journal holds behind the checkpoint, and what the checkpoint left in it. */
export async function replay(journal: Journal, checkpoint: Checkpoint, failpoint: (name: string) => void): Promise<Replayed> {
  const { position, left } = checkpoint;
  const table = new DirtyTable();
  const intents = new Map<string, IntendedKey>();
  let [journalledBytes, acknowledged] = [0, position];
  for await (const { sequence, payload } of journal.read(left.from)) {
    if (sequence < left.from) continue;
    failpoint("store:replaying");
    journalledBytes += payload.length;
    const record = decodeRecord(payload.slice());
    if (record.acknowledged > acknowledged) ({ acknowledged } = record);
    if (record.kind === "intent") {
      if (record.number > checkpoint.number) for (const entry of record.entries) note(intents, entry);
      continue;
    }
    for (const operation of record.operations) {
      if (sequence >= position || left.namespaces.includes(operation.key[0] ?? 0)) table.put(new DirtyEntry(operation));
    }
  }
  return { table, intents, journalledBytes, acknowledged };
}

function note(intents: Map<string, IntendedKey>, { key, before, after }: IntentEntry): void {
  const text = keyText(key);
  const intended = intents.get(text);
  if (intended === undefined) intents.set(text, { key, images: [before, after] });
  else intended.images.push(before, after);
}
