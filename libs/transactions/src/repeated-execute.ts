import { assert, type Checksum } from "@concord/runtime";
import type { Origin } from "./calls.ts";
import { requireSamePayload, type Payload } from "./digest.ts";
import { stateError } from "./ended-errors.ts";
import { OWN_TRANSACTIONS, requireOwner } from "./owners.ts";
import type { Transaction } from "./transaction.ts";

/**
 * The execute whose first copy was answered as unknown while the log still decides about it: a later copy gets its decision (TXD7). Undefined:
 * nothing is open under the id. TRANSACTION_STATE, PERMISSION_DENIED, IDEMPOTENCY_MISMATCH.
 */
export function committingExecute(
  open: Transaction | undefined,
  payload: Payload,
  { owner }: Origin,
  checksum: Checksum,
): Transaction | undefined {
  if (open === undefined) return undefined;
  if (open.state.kind !== "committing") throw stateError("an interactive transaction has this id");
  requireOwner(open.owner, (owner ?? OWN_TRANSACTIONS).identity);
  requireSamePayload(open.state.digest, payload, checksum);
  assert(open.state.digest === payload.digest || payload.conditions.length === 0, "UN20: conditions have no digest of an earlier form");
  return open;
}
