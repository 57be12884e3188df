import { ConcordError, type TimeId } from "@concord/runtime";
import type { SchemaCatalogue } from "@concord/schema";
import type { OperationCall, TransactionGroup, TransactionOperations } from "@concord/transactions";
import type { Context } from "../context.ts";

/**
 * Runs an operation of a transaction that is open here. Nothing is awaited before it has its place in the transaction's order, unless its
 * Start still waits for a newer schema: then it queues behind that.
 */
export function inTransaction<Answer>(
  coordinator: Context,
  call: OperationCall,
  body: (operations: TransactionOperations) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const opening = coordinator.groups.whenOpen(call.id);
  const operate = (): Answer | Promise<Answer> => openGroupOf(coordinator, call.id).serving().operate(call, body);
  return opening === undefined ? operate() : opening.then(operate);
}

/** TRANSACTION_UNKNOWN when no group of ours has it. */
export function openGroupOf({ groups }: Context, id: TimeId): TransactionGroup {
  const group = groups.groupOfTransaction(id);
  if (group === undefined) throw new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here; repeat it");
  return group;
}

/** The catalogue with these tables, without waiting when it is known. */
export function catalogueFor({ schema }: Context, tables: readonly string[], version = 0n): SchemaCatalogue | Promise<SchemaCatalogue> {
  return schema.known(tables, version) ?? schema.having(tables, version);
}
