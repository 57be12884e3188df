// Rows against blobs: what rows name and what is not there whole.
import { sameVersion, type BlobState, type MetadataRow, type Oid } from "@concord/ports";
import { toConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import { assertAnswered, assertForward } from "../page-invariants.ts";
import { decodeRow, referencesOf, type Row } from "../row-codec.ts";
import { afterKey, garbageSpan, keyOfObject, partKey, partSpan } from "../row-keys.ts";
import { sealedLength } from "../encryption/frames.ts";
import type { StoredObject } from "../rows.ts";
import { missingBodies } from "./body-findings.ts";
import type { DanglingReference } from "./body-findings.ts";

/** What is wrong with a blob of this length; undefined: nothing. */
export type BlobCheck = (
  oid: Oid,
  lengthBytes: number,
) => Promise<Exclude<DanglingReference["reason"], "no part row" | "no body row"> | undefined>;

const PAGE = 500;

/** By what the blob says of itself; its bytes are not read. One damaged blob is a finding, not the end of a check. */
export function inspecting(context: ObjectStoreContext): BlobCheck {
  const wrong = { absent: "absent", open: "not sealed", damaged: "damaged" } as const;
  return async (oid, lengthBytes) => {
    const state = await inspectOrDamaged(context, oid);
    if (state.kind !== "sealed") return wrong[state.kind];
    return state.sealed.lengthBytes === lengthBytes ? undefined : "another length";
  };
}

export async function inspectOrDamaged(
  context: ObjectStoreContext,
  oid: Oid,
): Promise<BlobState | { readonly kind: "damaged"; readonly description: undefined }> {
  try {
    return await context.data.inspect(oid);
  } catch (thrown) {
    if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
    return { kind: "damaged", description: undefined };
  }
}

/** Its store could not read it: one blob on a bad sector, or the store as a whole. */
export const isReadFailure = (thrown: unknown): boolean => toConcordError(thrown).code === "STORE_FAILED";

/** Undefined: it cannot be read. */
export function readableRow(found: MetadataRow): Row | undefined {
  try {
    return decodeRow(found.value);
  } catch {
    return undefined;
  }
}

/**
 * Rows of one page that name what is not there whole. Online: what looks wrong is looked at once more, since it may have been replaced and
 * collected after the page was read.
 */
export async function danglingOf(
  context: ObjectStoreContext,
  partition: string,
  page: readonly MetadataRow[],
  check: BlobCheck,
): Promise<readonly DanglingReference[]> {
  const suspects: { readonly found: MetadataRow; readonly dangling: DanglingReference }[] = [];
  const missing: DanglingReference[] = [];
  const readableRows: (readonly [MetadataRow, Row])[] = [];
  for (const found of page) {
    const row = readableRow(found);
    const named = row === undefined ? undefined : blobOf(row);
    if (named !== undefined) {
      const reason = await check(named.oid, named.lengthBytes);
      if (reason !== undefined) suspects.push({ found, dangling: { partition, rowKey: found.key, oid: named.oid, reason } });
    }
    if (row?.kind === "object") missing.push(...(await missingParts(context, partition, found, row)));
    if (row !== undefined) readableRows.push([found, row]);
  }
  missing.push(...(await missingBodies(context, partition, readableRows)));
  if (suspects.length === 0) return missing;
  // Garbage first: an upload whose GC entry is not there any more has no part rows any more either.
  const garbage = await garbageUploads(context, partition);
  const rows = await context.metadata.read(
    partition,
    suspects.map(({ found }) => found.key),
  );
  assertAnswered(rows, suspects);
  const confirmed = suspects.filter(({ dangling }, at) => {
    const now = rows[at];
    const row = now === undefined ? undefined : readableRow(now);
    return row !== undefined && referencesOf(row).oids.includes(dangling.oid!) && !isGarbageOfUpload(garbage, dangling.rowKey);
  });
  return [...missing, ...confirmed.map(({ dangling }) => dangling)];
}

/** The blob that the row names, as long as it is stored. */
export function blobOf(row: Row): { readonly oid: Oid; readonly lengthBytes: number } | undefined {
  if (row.kind !== "part" && row.kind !== "object") return undefined;
  const named = row.kind === "part" ? row : row.content.kind === "blob" ? row.content : undefined;
  if (named === undefined || row.encryption === undefined) return named;
  // Verified as it is stored, without a key.
  return { oid: named.oid, lengthBytes: sealedLength(named.lengthBytes) };
}

/** Where part rows of uploads begin that are garbage: their blobs go before they do. */
export async function garbageUploads(context: ObjectStoreContext, partition: string): Promise<readonly Uint8Array[]> {
  const spans: Uint8Array[] = [];
  let { from } = garbageSpan();
  const { to } = garbageSpan();
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: PAGE, onUnreadable: () => undefined });
    for (const found of page) {
      const row = readableRow(found);
      if (row?.kind === "garbage" && row.what.kind === "upload") spans.push(partSpan(row.key, row.what.uploadId).from);
    }
    if (page.length < PAGE) return spans;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}

export const isGarbageOfUpload = (prefixes: readonly Uint8Array[], rowKey: Uint8Array): boolean =>
  prefixes.some((prefix) => prefix.every((byte, at) => rowKey[at] === byte));

/** Rows of parts that the object counts on. */
async function missingParts(
  context: ObjectStoreContext,
  partition: string,
  object: MetadataRow,
  { content }: StoredObject,
): Promise<readonly DanglingReference[]> {
  if (content.kind !== "parts") return [];
  const key = keyOfObject(object.key);
  const missing: DanglingReference[] = [];
  for (let at = 0; at < content.parts.length; at += PAGE) {
    const wanted = content.parts.slice(at, at + PAGE).map(({ number }) => partKey(key, content.uploadId, number));
    const found = await context.metadata.read(partition, wanted);
    assertAnswered(found, wanted);
    if (!found.includes(undefined)) continue;
    const [now] = await context.metadata.read(partition, [object.key]);
    const stillThere = now !== undefined && sameVersion(now.version, object.version);
    if (!stillThere) return [];
    for (const row of found) if (row === undefined) missing.push({ partition, rowKey: object.key, oid: undefined, reason: "no part row" });
  }
  return missing;
}
