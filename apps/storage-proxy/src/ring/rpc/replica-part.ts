import type { LeftOutRow, ReplicaService } from "@concord/protos-storage";
import { keyOfStored, storedRowKey } from "@concord/quorum";
import type { Handler } from "@concord/rpc";
import { ConcordError, type Checksum } from "@concord/runtime";
import { COPIED_NAMESPACES } from "../formation/copy-store.ts";
import { LARGE_VALUE_BYTES, PART_BYTES } from "../limits.ts";
import type { RingSource } from "../ring-backend.ts";

/** A part of a stored value, as it is on disk. */
export function readPartHandler(source: () => RingSource, checksum: Checksum): Handler<ReplicaService, "ReadPart"> {
  return async ({ key, offset }) => {
    if (!COPIED_NAMESPACES.some((namespace) => namespace === key[0]))
      throw new ConcordError("MALFORMED_REQUEST", "the key is of no namespace that peers read", { metadata: { field: "key" } });
    const [value] = await source().node.engine.getMany([key]);
    if (value === undefined) return { part: new Uint8Array(), totalBytes: 0n, checksum: 0 };
    const from = Math.min(Number(offset), value.length);
    return { part: value.subarray(from, from + PART_BYTES), totalBytes: BigInt(value.length), checksum: checksum(value) >>> 0 };
  };
}

/** Rows of an answer without those too large for its message, in whose place empty bytes stand. */
export function leaveOut(rows: readonly Uint8Array[]): { readonly rows: readonly Uint8Array[]; readonly leftOut: readonly LeftOutRow[] } {
  const leftOut: LeftOutRow[] = [];
  for (const [index, row] of rows.entries()) {
    if (row.length > LARGE_VALUE_BYTES) leftOut.push({ index, key: storedRowKey(keyOfStored(row)) });
  }
  if (leftOut.length === 0) return { rows, leftOut };
  return { rows: rows.map((row) => (row.length > LARGE_VALUE_BYTES ? NOTHING : row)), leftOut };
}

const NOTHING = new Uint8Array();
