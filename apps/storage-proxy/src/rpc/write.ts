import type { RowsService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { ConcordError, type TimestampUs } from "@concord/runtime";
import { planWrite, refuseSystemTable, type RowWrite, type TableKind } from "@concord/schema";
import type { Context, Serving } from "../context.ts";
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
    return { timestampUs: await applyWrite(serving(), checked, request.timestampUs, timeoutMs) };
  };
}

/** `timestampUs` 0 = drawn here. Answers the timestamp the row has. */
export async function applyWrite(proxy: Context, write: RowWrite, timestampUs: bigint, timeoutMs: number): Promise<TimestampUs> {
  const drawnUs = timestampUs === 0n ? proxy.writeClock.draw() : proxy.writeClock.check(timestampUs);
  const mutation = mutationOf(write, drawnUs);
  checkMutationBytes(mutation);
  if (write.kind !== "delete") await proxy.admit();
  await proxy.rows.apply([mutation], { timeoutMs });
  return drawnUs;
}

/** A direct write would skip locks and index rows and could lose to the group's timestamps (TX8). */
export function refuseTransactional(kind: TableKind, table: string): void {
  if (kind === "plain") return;
  throw new ConcordError("USE_TRANSACTION", `${table} is transactional: write it at the txn-coordinator`, { metadata: { table } });
}
