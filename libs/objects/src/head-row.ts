import { corrupt } from "@concord/codec";
import type { MetadataRow, MetadataWrite } from "@concord/ports";
import { assert, unreachable } from "@concord/runtime";
import { decodeRow } from "./row-codec.ts";
import { bodyKey, isBodyKey, isGarbageKey, usageKey } from "./row-keys.ts";
import type { DeleteMarker, GcEntry, StoredObject } from "./rows.ts";
import type { ShardView, Versioned } from "./shard-view.ts";

/** What a version of a key is. */
export type VersionRow = StoredObject | DeleteMarker;

/** The row of a head or of an earlier version. CORRUPT_DATA when it is neither object nor delete marker. */
export function versionOf(found: Pick<MetadataRow, "version" | "value">): Versioned<VersionRow> {
  const row = decodeRow(found.value);
  if (row.kind !== "object" && row.kind !== "marker") throw corrupt(`a ${row.kind} row where an object's belongs`);
  return { version: found.version, row };
}

/** The current object of a key; none where its current version is a delete marker. */
export function objectOf(found: MetadataRow | undefined): Versioned<StoredObject> | undefined {
  if (found === undefined) return undefined;
  const { version, row } = versionOf(found);
  return row.kind === "object" ? { version, row } : undefined;
}

/** Of a view whose first row is the head. */
export function headOf(view: ShardView): Versioned<StoredObject> | undefined {
  return objectOf(view.rows[0]);
}

/** The garbage of a replaced or deleted object (I4); undefined: none. */
export function leftBy(object: VersionRow | undefined): GcEntry["what"] | undefined {
  if (object === undefined || object.kind === "marker") return undefined;
  const { content } = object;
  switch (content.kind) {
    case "inline":
    case "beside":
      return undefined;
    case "blob":
      return { kind: "blobs", oids: [content.oid] };
    case "parts":
      return { kind: "upload", uploadId: content.uploadId };
    default:
      return unreachable(content);
  }
}

/** What the commit in which a version goes removes with it: a body beside its row (I23). */
export function bodyLeftBy(key: string, object: VersionRow | undefined): readonly MetadataWrite[] {
  if (object?.kind !== "object" || object.content.kind !== "beside") return [];
  return [{ kind: "delete", key: bodyKey(key, object.content.guid) }];
}

/** Of the writes of the commit in which a version goes: nothing that it names stays without a row. */
export function assertLeft(old: VersionRow | undefined, writes: readonly MetadataWrite[]): void {
  const isGarbage = writes.some((write) => write.kind === "put" && isGarbageKey(write.row.key));
  assert(leftBy(old) === undefined || isGarbage, "I4: blobs that are replaced are garbage in the same commit");
  const isBeside = old?.kind === "object" && old.content.kind === "beside";
  const isRemoved = writes.some((write) => write.kind === "delete" && isBodyKey(write.key));
  assert(!isBeside || isRemoved, "I23: the body of a version goes with it");
}

/** Of the writes of a commit: the counters of its shard stay exact (OGD16). */
export function assertCounted(before: VersionRow | undefined, after: StoredObject | undefined, writes: readonly MetadataWrite[]): void {
  const old = before?.kind === "object" ? before : undefined;
  let [objects, bytes] = [BigInt(after === undefined ? 0 : 1), BigInt(after?.sizeBytes ?? 0)];
  if (old !== undefined) [objects, bytes] = [objects - 1n, bytes - BigInt(old.sizeBytes)];
  for (const write of writes) {
    if (write.kind === "add") [objects, bytes] = [objects - write.amounts[0]!, bytes - (write.amounts[1] ?? 0n)];
  }
  assert(objects === 0n && bytes === 0n, "OGD16: a commit counts the objects and bytes that it changes");
}

/** Objects and bytes of a shard, changed in the same batch as the head row, so exact (OGD16). */
export function countUsage(before: StoredObject | undefined, after: StoredObject | undefined): readonly MetadataWrite[] {
  const objects = (after === undefined ? 0 : 1) - (before === undefined ? 0 : 1);
  const bytes = (after?.sizeBytes ?? 0) - (before?.sizeBytes ?? 0);
  if (objects === 0 && bytes === 0) return [];
  return [{ kind: "add", key: usageKey(), amounts: [BigInt(objects), BigInt(bytes)] }];
}
