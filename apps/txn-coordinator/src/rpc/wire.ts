/** proto <-> domain of this service; cells, keys, rows and writes are rows-wire's. What does not fit is MALFORMED_REQUEST. */
import { foldName } from "@concord/codec";
import type { CommitTokenInit, RowKey as RowKeyMessage, RowWrite as RowWriteMessage, CqlStatement } from "@concord/protos-common";
import type { Operation, RowResultInit } from "@concord/protos-txn";
import { keyFromWire, malformed, required, rowToWire, writeFromWire } from "@concord/rows-wire";
import type { LockMode } from "@concord/locks";
import type { Row, RowKey } from "@concord/ports";
import type { HandlerContext } from "@concord/rpc";
import { ConcordError, timeIdFromBytes } from "@concord/runtime";
import { refuseSystemTable, tableOf, validateKey, validateWrite, type SchemaCatalogue } from "@concord/schema";
import type { CommitToken, OperationCall, ReadLock, TableWrite, TransactionOwner } from "@concord/transactions";
import { cellFromWire, type CellValue } from "@concord/values";
import { PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX } from "../limits.ts";
import type { Context } from "../context.ts";

/** The call of a caller from outside. */
export type CallFromWire = OperationCall & { readonly owner: TransactionOwner };

/** An operation's call, which also tells the groups about its session. */
export function callFromWire(operation: Operation | null, context: HandlerContext, { groups }: Context): CallFromWire {
  const { transactionId, number } = required(operation, "operation");
  if (number === 0) throw malformed("operation.number starts at 1");
  return {
    id: timeIdFromBytes(transactionId),
    number,
    sessionId: groups.watchSession(context.session),
    deadlineAtMs: context.deadlineAtMs,
    span: context.span,
    owner: context.owner,
    onWait: () => void context.waits(),
  };
}

/** Role that may end transactions of others, and ask for their outcomes: operators, whose identity is not compared. */
export function comparedIdentity({ caller, owner }: HandlerContext): string | undefined {
  return caller.role === "operator" ? undefined : owner.identity;
}

export function modeFromWire(mode: string): LockMode {
  return mode === "LOCK_MODE_SHARED" ? "shared" : "exclusive";
}

export function readLockFromWire(lock: string): ReadLock {
  return lock === "READ_LOCK_NONE" ? "none" : "shared";
}

/** Tables of keys or writes, not yet looked up in the schema. Refuses system tables. */
export function tablesOfKeys(keys: readonly (RowKeyMessage | null)[]): string[] {
  return keys.map((key) => userTable(foldName(required(key, "key").table)));
}

export function tablesOfWrites(writes: readonly RowWriteMessage[]): string[] {
  return writes.map((write) => userTable(foldName(required(write.key, "write.key").table)));
}

export function userTable(table: string): string {
  if (table === "") throw malformed("a key names no table");
  refuseSystemTable(table);
  return table;
}

export function checkedKey(key: RowKeyMessage | null, catalogue: SchemaCatalogue): RowKey {
  const decoded = keyFromWire(key);
  return validateKey(tableOf(catalogue, decoded.table), decoded);
}

export function checkedWrites(writes: readonly RowWriteMessage[], catalogue: SchemaCatalogue): TableWrite[] {
  return writes.map((write) => {
    const decoded = writeFromWire(write);
    const definition = tableOf(catalogue, decoded.table);
    return { definition, write: validateWrite(definition, decoded) };
  });
}

export function bindsFromWire(statement: CqlStatement): (CellValue | null)[] {
  return statement.binds.map(cellFromWire);
}

/** Between `least` and `most` items. */
export function checkCount(count: number, least: number, most: number, what: string): void {
  if (count < least) throw malformed(`there are no ${what}`);
  if (count > most)
    throw new ConcordError("LIMIT_EXCEEDED", `${count} ${what}; at most ${most}`, { metadata: { limit: what, value: String(most) } });
}

export function checkedLimit(limit: number): number {
  if (limit > PAGE_ROWS_MAX) {
    throw new ConcordError("LIMIT_EXCEEDED", `a page of ${limit} rows; at most ${PAGE_ROWS_MAX}`, {
      metadata: { limit: "PAGE_ROWS_MAX", value: String(PAGE_ROWS_MAX) },
    });
  }
  return limit === 0 ? PAGE_ROWS_DEFAULT : limit;
}

export function rowResult(row: Row | undefined): RowResultInit {
  return row === undefined ? {} : { row: rowToWire(row) };
}

export function tokenToWire({ group, seq, timestampUs }: CommitToken): CommitTokenInit {
  return { group, seq, timestampUs };
}
