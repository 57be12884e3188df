import type { KeyValue, KeyValueEntry, StepRunner } from "@concord/ports";
import type { Checksum, Clock } from "@concord/runtime";
import { ENTRY_RANGE, idOfKey, LETTER_RANGE } from "./batch-entry.ts";
import { BatchLog, type BatchLogOptions, type ForgottenDeletions } from "./batch-log.ts";
import type { BatchLogReplica } from "./batch-node.ts";

const PAGE_ENTRIES = 256;
const PAGE_BYTES = 4 * 1024 * 1024;

/**
 * Loads the index of a node's batchlog and dead letters. Every entry found is undecided until replay or a read resolves it (I5).
 * Those that fail their check are noted; replay makes them dead letters (LBD6).
 */
export async function openBatchLog(
  store: KeyValue,
  checksum: Checksum,
  clock: Clock,
  forgotten?: ForgottenDeletions,
  options?: BatchLogOptions,
): Promise<BatchLog> {
  const log = new BatchLog(checksum, clock, forgotten, options);
  for await (const { key, value } of pages(store, ENTRY_RANGE)) log.found(idOfKey(key), value);
  for await (const { key } of pages(store, LETTER_RANGE)) log.foundLetter(idOfKey(key));
  return log;
}

/** This node's own batchlog as its ring sees it. */
export function localBatchLog(log: BatchLog, runner: StepRunner): BatchLogReplica {
  return { write: async (request) => runner.submit(log.write(request)) };
}

async function* pages(store: KeyValue, range: { from: Uint8Array; to: Uint8Array }): AsyncGenerator<KeyValueEntry> {
  let from = range.from;
  for (;;) {
    const page = await store.range({ from, to: range.to, limit: PAGE_ENTRIES, bytesMax: PAGE_BYTES });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    from = Uint8Array.of(...last.key, 0);
  }
}
