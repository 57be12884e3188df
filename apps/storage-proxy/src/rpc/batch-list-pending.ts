import type { BatchService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { timeIdToBytes } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { LIST_PAGE_DEFAULT, LIST_PAGE_MAX } from "../limits.ts";
import { limitExceeded } from "./checks.ts";

/** Entries of the batchlog this node holds, oldest first (LBD12). */
export function listPendingBatchesHandler(serving: Serving): Handler<BatchService, "ListPendingBatches"> {
  return async (request) => {
    const page = await serving().batches.pending(listSize(request.pageSize));
    return {
      batches: page.batches.map(({ id, coordinator, createdMs, timestampUs, rowCount }) => {
        return { batchId: timeIdToBytes(id), coordinator, createdMs: BigInt(createdMs), timestampUs, rowCount };
      }),
      total: BigInt(page.total),
    };
  };
}

/** 0 = LIST_PAGE_DEFAULT. */
export function listSize(pageSize: number): number {
  if (pageSize > LIST_PAGE_MAX) throw limitExceeded("LIST_PAGE_MAX", LIST_PAGE_MAX, `a page of ${pageSize} entries`);
  return pageSize === 0 ? LIST_PAGE_DEFAULT : pageSize;
}
