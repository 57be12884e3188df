/** Conditions and the rows that failed: what programs give and get <-> messages (UN20). */
import type { FailedRow as FailedRowMessage, RowConditionInit } from "@concord/protos-txn";
import type { Condition, FailedRow, Fields } from "./api.ts";
import { clientError } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";
import { exactKeyMessage, keyFromMessage, rowFromMessage, rowMessage, type Table } from "./tables.ts";

export function conditionTable(condition: Condition): string {
  if ("absent" in condition) return condition.absent;
  if ("present" in condition) return condition.present;
  return "equal" in condition ? condition.equal : condition.version;
}

export function conditionFields(condition: Condition): Fields {
  return "equal" in condition ? condition.row : condition.key;
}

export function conditionMessage(table: Table, condition: Condition): RowConditionInit {
  if ("equal" in condition) {
    const { key, columns } = rowMessage(table, "WRITE_KIND_UPDATE", condition.row);
    return { kind: "CONDITION_KIND_COLUMNS_EQUAL", key, columns };
  }
  const key = exactKeyMessage(table, condition.key);
  if ("version" in condition) return { kind: "CONDITION_KIND_VERSION_EQUAL", key, versionUs: condition.timestampUs };
  return { kind: "absent" in condition ? "CONDITION_KIND_ABSENT" : "CONDITION_KIND_PRESENT", key };
}

/** `tableOf`: by name. */
export function failedRows(failed: readonly FailedRowMessage[], tableOf: (name: string) => Table): FailedRow[] {
  return failed.map(({ key, row, leftOut }) => {
    const table = tableOf(key!.table);
    return {
      table: table.name,
      key: keyFromMessage(table, key!),
      row: row === null ? undefined : rowFromMessage(table, row),
      timestampUs: row?.newestTimestampUs,
      isLeftOut: leftOut,
    };
  });
}

/** The refusal, for callers that expect no other answer than a commit. */
export function conditionsFailed(failed: readonly FailedRowMessage[]): ConcordClientError {
  const { table } = failed[0]!.key!;
  const text = `the conditions of ${failed.length} row${failed.length === 1 ? "" : "s"} do not hold, the first of ${table}; nothing was written`;
  return clientError("PRECONDITION_FAILED", text, { metadata: { table } });
}
