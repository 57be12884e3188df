// One page of a scrub: rows against blobs, then blobs against rows (OGD9).
import { parseOid, type MetadataRow, type Oid } from "@concord/ports";
import { assert, toConcordError, toHex, unreachable } from "@concord/runtime";
import { findBucket, scanBuckets } from "../bucket-row.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertOnward } from "../page-invariants.ts";
import { decideBlobs } from "../recovery/decide-blobs.ts";
import { afterKey, bucketPartition, contentSpan } from "../row-keys.ts";
import type { ScrubCounts, ScrubPlace } from "../rows.ts";
import { leakedOf } from "./leaks.ts";
import { SCRUB_PAGE, SCRUB_PAGE_BYTES, SCRUB_ROW_BYTES } from "./limits.ts";
import { removeStray, strayBodies, type StrayBody } from "./body-findings.ts";
import { collectStray, strayParts, type StrayUpload } from "./part-findings.ts";
import { blobOf, danglingOf, inspecting, isReadFailure, readableRow, type BlobCheck } from "./row-findings.ts";
import type { DanglingReference } from "./body-findings.ts";

/** What is wrong, as an operator looks for it. */
export type ScrubFinding =
  | { readonly kind: "leaked"; readonly oid: Oid; readonly bucket: string; readonly key: string; readonly lengthBytes: number }
  /** A body beside a row that no version names. */
  | { readonly kind: "leaked"; readonly partition: string; readonly rowKey: string; readonly key: string; readonly lengthBytes: number }
  | {
      readonly kind: "dangling" | "damaged";
      readonly partition: string;
      readonly rowKey: string;
      readonly oid: Oid | undefined;
      readonly reason: string;
    }
  | { readonly kind: "unreadable"; readonly partition: string; readonly rowKey: string }
  /** Whether a row names it is not known. */
  | { readonly kind: "unreadable"; readonly oid: Oid };

export interface ScrubbedPage {
  /** Undefined: nothing comes after it. */
  readonly next: Exclude<ScrubPlace, { readonly kind: "ended" }> | undefined;
  readonly counts: ScrubCounts;
  readonly findings: readonly ScrubFinding[];
}

/** Paces the scrub: called with what was just read, resolves when the scrub may go on. */
export type Meter = (bytes: number) => Promise<void>;

export interface ScrubPageOptions {
  readonly meter: Meter;
  /** Blobs that the store cannot read are findings; if false, the page rejects with STORE_FAILED. */
  readonly passesOver: boolean;
}

export const NOTHING_SCRUBBED: ScrubCounts = {
  rows: 0,
  blobs: 0,
  bytes: 0,
  leaked: 0,
  leakedBytes: 0,
  dangling: 0,
  damaged: 0,
  unreadableRows: 0,
};

export const FIRST_PLACE = { kind: "rows", bucket: "", shard: 0, from: contentSpan().from } as const;

export async function scrubPage(
  context: ObjectStoreContext,
  place: Exclude<ScrubPlace, { readonly kind: "ended" }>,
  options: ScrubPageOptions,
): Promise<ScrubbedPage> {
  const page = await pageAt(context, place, options);
  assertOnward(place, page.next);
  return page;
}

async function pageAt(
  context: ObjectStoreContext,
  place: Parameters<typeof scrubPage>[1],
  options: ScrubPageOptions,
): Promise<ScrubbedPage> {
  switch (place.kind) {
    case "rows":
      return await scrubRows(context, place, options);
    case "blobs":
      return await scrubBlobs(context, place, options);
    default:
      return unreachable(place);
  }
}

