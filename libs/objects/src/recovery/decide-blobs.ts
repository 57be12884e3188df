// The decision table of recovery (README): what becomes of a blob of a closed epoch. By reference, never by age or order (OGD1, I6).
import type { MetadataCommit, MetadataCondition, MetadataRow, MetadataWrite, Oid, BlobDescription } from "@concord/ports";
import { assert, ConcordError, toConcordError, toHex } from "@concord/runtime";
import { assertCommit } from "../commit-invariants.ts";
import { putGarbage, raiseHeader } from "../commit-rows.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertAnswered, assertForward } from "../page-invariants.ts";
import { decodeRow, decodeRowAs, referencesOf } from "../row-codec.ts";
import { afterKey, bucketKey, bucketPartition, garbageSpan, headerKey, isHeaderKey, shardOf, SYSTEM_PARTITION } from "../row-keys.ts";
import type { ShardHeader } from "../rows.ts";
import { headerOf, type Versioned } from "../shard-view.ts";
import { namedByOlder, names, rowKeyOf } from "./older-versions.ts";
import { DECIDE_ATTEMPTS_MAX, GARBAGE_SCAN_PAGE, GARBAGE_SCAN_ROWS_MAX } from "./limits.ts";

/** A blob that is there, of an epoch that is closed in its row and at the data store. */
export interface OpenBlob {
  readonly oid: Oid;
  /** Undefined: not even that is whole, so it was never sealed and cannot be any more. */
  readonly description: BlobDescription | undefined;
}

export type BlobFate =
  /** A row names it. */
  | "referenced"
  /** A GC entry names it: it did before, or does now, and no commit that names it can succeed any more. */
  | "collected"
  /** Not yet: the store did not answer, or rows keep changing. Look again later. */
  | "undecided";

/**
 * Decides them all. The epoch of each must be closed in its row before this is called: a commit whose view was read before is fenced here by
 * the raised header, one whose view is read later is refused by `BlobName.confirmLive` (OGD3).
 */
export async function decideBlobs(
  context: ObjectStoreContext,
  blobs: readonly OpenBlob[],
  garbage: GarbageIndex = new GarbageIndex(context),
): Promise<ReadonlyMap<Oid, BlobFate>> {
  const fates = new Map<Oid, BlobFate>();
  const byPartition = new Map<string, OpenBlob[]>();
  for (const blob of blobs) {
    const partition = await partitionOf(context, blob.description);
    const together = byPartition.get(partition) ?? [];
    together.push(blob);
    byPartition.set(partition, together);
  }
  for (const [partition, together] of byPartition) {
    const decided = await decideTogether(context, partition, together, garbage).catch(async (thrown: unknown) => {
      // A row that cannot be read holds up its own blob only.
      if (together.length > 1 && toConcordError(thrown).code === "CORRUPT_DATA") return await decideEach(context, together, garbage);
      context.log.error("blobs could not be decided", { partition, blobs: together.length, reason: toConcordError(thrown).message });
      return new Map<Oid, BlobFate>();
    });
    for (const { oid } of together) fates.set(oid, decided.get(oid) ?? "undecided");
  }
  assert(fates.size === blobs.length, "OGD6: every blob of a closed epoch is decided, or left to the next run");
  return fates;
}

async function decideEach(context: ObjectStoreContext, blobs: readonly OpenBlob[], garbage: GarbageIndex): Promise<Map<Oid, BlobFate>> {
  const fates = new Map<Oid, BlobFate>();
  for (const blob of blobs) for (const [oid, fate] of await decideBlobs(context, [blob], garbage)) fates.set(oid, fate);
  return fates;
}

/** Where a blob's rows are; the system partition when nothing can name it: no description, or a bucket that is gone with all its rows. */
export async function partitionOf(context: ObjectStoreContext, description: BlobDescription | undefined): Promise<string> {
  if (description === undefined) return SYSTEM_PARTITION;
  const [found] = await context.metadata.read(SYSTEM_PARTITION, [bucketKey(description.bucket)]);
  if (found === undefined) return SYSTEM_PARTITION;
  return bucketPartition(description.bucket, shardOf(description.key, decodeRowAs("bucket", found.value).shards));
}

