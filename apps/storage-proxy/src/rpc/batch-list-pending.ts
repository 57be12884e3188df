import { LIST_PAGE_DEFAULT, LIST_PAGE_MAX } from "@concord/logged-batch";
import type { UnaryHandler } from "@concord/rpc";
import { timeIdToBytes } from "@concord/runtime";
import type { Batches } from "../ring/batches.ts";
import { limitExceeded } from "./checks.ts";

/** Entries of the batchlog this node holds, oldest first (LBD12). */
export function listPendingBatchesHandler(batches: () => Batches): UnaryHandler {
  return async (request: { readonly pageSize: number }) => {
    const { batchLog } = batches();
    const page = batchLog.pending().slice(0, listSize(request.pageSize));
    return {
      batches: page.map(({ id, coordinator, createdMs, timestampUs, rowCount }) => {
        return { batchId: timeIdToBytes(id), coordinator, createdMs: BigInt(createdMs), timestampUs, rowCount };
      }),
      total: BigInt(batchLog.size),
    };
  };
}

/** 0 = LIST_PAGE_DEFAULT. */
export function listSize(pageSize: number): number {
  if (pageSize > LIST_PAGE_MAX) throw limitExceeded("LIST_PAGE_MAX", LIST_PAGE_MAX, `a page of ${pageSize} entries`);
  return pageSize === 0 ? LIST_PAGE_DEFAULT : pageSize;
}
