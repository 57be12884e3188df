import type { BatchService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { timeIdFromBytes, timeIdToBytes } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { listSize } from "./batch-list-pending.ts";
import { keyToWire } from "@concord/rows-wire";

/** Entries that could not be replayed, with reasons, oldest first (LBD6). */
export function listDeadLettersHandler(serving: Serving): Handler<BatchService, "ListDeadLetters"> {
  return async (request) => {
    const letters = await serving().batches.deadLetters(listSize(request.pageSize));
    return {
      letters: letters.map(({ id, reason, setAsideMs, entry }) => {
        return { batchId: timeIdToBytes(id), reason, setAsideMs: BigInt(setAsideMs), entry };
      }),
    };
  };
}

/** Executes a dead letter again (LBD6). */
export function redriveDeadLetterHandler(serving: Serving): Handler<BatchService, "RedriveDeadLetter"> {
  return async (request) => {
    const rows = await serving().batches.redrive(timeIdFromBytes(request.batchId), request.force);
    return { rows: rows.map(keyToWire) };
  };
}