/** Reports: what to do with an object whose data is gone is its owner's decision. A body that no version names is removed, parts that nothing counts on become garbage. */
async function scrubRows(
  context: ObjectStoreContext,
  { bucket, shard, from }: Extract<ScrubPlace, { readonly kind: "rows" }>,
  { meter, passesOver }: ScrubPageOptions,
): Promise<ScrubbedPage> {
  const found = await findBucket(context, bucket);
  if (found === undefined || shard >= found.row.shards)
    return { next: await bucketBehind(context, bucket), counts: NOTHING_SCRUBBED, findings: [] };
  const partition = bucketPartition(bucket, shard);
  const unreadable: Uint8Array[] = [];
  const onUnreadable = (key: Uint8Array): void => void unreadable.push(key);
  const whole = await context.metadata.range(partition, { from, to: contentSpan().to, limit: SCRUB_PAGE, onUnreadable });
  const page = bounded(whole);
  unreadable.push(...page.filter((row) => readableRow(row) === undefined).map(({ key }) => key));
  let [blobs, bytes] = [0, 0];
  const counted = async (readBytes: number): Promise<void> => {
    bytes += readBytes;
    await meter(readBytes);
  };
  const check = reading(context, { meter: counted, passesOver });
  const dangling = await danglingOf(context, partition, page, (oid, lengthBytes) => {
    blobs += 1;
    return check(oid, lengthBytes);
  });
  const strays = await mendedStrays(context, partition, page);
  const parts = (await mendedParts(context, partition, bucket, page)).flatMap(({ key, blobs: left }) =>
    left.map((blob) => ({ ...blob, key })),
  );
  await meter(page.length * SCRUB_ROW_BYTES);
  const findings = [
    ...dangling.map(findingOf),
    ...strays.map(({ rowKey, key, lengthBytes }) => ({ kind: "leaked", partition, rowKey: toHex(rowKey), key, lengthBytes }) as const),
    ...parts.map(({ oid, key, lengthBytes }) => ({ kind: "leaked", oid, bucket, key, lengthBytes }) as const),
    ...unreadable.map((key) => ({ kind: "unreadable", partition, rowKey: toHex(key) }) as const),
  ];
  const damaged = findings.filter(({ kind }) => kind === "damaged").length;
  const counts = {
    ...NOTHING_SCRUBBED,
    rows: page.length,
    blobs,
    bytes,
    leaked: strays.length + parts.length,
    leakedBytes: [...strays, ...parts].reduce((sum, { lengthBytes }) => sum + lengthBytes, 0),
    dangling: dangling.length - damaged,
    damaged,
    unreadableRows: unreadable.length,
  };
  const met = counts.leaked + counts.dangling + counts.damaged + counts.unreadableRows;
  assert(findings.length === met, "OGD9: each finding about a row is counted once");
  return { next: rowsBehind(bucket, shard, page, whole), counts, findings };
}

/** Bodies that no version names: removed. One that another request removed meanwhile was none. */
async function mendedStrays(context: ObjectStoreContext, partition: string, page: readonly MetadataRow[]): Promise<readonly StrayBody[]> {
  const strays: StrayBody[] = [];
  for (const stray of await strayBodies(context, partition, page)) if (await removeStray(context, stray)) strays.push(stray);
  return strays;
}

/** Parts that nothing counts on: garbage from here on. */
async function mendedParts(
  context: ObjectStoreContext,
  partition: string,
  bucket: string,
  page: readonly MetadataRow[],
): Promise<readonly StrayUpload[]> {
  const mended: StrayUpload[] = [];
  for (const stray of await strayParts(context, partition, page)) {
    if (await collectStray(context, partition, bucket, stray)) mended.push(stray);
  }
  return mended;
}

/** At least one row, and what its blobs hold is bounded: the place is recorded soon enough. */
function bounded(page: readonly MetadataRow[]): readonly MetadataRow[] {
  let bytes = 0;
  const end = page.findIndex((found) => {
    if (bytes > SCRUB_PAGE_BYTES) return true;
    const row = readableRow(found);
    bytes += (row === undefined ? undefined : blobOf(row))?.lengthBytes ?? 0;
    return false;
  });
  assert(end !== 0, "a page of a scrub has a row");
  return end < 0 ? page : page.slice(0, end);
}