async function decideTogether(
  context: ObjectStoreContext,
  partition: string,
  blobs: readonly OpenBlob[],
  garbage: GarbageIndex,
): Promise<Map<Oid, BlobFate>> {
  for (let attempt = 0; attempt < DECIDE_ATTEMPTS_MAX; attempt += 1) {
    const fates = await decideOnce(context, partition, blobs, garbage);
    if (fates !== undefined) return fates;
  }
  throw new ConcordError("WRITE_CONFLICT", `rows changed ${DECIDE_ATTEMPTS_MAX} times`);
}

/** One read, one commit; undefined: the rows changed meanwhile, or the outcome is unknown. */
async function decideOnce(
  context: ObjectStoreContext,
  partition: string,
  blobs: readonly OpenBlob[],
  garbage: GarbageIndex,
): Promise<Map<Oid, BlobFate> | undefined> {
  const fates = new Map<Oid, BlobFate>();
  const orphans: OpenBlob[] = [];
  const conditions = new Map<string, MetadataCondition>();
  const keys = partition === SYSTEM_PARTITION ? [] : blobs.map(({ description }) => rowKeyOf(description!));
  const [headerRow, ...rows] = await context.metadata.read(partition, [headerKey(), ...keys]);
  assertAnswered(rows, keys);
  const header = headerOf(headerRow);
  const unnamed = blobs.filter(({ oid }, at) => !names(rows[at], oid));
  const older = header?.row.versioning === undefined ? NONE : await namedByOlderOf(context, partition, unnamed);
  for (const [at, blob] of blobs.entries()) {
    const [key, row] = [keys[at], rows[at]];
    if (names(row, blob.oid) || older.has(blob.oid)) fates.set(blob.oid, "referenced");
    else if (await garbage.has(partition, blob.oid)) fates.set(blob.oid, "collected");
    else {
      orphans.push(blob);
      if (key !== undefined) conditions.set(String(key), { key, version: row?.version });
    }
  }
  if (orphans.length === 0) return fates;
  assert(
    orphans.every(({ oid }) => !fates.has(oid)),
    "I6, OGD1: a blob that a row or a GC entry names is not marked as garbage",
  );
  context.failpoint("recovery:before-garbage");
  const commit = await fenceOf(context, partition, header, orphans, [...conditions.values()]);
  assertFence(commit, orphans.length);
  const outcome = await context.metadata.commit(commit);
  context.failpoint("recovery:after-garbage");
  if (outcome.kind !== "committed") return undefined;
  for (const { oid } of orphans) fates.set(oid, "collected");
  assert(fates.size === blobs.length, "OGD6: a commit that marks garbage decides each blob that was looked at");
  return fates;
}

const NONE: ReadonlySet<Oid> = new Set();

/** Read after the heads: a version that became an earlier one since changed its head, so that the commit fails. */
async function namedByOlderOf(context: ObjectStoreContext, partition: string, blobs: readonly OpenBlob[]): Promise<ReadonlySet<Oid>> {
  const byKey = Map.groupBy(
    blobs.filter(({ description }) => description !== undefined && description.part === undefined),
    ({ description }) => description!.key,
  );
  const named = new Set<Oid>();
  for (const [key, together] of byKey)
    for (const oid of await namedByOlder(context, partition, key, new Set(together.map((blob) => blob.oid)))) named.add(oid);
  return named;
}

/**
 * Fence and garbage in one commit, if all rows are exactly as read: a writer that saw the earlier header cannot commit any more (OGD2). A header
 * that is not open needs no fence: it was raised when it was closed, and is raised again before it opens. Its bucket's partitions may be
 * on their way out, so that garbage goes where it is always found.
 */
