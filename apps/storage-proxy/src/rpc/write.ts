import type { RowsService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { ConcordError, plusUs, TIMESTAMP_ZERO, type TimestampUs } from "@concord/runtime";
import { planWrite, refuseSystemTable, type RowWrite, type TableKind } from "@concord/schema";
import type { Context, Serving } from "../context.ts";
import { WRITE_DRAWS_MAX } from "../limits.ts";
import { budgetMs } from "./budget.ts";
import { checkMutationBytes } from "./checks.ts";
import { mutationOf, writeFromWire } from "@concord/rows-wire";

/** One row of a plain table at quorum. */
export function writeHandler(serving: Serving): Handler<RowsService, "Write"> {
  return async (request, context) => {
    const { schema, config, clock } = serving();
    const write = writeFromWire(request.write);
    refuseSystemTable(write.table);
    const catalogue = await schema.having([write.table], request.schemaVersion);
    const planned = planWrite(catalogue, write);
    refuseTransactional(planned.kind === "write" ? planned.tableKind : "plain", write.table);
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
    const checked = planned.kind === "write" ? planned.write : write;
    return applyWrite(serving(), checked, request.timestampUs, timeoutMs);
  };
}

export interface Written {
  /** The timestamp the row has. */
  readonly timestampUs: TimestampUs;
  /** A part of the write lost to newer cells. */
  readonly superseded: boolean;
}

/**
 * `timestampUs` 0 = drawn here: while replicas hold newer cells of the row, it is drawn again above them, so a cell of the future keeps no write and no
 * deletion from its effect (I9). A timestamp that the caller brought stays as it is: a repeat must change nothing.
 */
export async function applyWrite(proxy: Context, write: RowWrite, timestampUs: bigint, timeoutMs: number): Promise<Written> {
  const { clock, writeClock, rows, metrics } = proxy;
  const deadlineMs = clock.monotonicMs() + timeoutMs;
  const isDrawn = timestampUs === 0n;
  checkMutationBytes(mutationOf(write, TIMESTAMP_ZERO));
  const givenUs = isDrawn ? undefined : writeClock.check(timestampUs);
  if (write.kind !== "delete") await proxy.admit();
  let atUs = givenUs ?? writeClock.draw();
  // In the synced batch of the row itself, where it is due. A store that failed ends this node, and its peers may have the row.
  let durable = isDrawn ? writeClock.whenDurable(atUs).catch(() => undefined) : undefined;
  for (let draws = 1; ; draws += 1) {
    let newestUs: TimestampUs | undefined;
    const mutation = mutationOf(write, atUs);
    const onSuperseded = (heldUs: TimestampUs): void => void (newestUs = heldUs);
    await rows.apply([mutation], { timeoutMs: Math.max(1, deadlineMs - clock.monotonicMs()), onSuperseded });
    if (newestUs === undefined) break;
    metrics.count("storage_writes_superseded_total", 1, { outcome: isDrawn && draws < WRITE_DRAWS_MAX ? "repeated" : "reported" });
    if (!isDrawn || draws === WRITE_DRAWS_MAX) return { timestampUs: atUs, superseded: true };
    const drawnUs = writeClock.draw();
    // Above the row's cells alone: one client's wrong clock does not move this node's.
    atUs = drawnUs > newestUs ? drawnUs : plusUs(newestUs, 1n);
    durable = writeClock.whenDurable(atUs).catch(() => undefined);
  }
  await durable;
  return { timestampUs: atUs, superseded: false };
}

/** A direct write would skip locks and index rows and could lose to the group's timestamps (TX8). */
export function refuseTransactional(kind: TableKind, table: string): void {
  if (kind === "plain") return;
  throw new ConcordError("USE_TRANSACTION", `${table} is transactional: write it at the txn-coordinator`, { metadata: { table } });
}
