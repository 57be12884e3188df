import type { BlobDescription, Oid } from "@concord/ports";
import { parseOid } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import { scanBuckets } from "../bucket-row.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward } from "../page-invariants.ts";
import { partitionOf } from "../recovery/decide-blobs.ts";
import { isNamed } from "../recovery/older-versions.ts";
import { isRecovered, listEpochs } from "../reservation/epoch-row.ts";
import type { Row } from "../row-codec.ts";
import { afterKey, bucketPartition, contentSpan, garbageSpan, SYSTEM_PARTITION } from "../row-keys.ts";
import { strayBodies, type StrayBody } from "./body-findings.ts";
import { strayParts } from "./part-findings.ts";
import { danglingOf, inspecting, inspectOrDamaged, readableRow } from "./row-findings.ts";
import type { DanglingReference } from "./body-findings.ts";
import type { LeakedBlob } from "./part-findings.ts";

export interface ConsistencyReport {
  readonly blobs: number;
  readonly referenced: number;
  readonly inGarbage: number;
  /** Not named, but above the low-water mark of an epoch that is open or not recovered: an upload in flight, or recovery's. */
  readonly inFlight: number;
  /** Blobs that no row names, or only rows of parts that nothing counts on, and no recovery or collection looks at again. Expected: none (OGD9). */
  readonly leaked: readonly LeakedBlob[];
  readonly leakedBytes: number;
  /** Bodies beside rows that no version names. Expected: none. */
  readonly strayBodies: readonly StrayBody[];
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
  readonly strayBodies: StrayBody[];
  /** Of parts that nothing counts on. */
  readonly strayParts: Map<Oid, LeakedBlob>;
  corruptRows: number;
}

/**
 * Compares blobs with rows: data without a row (leaked), rows without data (dangling). Online: what looks wrong is looked at once more before
 * it is reported. Reads everything and keeps the oids in memory; changes nothing.
 */
export async function checkConsistency(context: ObjectStoreContext): Promise<ConsistencyReport> {
  // Blobs before rows: a blob that is named later than it was listed was in flight then.
  const blobs = await listBlobs(context);
  const named: Named = { references: new Set(), garbage: new Set(), dangling: [], strayBodies: [], strayParts: new Map(), corruptRows: 0 };
  await scanPartition(context, SYSTEM_PARTITION, named);
  for await (const { row } of scanBuckets(context))
    for (let shard = 0; shard < row.shards; shard += 1) await scanPartition(context, bucketPartition(row.name, shard), named);
  const watched = await watchedFrom(context);
  const leaked: LeakedBlob[] = [...named.strayParts.values()];
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
    strayBodies: named.strayBodies,
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
      const next = parseOid(page.at(-1)!).sequence + 1;
      assert(next > from, "a page of an epoch's blobs begins behind the one before it");
      from = next;
    }
  }
  return blobs;
}

/** The sequence from which on recovery or a running gateway takes care of an epoch's unnamed blobs. */
async function watchedFrom(context: ObjectStoreContext): Promise<ReadonlyMap<number, number>> {
  const epochs = await listEpochs(context.metadata);
  return new Map(epochs.flatMap(({ row }) => (isRecovered(row) ? [] : [[row.epoch, row.lowWater] as const])));
}

async function scanPartition(context: ObjectStoreContext, partition: string, named: Named): Promise<void> {
  let { from } = partition === SYSTEM_PARTITION ? garbageSpan() : contentSpan();
  const { to } = partition === SYSTEM_PARTITION ? garbageSpan() : contentSpan();
  for (;;) {
    const onUnreadable = (): void => void (named.corruptRows += 1);
    const page = await context.metadata.range(partition, { from, to, limit: PAGE, onUnreadable });
    for (const found of page) {
      const row = readableRow(found);
      if (row === undefined) named.corruptRows += 1;
      else note(row, named);
    }
    named.dangling.push(...(await danglingOf(context, partition, page, inspecting(context))));
    named.strayBodies.push(...(await strayBodies(context, partition, page)));
    for (const { blobs } of await strayParts(context, partition, page)) for (const blob of blobs) named.strayParts.set(blob.oid, blob);
    if (page.length < PAGE) return;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}

/** Records what a row names. */
function note(row: Row, named: Named): void {
  if (row.kind === "garbage" && row.what.kind === "blobs") for (const oid of row.what.oids) named.garbage.add(oid);
  if (row.kind === "part") named.references.add(row.oid);
  if (row.kind === "object" && row.content.kind === "blob") named.references.add(row.content.oid);
}

/** Collected since it was listed, or named by now, or by a row that cannot be read: no leak. */
async function confirmLeak(context: ObjectStoreContext, oid: Oid): Promise<LeakedBlob | undefined> {
  const state = await inspectOrDamaged(context, oid);
  if (state.kind === "absent") return undefined;
  if (state.description !== undefined && (await mayBeNamed(context, oid, state.description))) return undefined;
  return { oid, lengthBytes: state.kind === "sealed" ? state.sealed.lengthBytes : 0 };
}

async function mayBeNamed(context: ObjectStoreContext, oid: Oid, description: BlobDescription): Promise<boolean> {
  try {
    return await isNamed(context, await partitionOf(context, description), description, oid);
  } catch (thrown) {
    if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
    return true;
  }
}
