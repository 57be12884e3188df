import type { MetadataCondition, MetadataOutcome, MetadataRow, MetadataWrite, RowVersion } from "@concord/ports";
import type * as wire from "@concord/protos-storage";
import { ConcordError, unreachable } from "@concord/runtime";
import { malformed, required } from "./cells.ts";

export function objectRowToWire({ key, version, value }: MetadataRow): wire.ObjectRowInit {
  return { key, version, value };
}

export function objectRowFromWire({ key, version, value }: wire.ObjectRow): MetadataRow {
  return { key: Uint8Array.from(key), version: versionFromWire(required(version, "row.version")), value: Uint8Array.from(value) };
}

/** A row in the place of its key, or that there is none. */
export function objectRowsToWire(rows: readonly (MetadataRow | undefined)[]): wire.MaybeObjectRowInit[] {
  return rows.map((row) => (row === undefined ? {} : { row: objectRowToWire(row) }));
}

export function objectRowsFromWire(rows: readonly wire.MaybeObjectRow[]): (MetadataRow | undefined)[] {
  return rows.map(({ row }) => (row === null ? undefined : objectRowFromWire(row)));
}

export function objectConditionToWire({ key, version }: MetadataCondition): wire.ObjectRowConditionInit {
  return version === undefined ? { key } : { key, version };
}

export function objectConditionFromWire({ key, version }: wire.ObjectRowCondition): MetadataCondition {
  return { key: Uint8Array.from(key), version: version === null ? undefined : versionFromWire(version) };
}

export function objectWriteToWire(write: MetadataWrite): wire.ObjectRowWriteInit {
  switch (write.kind) {
    case "put":
      return { put: objectRowToWire(write.row) };
    case "delete":
      return { delete: write.key };
    case "add":
      return { add: { key: write.key, amounts: objectAmountsToWire(write.amounts) } };
    default:
      return unreachable(write);
  }
}

export function objectWriteFromWire(message: wire.ObjectRowWrite): MetadataWrite {
  switch (message.write) {
    case "put":
      return { kind: "put", row: objectRowFromWire(message.put) };
    case "delete":
      return { kind: "delete", key: Uint8Array.from(message.delete) };
    case "add":
      return { kind: "add", key: Uint8Array.from(message.add.key), amounts: objectAmountsFromWire(message.add.amounts) };
    default:
      throw malformed("a write changes nothing");
  }
}

export function objectAmountsToWire(amounts: readonly bigint[]): wire.ObjectAmountInit[] {
  return amounts.map((amount) => ({ amount }));
}

export function objectAmountsFromWire(amounts: readonly wire.ObjectAmount[]): bigint[] {
  return amounts.map(({ amount }) => amount);
}

export function objectOutcomeToWire(outcome: MetadataOutcome): wire.CommitObjectRowsResponseInit {
  switch (outcome.kind) {
    case "committed":
      return { committed: {} };
    case "conflict":
      return { conflict: { rows: objectRowsToWire(outcome.rows) } };
    case "unknown":
      return { unknown: { reason: String(outcome.cause) } };
    default:
      return unreachable(outcome);
  }
}

/** Undefined: the answer says nothing. */
export function objectOutcomeFromWire(response: wire.CommitObjectRowsResponse): MetadataOutcome | undefined {
  switch (response.result) {
    case "committed":
      return { kind: "committed" };
    case "conflict":
      return { kind: "conflict", rows: objectRowsFromWire(response.conflict.rows) };
    case "unknown":
      return { kind: "unknown", cause: new ConcordError("WRITE_TIMEOUT", response.unknown.reason, { applied: "unknown" }) };
    default:
      return undefined;
  }
}

function versionFromWire({ commit, guid }: wire.ObjectRowVersion): RowVersion {
  return { commit, guid };
}
