import type { MetadataRow, Oid, BlobState } from "@concord/ports";
import { parseOid } from "@concord/ports";
import { toConcordError } from "@concord/runtime";
import { scanBuckets } from "../bucket-row.ts";
import type { ObjectStoreContext } from "../context.ts";
import { names, partitionOf, rowKeyOf } from "../recovery/decide-blobs.ts";
import { listEpochs } from "../reservation/epoch-row.ts";
import { decodeRow, type Row } from "../row-codec.ts";
import {
  afterKey,
  bucketPartition,
  contentSpan,
  headKey,
  keyOfHead,
  partKey,
  partSpan,
  SYSTEM_PARTITION,
  garbageSpan,
} from "../row-keys.ts";

export interface LeakedBlob {
  readonly oid: Oid;
  /** 0 when it was never sealed. */
  readonly lengthBytes: number;
}

export interface DanglingReference {
  readonly partition: string;
  readonly rowKey: Uint8Array;
  /** Undefined: a part row that an object counts on is not there. */
  readonly oid: Oid | undefined;
  readonly reason: "absent" | "not sealed" | "another length" | "damaged" | "no part row";
}

export interface ConsistencyReport {
  readonly blobs: number;
  readonly referenced: number;
  readonly inGarbage: number;
  /** Not named, but above the low-water mark of an epoch that is open or not recovered: an upload in flight, or recovery's. */
  readonly inFlight: number;
  /** Blobs that no row names and no recovery or collection looks at again. Expected: none (OGD9). */
  readonly leaked: readonly LeakedBlob[];
  readonly leakedBytes: number;
  /** Named by a row and not there whole. Expected: none. */
  readonly dangling: readonly DanglingReference[];
  /** Rows that cannot be read. */
  readonly corruptRows: number;
}

const PAGE = 500;

interface Named {
  readonly references: Set<Oid>;
  readonly garbage: Set<Oid>;
  readonly dangling: DanglingReference[];
  corruptRows: number;
}

/**
 * Compares blobs with rows: data without a row (leaked), rows without data (dangling). Online: what looks wrong is looked at once more before
 * it is reported. Reads everything and keeps the oids in memory; changes nothing.
 */
export async function checkConsistency(context: ObjectStoreContext): Promise<ConsistencyReport> {
  // Blobs before rows: a blob that is named later than it was listed was in flight then.
  const blobs = await listBlobs(context);
  const named: Named = { references: new Set(), garbage: new Set(), dangling: [], corruptRows: 0 };
  await scanPartition(context, SYSTEM_PARTITION, named);
  for await (const { row } of scanBuckets(context))
    for (let shard = 0; shard < row.shards; shard += 1) await scanPartition(context, bucketPartition(row.name, shard), named);
  const watched = await watchedFrom(context);
  const leaked: LeakedBlob[] = [];
  let inFlight = 0;
  for (const oid of blobs) {
    if (named.references.has(oid) || named.garbage.has(oid)) continue;
    const { epoch, sequence } = parseOid(oid);
    if (sequence >= (watched.get(epoch) ?? Number.POSITIVE_INFINITY)) inFlight += 1;
    else {
      const lost = await confirmLeak(context, oid);
      if (lost !== undefined) leaked.push(lost);
    }
  }
  return {
    blobs: blobs.length,
    referenced: blobs.filter((oid) => named.references.has(oid)).length,
    inGarbage: blobs.filter((oid) => named.garbage.has(oid)).length,
    inFlight,
    leaked,
    leakedBytes: leaked.reduce((sum, { lengthBytes }) => sum + lengthBytes, 0),
    dangling: named.dangling,
    corruptRows: named.corruptRows,
  };
}

async function listBlobs(context: ObjectStoreContext): Promise<readonly Oid[]> {
  const blobs: Oid[] = [];
  for (const epoch of await context.data.epochs()) {
    let from = 0;
    for (;;) {
      const page = await context.data.list({ epoch, fromSequence: from, limit: PAGE });
      blobs.push(...page);
      if (page.length < PAGE) break;
      from = parseOid(page.at(-1)!).sequence + 1;
    }
  }
  return blobs;
}

/** The sequence from which on recovery or a running gateway takes care of an epoch's unnamed blobs. */
async function watchedFrom(context: ObjectStoreContext): Promise<ReadonlyMap<number, number>> {
  const epochs = await listEpochs(context.metadata);
  return new Map(epochs.flatMap(({ row }) => (row.closed && row.lowWater >= row.reservedTo ? [] : [[row.epoch, row.lowWater] as const])));
}

