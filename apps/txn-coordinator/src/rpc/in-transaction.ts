import { ConcordError } from "@concord/runtime";
import type { SchemaCatalogue } from "@concord/schema";
import type { TransactionGroup, TransactionOperations } from "@concord/transactions";
import type { Context } from "../context.ts";
import type { CallFromWire } from "./wire.ts";

/**
 * Runs an operation of a transaction that is open here. Nothing is awaited before it has its place in the transaction's order, unless its
 * Start still waits for a newer schema: then it queues behind that.
 */
export function inTransaction<Answer>(
  coordinator: Context,
  call: CallFromWire,
  body: (operations: TransactionOperations) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const opening = coordinator.groups.whenOpen(call.id);
  const operate = (): Answer | Promise<Answer> => openGroupOf(coordinator, call).serving().operate(call, body);
  return opening === undefined ? operate() : opening.then(operate);
}

/** TRANSACTION_UNKNOWN when no group of ours has it. */
function openGroupOf({ groups }: Context, { id, owner }: CallFromWire): TransactionGroup {
  const group = groups.groupOfTransaction(id, owner.identity);
  if (group === undefined) throw new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here; repeat it");
  return group;
}

/** The catalogue with these tables, without waiting when it is known. */
export function catalogueFor({ schema }: Context, tables: readonly string[], version = 0n): SchemaCatalogue | Promise<SchemaCatalogue> {
  return schema.known(tables, version) ?? schema.having(tables, version);
}