function rowsBehind(bucket: string, shard: number, page: readonly MetadataRow[], whole: readonly MetadataRow[]): ScrubbedPage["next"] {
  if (whole.length < SCRUB_PAGE && page.length === whole.length) return { ...FIRST_PLACE, bucket, shard: shard + 1 };
  return { kind: "rows", bucket, shard, from: afterKey(page.at(-1)!.key) };
}

async function bucketBehind(context: ObjectStoreContext, bucket: string): Promise<ScrubbedPage["next"]> {
  for await (const { row } of scanBuckets(context)) if (row.name > bucket) return { ...FIRST_PLACE, bucket: row.name };
  return { kind: "blobs", epoch: 0, sequence: 0 };
}

function findingOf({ partition, rowKey, oid, reason }: DanglingReference): ScrubFinding {
  return { kind: reason === "damaged" || reason === "unreadable" ? "damaged" : "dangling", partition, rowKey: toHex(rowKey), oid, reason };
}

/** As `inspecting`, and every byte is read and verified. */
function reading(context: ObjectStoreContext, { meter, passesOver }: ScrubPageOptions): BlobCheck {
  const inspect = inspecting(context);
  return async (oid, lengthBytes) => {
    try {
      const wrong = await inspect(oid, lengthBytes);
      if (wrong !== undefined) return wrong;
      let readBytes = 0;
      for await (const chunk of context.data.read(oid, 0, lengthBytes)) {
        readBytes += chunk.length;
        await meter(chunk.length);
      }
      assert(readBytes === lengthBytes, "OGD9: a blob is sound once every byte was read");
      return undefined;
    } catch (thrown) {
      if (toConcordError(thrown).code === "CORRUPT_DATA") return "damaged";
      if (passesOver && isReadFailure(thrown)) return "unreadable";
      throw thrown;
    }
  };
}

/** A leaked blob becomes garbage: it is kept for the grace, and collection looks once more whether a row names it (I13). */
async function scrubBlobs(
  context: ObjectStoreContext,
  { epoch, sequence }: Extract<ScrubPlace, { readonly kind: "blobs" }>,
  { meter, passesOver }: ScrubPageOptions,
): Promise<ScrubbedPage> {
  const oids = epoch === 0 ? [] : await context.data.list({ epoch, fromSequence: sequence, limit: SCRUB_PAGE });
  const unreadable = new Set<Oid>();
  const leaks = await leakedOf(context, oids, passesOver ? (oid) => void unreadable.add(oid) : undefined);
  const fates = leaks.length === 0 ? new Map() : await decideBlobs(context, leaks);
  const leaked = leaks.filter(({ oid }) => fates.get(oid) !== "referenced");
  await meter(oids.length * SCRUB_ROW_BYTES);
  const counts = {
    ...NOTHING_SCRUBBED,
    blobs: oids.length,
    leaked: leaked.length,
    leakedBytes: leaked.reduce((sum, { lengthBytes }) => sum + lengthBytes, 0),
  };
  const findings = [
    ...leaked.map(({ oid, lengthBytes, description: { bucket, key } }) => ({ kind: "leaked", oid, bucket, key, lengthBytes }) as const),
    ...Array.from(unreadable, (oid) => ({ kind: "unreadable", oid }) as const),
  ];
  assert(findings.length === counts.leaked + unreadable.size, "OGD9: each finding about a blob is counted once");
  return { next: await blobsBehind(context, epoch, oids), counts, findings };
}

async function blobsBehind(context: ObjectStoreContext, epoch: number, page: readonly Oid[]): Promise<ScrubbedPage["next"]> {
  if (page.length === SCRUB_PAGE) return { kind: "blobs", epoch, sequence: parseOid(page.at(-1)!).sequence + 1 };
  const next = (await context.data.epochs()).find((other) => other > epoch);
  return next === undefined ? undefined : { kind: "blobs", epoch: next, sequence: 0 };
}