async function scanPartition(context: ObjectStoreContext, partition: string, named: Named): Promise<void> {
  let { from } = partition === SYSTEM_PARTITION ? garbageSpan() : contentSpan();
  const { to } = partition === SYSTEM_PARTITION ? garbageSpan() : contentSpan();
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: PAGE });
    for (const row of page) await takeRow(context, partition, row, named);
    if (page.length < PAGE) return;
    from = afterKey(page.at(-1)!.key);
  }
}

async function takeRow(context: ObjectStoreContext, partition: string, found: MetadataRow, named: Named): Promise<void> {
  const row = readable(found, named);
  if (row === undefined) return;
  if (row.kind === "garbage" && row.what.kind === "blobs") for (const oid of row.what.oids) named.garbage.add(oid);
  if (row.kind === "part") {
    named.references.add(row.oid);
    await checkBlob(context, partition, found, row.oid, row.lengthBytes, named);
  }
  if (row.kind !== "object") return;
  if (row.content.kind === "blob") {
    named.references.add(row.content.oid);
    await checkBlob(context, partition, found, row.content.oid, row.content.lengthBytes, named);
  }
  if (row.content.kind === "parts") await checkParts(context, partition, found, row.content, named);
}

function readable(found: MetadataRow, named: Named): Row | undefined {
  try {
    return decodeRow(found.value);
  } catch {
    named.corruptRows += 1;
    return undefined;
  }
}

async function checkBlob(
  context: ObjectStoreContext,
  partition: string,
  row: MetadataRow,
  oid: Oid,
  lengthBytes: number,
  named: Named,
): Promise<void> {
  const state = await inspect(context, oid);
  if (state.kind === "sealed" && state.sealed.lengthBytes === lengthBytes) return;
  // It may have been replaced, and collected, since the page was read.
  const [now] = await context.metadata.read(partition, [row.key]);
  if (!names(now, oid) || isGarbageOfUpload(await garbageUploads(context, partition), row.key)) return;
  named.dangling.push({ partition, rowKey: row.key, oid, reason: WRONG[state.kind] });
}

const WRONG = { absent: "absent", open: "not sealed", sealed: "another length", damaged: "damaged" } as const;

/** One damaged blob is a finding, not the end of the check. */
async function inspect(
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

/** Part rows of an upload that is garbage: their blobs go before they do. */
async function garbageUploads(context: ObjectStoreContext, partition: string): Promise<readonly Uint8Array[]> {
  const spans: Uint8Array[] = [];
  let { from } = garbageSpan();
  const { to } = garbageSpan();
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: PAGE });
    for (const found of page) {
      const row = isUnreadable(found) ? undefined : decodeRow(found.value);
      if (row?.kind === "garbage" && row.what.kind === "upload") spans.push(partSpan(row.key, row.what.uploadId).from);
    }
    if (page.length < PAGE) return spans;
    from = afterKey(page.at(-1)!.key);
  }
}

const isGarbageOfUpload = (prefixes: readonly Uint8Array[], rowKey: Uint8Array): boolean =>
  prefixes.some((prefix) => prefix.every((byte, at) => rowKey[at] === byte));

async function checkParts(
  context: ObjectStoreContext,
  partition: string,
  head: MetadataRow,
  content: { readonly uploadId: bigint; readonly parts: readonly { readonly number: number; readonly lengthBytes: number }[] },
  named: Named,
): Promise<void> {
  const key = keyOfHead(head.key);
  for (let at = 0; at < content.parts.length; at += PAGE) {
    const wanted = content.parts.slice(at, at + PAGE).map(({ number }) => partKey(key, content.uploadId, number));
    const found = await context.metadata.read(partition, wanted);
    if (!found.includes(undefined)) continue;
    const [now] = await context.metadata.read(partition, [headKey(key)]);
    const stillThere = now !== undefined && now.version.commit === head.version.commit && now.version.guid === head.version.guid;
    if (!stillThere) return;
    for (const row of found)
      if (row === undefined) named.dangling.push({ partition, rowKey: head.key, oid: undefined, reason: "no part row" });
  }
}

function isUnreadable(row: MetadataRow): boolean {
  try {
    decodeRow(row.value);
    return false;
  } catch {
    return true;
  }
}

/** Collected since it was listed, or named by now, or by a row that cannot be read: no leak. */
async function confirmLeak(context: ObjectStoreContext, oid: Oid): Promise<LeakedBlob | undefined> {
  const state = await inspect(context, oid);
  if (state.kind === "absent") return undefined;
  if (state.description !== undefined) {
    const [row] = await context.metadata.read(await partitionOf(context, state.description), [rowKeyOf(state.description)]);
    if (row !== undefined && (isUnreadable(row) || names(row, oid))) return undefined;
  }
  return { oid, lengthBytes: state.kind === "sealed" ? state.sealed.lengthBytes : 0 };
}
