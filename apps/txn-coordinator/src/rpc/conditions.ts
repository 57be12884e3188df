/** Conditions of a request and the rows that failed: proto <-> domain (UN20). */
import type { ConditionKind, FailedRowInit, RowCondition as RowConditionMessage } from "@concord/protos-txn";
import { columnFromWire, keyFromWire, keyToWire, malformed, rowToWire } from "@concord/rows-wire";
import { unreachable } from "@concord/runtime";
import { tableOf, validateCondition, type RowCondition, type SchemaCatalogue, type TableCondition } from "@concord/schema";
import type { FailedRow } from "@concord/transactions";
import { tablesOfKeys } from "./wire.ts";

const KINDS: Readonly<Record<ConditionKind, RowCondition["kind"] | undefined>> = {
  CONDITION_KIND_UNSPECIFIED: undefined,
  CONDITION_KIND_ABSENT: "absent",
  CONDITION_KIND_PRESENT: "present",
  CONDITION_KIND_COLUMNS_EQUAL: "equal",
  CONDITION_KIND_VERSION_EQUAL: "version",
};

export function tablesOfConditions(conditions: readonly RowConditionMessage[]): string[] {
  return tablesOfKeys(conditions.map(({ key }) => key));
}

export function checkedConditions(conditions: readonly RowConditionMessage[], catalogue: SchemaCatalogue): TableCondition[] {
  return conditions.map((message) => {
    const decoded = conditionFromWire(message);
    const definition = tableOf(catalogue, decoded.key.table);
    return { definition, condition: validateCondition(definition, decoded) };
  });
}

function conditionFromWire({ kind: wireKind, key: wireKey, columns, versionUs }: RowConditionMessage): RowCondition {
  const kind = KINDS[wireKind];
  if (kind === undefined) throw malformed("condition.kind is missing");
  if (kind !== "equal" && columns.length > 0) throw malformed("columns are given, and are not what the condition compares");
  const key = keyFromWire(wireKey);
  switch (kind) {
    case "absent":
    case "present":
      return { kind, key };
    case "equal":
      return { kind, key, columns: columns.map(columnFromWire) };
    case "version":
      return { kind, key, versionUs };
    default:
      return unreachable(kind);
  }
}

export function failedRows(failed: readonly FailedRow[]): FailedRowInit[] {
  return failed.map(({ key, row, isLeftOut }) => ({
    key: keyToWire(key),
    row: row === undefined ? undefined : rowToWire(row),
    leftOut: isLeftOut,
  }));
}