async function fenceOf(
  context: ObjectStoreContext,
  partition: string,
  header: Versioned<ShardHeader> | undefined,
  orphans: readonly OpenBlob[],
  rows: readonly MetadataCondition[],
): Promise<MetadataCommit> {
  const garbage = await garbageOf(context, orphans);
  if (header?.row.state !== "open") return { partition: SYSTEM_PARTITION, conditions: [], writes: garbage };
  const conditions = [{ key: headerKey(), version: header.version }, ...rows];
  return { partition, conditions, writes: [...garbage, raiseHeader(context, header)] };
}

/** In a partition of a bucket nothing is garbage without the fence and the rows that were read for it (OGD2). */
function assertFence(commit: MetadataCommit, orphans: number): void {
  assertCommit(commit);
  const { partition, conditions, writes } = commit;
  if (partition === SYSTEM_PARTITION) return;
  assert(conditions.length > 1 && orphans > 0, "OGD1: what becomes garbage names the rows that do not name it");
  assert(
    writes.some((write) => write.kind === "put" && isHeaderKey(write.row.key)),
    "OGD2: garbage of recovery is written with its fence",
  );
}

/** One GC entry for each key. */
async function garbageOf(context: ObjectStoreContext, orphans: readonly OpenBlob[]): Promise<MetadataWrite[]> {
  const guid = await context.guids.next();
  const byKey = new Map<string, { bucket: string; key: string; oids: Oid[] }>();
  for (const { oid, description } of orphans) {
    const [bucket, key] = [description?.bucket ?? "", description?.key ?? ""];
    const name = `${bucket}/${key}`;
    const together = byKey.get(name) ?? { bucket, key, oids: [] };
    together.oids.push(oid);
    byKey.set(name, together);
  }
  const entries = [...byKey.values()];
  const marked = entries.reduce((sum, { oids }) => sum + oids.length, 0);
  assert(marked === orphans.length, "OGD6: each blob that nothing names is in one GC entry");
  return entries.map(({ bucket, key, oids }, ordinal) =>
    putGarbage(context, guid, { bucket, key, what: { kind: "blobs", oids } }, ordinal),
  );
}

/** Blobs that GC entries name, read once for each partition. A missed one is named twice, which is harmless. */
export class GarbageIndex {
  readonly #context: ObjectStoreContext;
  readonly #partitions = new Map<string, Promise<ReadonlySet<Oid>>>();
  #isWhole = true;

  constructor(context: ObjectStoreContext) {
    this.#context = context;
  }

  async has(partition: string, oid: Oid): Promise<boolean> {
    const inSystem = await this.#of(SYSTEM_PARTITION);
    return inSystem.has(oid) || (await this.#of(partition)).has(oid);
  }

  /** False: there was more garbage than was read, so an oid that it lacks may be garbage. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  #of(partition: string): Promise<ReadonlySet<Oid>> {
    const known = this.#partitions.get(partition) ?? this.#read(partition);
    this.#partitions.set(partition, known);
    return known;
  }

  async #read(partition: string): Promise<ReadonlySet<Oid>> {
    const oids = new Set<Oid>();
    let { from } = garbageSpan();
    const { to } = garbageSpan();
    const onUnreadable = (key: Uint8Array): void => this.#context.log.error("a GC entry cannot be read", { partition, key: toHex(key) });
    for (let read = 0; read < GARBAGE_SCAN_ROWS_MAX; read += GARBAGE_SCAN_PAGE) {
      const page = await this.#context.metadata.range(partition, { from, to, limit: GARBAGE_SCAN_PAGE, onUnreadable });
      for (const row of page) for (const oid of this.#oidsOf(partition, row)) oids.add(oid);
      if (page.length < GARBAGE_SCAN_PAGE) return oids;
      from = assertForward(from, afterKey(page.at(-1)!.key));
    }
    this.#isWhole = false;
    return oids;
  }

  /** One that cannot be read is taken to name nothing: at worst a blob is named twice. */
  #oidsOf(partition: string, row: MetadataRow): readonly Oid[] {
    try {
      return referencesOf(decodeRow(row.value)).oids;
    } catch (thrown) {
      this.#context.log.error("a GC entry cannot be read", { partition, reason: toConcordError(thrown).message });
      return [];
    }
  }
}
