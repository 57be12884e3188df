// Which blobs versions of a key name that are not current. They come with a commit on the key's head, and go with one on the head or on their own
// row: what is found absent between two looks at the same head was absent.
import { sameVersion, type BlobDescription, type MetadataRow, type Oid } from "@concord/ports";
import type { ObjectStoreContext } from "../context.ts";
import { assertAnswered, assertForward } from "../page-invariants.ts";
import { decodeRow, referencesOf } from "../row-codec.ts";
import { afterKey, headerKey, headKey, nullVersionKey, partKey, versionsOfKeySpan } from "../row-keys.ts";
import { headerOf } from "../shard-view.ts";
import { DECIDE_ATTEMPTS_MAX, VERSION_SCAN_PAGE } from "./limits.ts";

/** The row that named the blob first: a part's; or the head, from where later commits may have moved its version. */
export function rowKeyOf({ key, part }: BlobDescription): Uint8Array {
  return part === undefined ? headKey(key) : partKey(key, part.uploadId, part.number);
}

/** Does the row name the blob? CORRUPT_DATA for a row that cannot be read: nothing is decided by it. */
export function names(row: MetadataRow | undefined, oid: Oid): boolean {
  return row !== undefined && referencesOf(decodeRow(row.value)).oids.includes(oid);
}

/** Those of `wanted` that versions of the key name which are not current. CORRUPT_DATA for a row that cannot be read. */
export async function namedByOlder(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  wanted: ReadonlySet<Oid>,
): Promise<ReadonlySet<Oid>> {
  const found = new Set<Oid>();
  const note = (row: MetadataRow): void => {
    for (const oid of referencesOf(decodeRow(row.value)).oids) if (wanted.has(oid)) found.add(oid);
  };
  const [nullRow] = await context.metadata.read(partition, [nullVersionKey(key)]);
  if (nullRow !== undefined) note(nullRow);
  let { from } = versionsOfKeySpan(key);
  const { to } = versionsOfKeySpan(key);
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: VERSION_SCAN_PAGE });
    page.forEach(note);
    if (page.length < VERSION_SCAN_PAGE) return found;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}

/** Whether a row names the blob; true also where rows change too often to tell. CORRUPT_DATA as above. */
export async function isNamed(context: ObjectStoreContext, partition: string, description: BlobDescription, oid: Oid): Promise<boolean> {
  const key = rowKeyOf(description);
  for (let attempt = 0; attempt < DECIDE_ATTEMPTS_MAX; attempt += 1) {
    // The header last: where a store answers in parts, a bucket that has no versions then had none when the row was read.
    const keys = [key, headerKey()];
    const rows = await context.metadata.read(partition, keys);
    assertAnswered(rows, keys);
    const [row, headerRow] = rows;
    if (names(row, oid)) return true;
    if (description.part !== undefined || headerOf(headerRow)?.row.versioning === undefined) return false;
    if ((await namedByOlder(context, partition, description.key, new Set([oid]))).size > 0) return true;
    const [now] = await context.metadata.read(partition, [key]);
    if (sameVersion(now?.version, row?.version)) return false;
  }
  return true;
}
