import { ConcordError } from "@concord/runtime";
import { tableOf, type SchemaCatalogue } from "./catalogue.ts";
import type { TableDefinition, TableKind } from "./definition.ts";
import { SCHEMA_LIMITS } from "./limits.ts";
import type { WritePlan } from "./plan.ts";
import type { RowWrite } from "./row-write.ts";
import { refuseSystemTable } from "./validate-definition.ts";
import { validateWrite } from "./validate-rows.ts";

/** Smallest write timestamp: below it there is no tick for a preceding delete (TXD4). */
export const TIMESTAMP_US_MIN = 2n;
export const TIMESTAMP_US_MAX = (1n << 63n) - 1n;

/** One write from outside. As `validateWrite`, and SYSTEM_TABLE, TABLE_UNKNOWN, TIMESTAMP_OUT_OF_RANGE, MALFORMED_REQUEST. */
export function planWrite(catalogue: SchemaCatalogue, write: RowWrite, timestampUs?: bigint): WritePlan {
  const definition = userTable(catalogue, write.table);
  const checked = validateWrite(definition, write);
  checkTimestamp(definition.kind, timestampUs);
  return { kind: "write", tableKind: definition.kind, write: checked, timestampUs };
}

/** A batch from outside (LB1). As `planWrite`; BATCH_INVALID when it is empty or mixes plain and transactional tables; LIMIT_EXCEEDED. */
export function planBatch(catalogue: SchemaCatalogue, logged: boolean, writes: readonly RowWrite[], timestampUs?: bigint): WritePlan {
  if (writes.length > SCHEMA_LIMITS.batchStatementsMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `${writes.length} statements in one batch; at most ${SCHEMA_LIMITS.batchStatementsMax}`);
  }
  const kinds = new Set<TableKind>();
  const checked = writes.map((write) => {
    const definition = userTable(catalogue, write.table);
    kinds.add(definition.kind);
    return validateWrite(definition, write);
  });
  const [tableKind, other] = kinds;
  if (tableKind === undefined) throw new ConcordError("BATCH_INVALID", "a batch has at least one statement");
  if (other !== undefined) {
    throw new ConcordError(
      "BATCH_INVALID",
      "a batch writes plain tables or transactional ones, not both; use a transaction for the latter",
    );
  }
  checkTimestamp(tableKind, timestampUs);
  return { kind: "batch", logged, tableKind, writes: checked, timestampUs };
}

function userTable(catalogue: SchemaCatalogue, table: string): TableDefinition {
  refuseSystemTable(table);
  return tableOf(catalogue, table);
}

function checkTimestamp(kind: TableKind, timestampUs: bigint | undefined): void {
  if (timestampUs === undefined) return;
  if (kind === "transactional") {
    throw new ConcordError("MALFORMED_REQUEST", "transactional tables take their timestamp from the commit; leave TIMESTAMP out");
  }
  if (timestampUs < TIMESTAMP_US_MIN || timestampUs > TIMESTAMP_US_MAX) {
    throw new ConcordError(
      "TIMESTAMP_OUT_OF_RANGE",
      `timestamp ${timestampUs}; it is in microseconds, from ${TIMESTAMP_US_MIN} to ${TIMESTAMP_US_MAX}`,
    );
  }
}
