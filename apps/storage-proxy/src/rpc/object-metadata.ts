import type { MetadataRow, ObjectMetadata } from "@concord/ports";
import type { ObjectMetadataService } from "@concord/protos-storage";
import {
  objectAmountsToWire,
  objectConditionFromWire,
  objectOutcomeToWire,
  objectRowsToWire,
  objectRowToWire,
  objectWriteFromWire,
} from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import { objectMetadataOf, type Serving } from "../context.ts";
import {
  OBJECT_COMMIT_ROWS_MAX,
  OBJECT_KEY_BYTES_MAX,
  OBJECT_PAGE_BYTES,
  OBJECT_PAGE_ROWS_MAX,
  OBJECT_PARTITION_BYTES_MAX,
  OBJECT_READ_KEYS_MAX,
} from "../limits.ts";
import { checkCount, limitExceeded } from "./checks.ts";
import type { MethodsOf } from "./define.ts";

type Method = keyof MethodsOf<ObjectMetadataService>;

/** Rows of objects, where the backend changes them under conditions (OGD15). */
export function objectMetadataHandlers(serving: Serving): { readonly [Name in Method]: Handler<ObjectMetadataService, Name> } {
  return {
    ReadObjectRows: async ({ partition, keys }) => {
      const metadata = metadataOf(serving, partition);
      checkCount(keys.length, OBJECT_READ_KEYS_MAX, "OBJECT_READ_KEYS_MAX", "keys");
      keys.forEach(checkKey);
      const rows = await metadata.read(partition, keys);
      return { rows: objectRowsToWire(rows.slice(0, rowsThatFit(rows))) };
    },
    ReadObjectRange: async ({ partition, from, to, limit, reverse }) => {
      const metadata = metadataOf(serving, partition);
      checkCount(limit, OBJECT_PAGE_ROWS_MAX, "OBJECT_PAGE_ROWS_MAX", "rows");
      [from, to].forEach(checkKey);
      const rows = await metadata.range(partition, { from, to, limit, reverse });
      const page = rows.slice(0, rowsThatFit(rows));
      return { rows: page.map(objectRowToWire), more: rows.length === limit || page.length < rows.length };
    },
    ReadObjectCounters: async ({ partition, key }) => {
      const metadata = metadataOf(serving, partition);
      checkKey(key);
      return { amounts: objectAmountsToWire(await metadata.readCounters(partition, key)) };
    },
    CommitObjectRows: async (request) => {
      const { partition } = request;
      const metadata = metadataOf(serving, partition);
      const conditions = request.conditions.map(objectConditionFromWire);
      const writes = request.writes.map(objectWriteFromWire);
      const rows = conditions.length + writes.length;
      if (rows > OBJECT_COMMIT_ROWS_MAX) throw limitExceeded("OBJECT_COMMIT_ROWS_MAX", OBJECT_COMMIT_ROWS_MAX, `${rows} rows in a commit`);
      for (const { key } of conditions) checkKey(key);
      for (const write of writes) checkKey(write.kind === "put" ? write.row.key : write.key);
      return objectOutcomeToWire(await metadata.commit({ partition, conditions, writes }));
    },
  };
}

function metadataOf(serving: Serving, partition: string): ObjectMetadata {
  const bytes = Buffer.byteLength(partition);
  if (bytes > OBJECT_PARTITION_BYTES_MAX)
    throw limitExceeded("OBJECT_PARTITION_BYTES_MAX", OBJECT_PARTITION_BYTES_MAX, `a name of ${bytes} bytes`);
  return objectMetadataOf(serving());
}

function checkKey(key: Uint8Array): void {
  if (key.length > OBJECT_KEY_BYTES_MAX) throw limitExceeded("OBJECT_KEY_BYTES_MAX", OBJECT_KEY_BYTES_MAX, `a key of ${key.length} bytes`);
}

/** At least one, so that every answer is a step. */
function rowsThatFit(rows: readonly (MetadataRow | undefined)[]): number {
  let bytes = 0;
  const end = rows.findIndex((row, at) => {
    if (row !== undefined) bytes += row.key.length + row.value.length;
    return bytes > OBJECT_PAGE_BYTES && at > 0;
  });
  return end < 0 ? rows.length : end;
}
