import type { BatchService } from "@concord/protos-storage";
import type { BatchResult } from "@concord/ports";
import type { Handler } from "@concord/rpc";
import { assert, ConcordError, newTimeId, timeIdFromBytes, timeIdToBytes, type Span, type TimestampUs } from "@concord/runtime";
import { netBatch, planBatch, refuseSystemTable, SCHEMA_LIMITS, TIMESTAMP_US_MIN, type RowWrite } from "@concord/schema";
import type { Context, Serving } from "../context.ts";
import { limitExceeded } from "./checks.ts";
import { writeFromWire } from "@concord/rows-wire";
import { refuseTransactional } from "./write.ts";

/** A batch of plain-table writes, atomic unless unlogged (LB11, LB14). */
export function executeBatchHandler(serving: Serving): Handler<BatchService, "ExecuteBatch"> {
  return async (request, { span }) => {
    const { schema } = serving();
    const { batchStatementsMax } = SCHEMA_LIMITS;
    if (request.writes.length > batchStatementsMax) {
      throw limitExceeded("batchStatementsMax", batchStatementsMax, `${request.writes.length} writes in one batch`);
    }
    const writes = request.writes.map(writeFromWire);
    const tables = [...new Set(writes.map((write) => write.table))];
    tables.forEach(refuseSystemTable);
    const catalogue = await schema.having(tables, request.schemaVersion);
    const planned = planBatch(catalogue, !request.unlogged, writes);
    assert(planned.kind === "batch", "a batch is planned as a batch");
    refuseTransactional(planned.tableKind, tables.join(", "));
    const { batchId, timestampUs, unlogged } = request;
    const result = await runBatch(serving(), { batchId, writes: planned.writes, timestampUs, unlogged, span });
    return {
      batchId: timeIdToBytes(result.id),
      timestampUs: result.timestampUs,
      outcome: "BATCH_OUTCOME_APPLIED",
      holders: result.holders,
    };
  };
}

export interface CheckedBatch {
  /** 16 bytes of a UUIDv7, with a timestamp; empty = made here. */
  readonly batchId: Uint8Array;
  /** Checked against the schema. */
  readonly writes: readonly RowWrite[];
  /** 0 = drawn here, once (LB1). */
  readonly timestampUs: bigint;
  readonly unlogged: boolean;
  readonly span?: Span | undefined;
}

/**
 * Executes writes that were checked against the schema: of ExecuteBatch or of a CQL batch (LB14). BATCH_INVALID: an id without a timestamp. Repeated at
 * another node, which does not know the id, it would draw a newer one and cover what was written since (LBD8).
 */
export async function runBatch(proxy: Context, batch: CheckedBatch): Promise<BatchResult> {
  const { batches, clock, random, writeClock } = proxy;
  if (batch.writes.some(({ kind }) => kind !== "delete")) await proxy.admit();
  if (batch.batchId.length > 0 && batch.timestampUs === 0n)
    throw new ConcordError("BATCH_INVALID", "a batch that brings its id brings its timestamp too: a repeat has both");
  const id = batch.batchId.length === 0 ? newTimeId(clock, random) : timeIdFromBytes(batch.batchId);
  const timestampUs = batch.timestampUs === 0n ? undefined : checkTimestamp(proxy, batch.timestampUs);
  const { writes, unlogged, span } = batch;
  const result = await batches.execute({ id, timestampUs, mutationsAt: (atUs) => netBatch(writes, atUs), unlogged, span });
  if (timestampUs === undefined) await writeClock.whenDurable(result.timestampUs).catch(() => undefined);
  return result;
}

/** The net image of a row may need the tick before (LBD14). */
function checkTimestamp(proxy: Context, timestampUs: bigint): TimestampUs {
  if (timestampUs >= TIMESTAMP_US_MIN) return proxy.writeClock.check(timestampUs);
  throw new ConcordError("TIMESTAMP_OUT_OF_RANGE", `a batch's timestamp is at least ${TIMESTAMP_US_MIN}`);
}
