// How the versions of a key change (docs/design/objects.md, Rows of versions): the head is the newest (I16).
import { sameVersion, type MetadataCondition, type MetadataRow, type MetadataWrite, type RowVersion } from "@concord/ports";
import { assert, ConcordError, unreachable } from "@concord/runtime";
import { putGarbage } from "./commit-rows.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { leaveNumber, takeNumber } from "./events/event-writes.ts";
import { assertLeft, bodyLeftBy, leftBy, versionOf, type VersionRow } from "./head-row.ts";
import { assertNotHeld, checkRemovable } from "./locks.ts";
import { headKey, isGarbageKey, isHeadKey, nullVersionKey, versionKey, versionsOfKeySpan } from "./row-keys.ts";
import type { ObjectVersion, StoredObject, Versioning } from "./rows.ts";
import type { ShardView, Versioned } from "./shard-view.ts";

/** What clients call the null version. */
export const NULL_VERSION_ID = "null";
const NULL_VERSION: ObjectVersion = { commit: 0n, guid: 0n, isNull: true };
const U64_DIGITS = 16;

/** Opaque to clients. */
export function versionIdOf(version: ObjectVersion): string {
  return version.isNull ? NULL_VERSION_ID : orderText(version);
}

/** Where a version stands among its key's, also a null version: what a page of versions continues after. */
export function orderText({ commit, guid }: Pick<ObjectVersion, "commit" | "guid">): string {
  const text = [commit, guid].map((number) => number.toString(16).padStart(U64_DIGITS, "0")).join("");
  assert(text.length === 2 * U64_DIGITS, "ids of versions are as long as each other");
  return text;
}

/** MALFORMED_REQUEST for everything that `versionIdOf` does not write. */
export function parseVersionId(text: string): ObjectVersion {
  if (text === NULL_VERSION_ID) return NULL_VERSION;
  if (!/^[0-9a-f]{32}$/.test(text))
    throw new ConcordError("MALFORMED_REQUEST", "Invalid version id specified", { metadata: { field: "version" } });
  const [commit, guid] = [text.slice(0, U64_DIGITS), text.slice(U64_DIGITS)].map((digits) => BigInt(`0x${digits}`));
  return { commit: commit!, guid: guid!, isNull: false };
}

/** The version that a row is: one from before its bucket was versioned is ordered by its row. */
export function nameOf({ version, row }: Versioned<VersionRow>): ObjectVersion {
  return row.version ?? { ...version, isNull: true };
}

/** The same version, as a client names it. */
export function isVersion(found: ObjectVersion, wanted: ObjectVersion): boolean {
  if (found.isNull || wanted.isNull) return found.isNull && wanted.isNull;
  return found.commit === wanted.commit && found.guid === wanted.guid;
}

export function isNewer(one: RowVersion, other: RowVersion): boolean {
  return one.commit === other.commit ? one.guid > other.guid : one.commit > other.commit;
}

/** A new current version, and what the commit that makes it does with the versions before. */
export interface Succession {
  /** Of the new head row. */
  readonly rowVersion: RowVersion;
  /** Undefined: the bucket keeps no versions. */
  readonly version: ObjectVersion | undefined;
  /** Gone with the commit, so their usage is taken off. */
  readonly replaced: StoredObject | undefined;
  /** Besides the header and the head as they were seen. */
  readonly conditions: readonly MetadataCondition[];
  readonly writes: readonly MetadataWrite[];
}

/** Of a view whose first row is the head. By what its header says of the bucket, so a commit on that header keeps what must be kept. */
export async function succeed(context: ObjectStoreContext, view: ShardView, guid: bigint): Promise<Succession> {
  const [headRow] = view.rows;
  assert(headRow === undefined || isHeadKey(headRow.key), "the first row of a view is the head");
  const head = headRow === undefined ? undefined : versionOf(headRow);
  const number = head === undefined ? await takeNumber(context, view) : undefined;
  const rowVersion = nextVersion(head?.version ?? number?.last, context.clock, guid);
  const next = await succession(context, view, guid, { head, rowVersion });
  assertSuccession(next, head, view.header.row.versioning);
  if (number === undefined) return next;
  return { ...next, conditions: [...next.conditions, ...number.conditions], writes: [...next.writes, ...number.writes] };
}

/** Of the commit that makes the version: nothing that was there is lost, or stays without a row. */
function assertSuccession(
  { rowVersion, version, replaced, writes }: Succession,
  head: Versioned<VersionRow> | undefined,
  versioning: Versioning | undefined,
): void {
  assert(head === undefined || isNewer(rowVersion, nameOf(head)), "I16, OGD5: a new version is above the one that it follows");
  const isNamed = version === undefined || (version.commit === rowVersion.commit && version.guid === rowVersion.guid);
  assert(isNamed, "OGD5: a version is named by the commit that makes it");
  assert(replaced === undefined || version?.isNull !== false, "I16: a bucket that keeps versions replaces none");
  assert(
    version !== undefined || head?.row.kind !== "object" || replaced === head.row,
    "OGD4: a bucket without versions has one object of a key",
  );
  assert(
    version === undefined || version.isNull === (versioning === "suspended"),
    "I16: while versions are suspended the null version is written",
  );
  assertLeft(replaced, writes);
  const puts = writes.flatMap((write) => (write.kind === "put" ? [write.row.key] : []));
  const isKept = head !== undefined && version !== undefined && !(version.isNull && nameOf(head).isNull);
  assert(!isKept || puts.some((key) => !isGarbageKey(key)), "I16: a version that is kept moves to a row of its own");
}

/** The head as it was seen, and the version of the row that follows it. */
interface Following {
  readonly head: Versioned<VersionRow> | undefined;
  readonly rowVersion: RowVersion;
}

async function succession(
  context: ObjectStoreContext,
  view: ShardView,
  guid: bigint,
  { head, rowVersion }: Following,
): Promise<Succession> {
  switch (view.header.row.versioning) {
    case undefined:
      assert(head?.row.version === undefined, "only a versioned bucket has versions");
      return { rowVersion, version: undefined, conditions: [], ...(await replacing(context, view, guid, head?.row)) };
    case "enabled": {
      const writes = head === undefined ? [] : [moveAside(view.key, head, rowVersion)];
      return { rowVersion, version: { ...rowVersion, isNull: false }, replaced: undefined, conditions: [], writes };
    }
    case "suspended":
      return { rowVersion, version: { ...rowVersion, isNull: true }, ...(await replaceNull(context, view, guid, { head, rowVersion })) };
    default:
      return unreachable(view.header.row.versioning);
  }
}

/** The null version goes, wherever it is; another head becomes an earlier version. */
async function replaceNull(
  context: ObjectStoreContext,
  view: ShardView,
  guid: bigint,
  { head, rowVersion }: Following,
): Promise<Pick<Succession, "replaced" | "conditions" | "writes">> {
  // A key has one null version: none is behind a head that is it.
  if (head !== undefined && nameOf(head).isNull) return { conditions: [], ...(await replacing(context, view, guid, head.row)) };
  const key = nullVersionKey(view.key);
  const [found] = await context.metadata.read(view.partition, [key]);
  assertNull(found);
  const { replaced, writes } = await replacing(context, view, guid, found === undefined ? undefined : versionOf(found).row);
  return {
    replaced,
    conditions: [{ key, version: found?.version }],
    writes: [
      ...(head === undefined ? [] : [moveAside(view.key, head, rowVersion)]),
      ...(found === undefined ? [] : [{ kind: "delete", key } as const]),
      ...writes,
    ],
  };
}

/** Of the row at the key of a key's null version: it may be replaced without a search for others. */
function assertNull(found: MetadataRow | undefined): void {
  assert(found === undefined || nameOf(versionOf(found)).isNull, "I16: the null version of a key has a place of its own");
}

/** PERMISSION_DENIED: a lock keeps it. A bucket with locks replaces nothing, so none is met. */
async function replacing(
  context: ObjectStoreContext,
  { bucket, key }: ShardView,
  guid: bigint,
  old: VersionRow | undefined,
): Promise<Pick<Succession, "replaced" | "writes">> {
  await checkRemovable(context, old, undefined);
  assertNotHeld(old);
  const left = leftBy(old);
  return {
    replaced: old?.kind === "object" ? old : undefined,
    writes: [...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]), ...bodyLeftBy(key, old)],
  };
}

/** Its body, if there is one beside it, stays where it is (I23). */
function moveAside(key: string, head: Versioned<VersionRow>, rowVersion: RowVersion): MetadataWrite {
  const version = nameOf(head);
  return putRow(versionKey(key, version), rowVersion, { ...head.row, version });
}

/**
 * The head after a commit of this version, when the version in it is removed: the newest of the others takes its place, all in one
 * commit. Undefined: the head is another one than in `view` by now, so that the commit could only be refused.
 */
export async function promote(
  context: ObjectStoreContext,
  view: ShardView,
  rowVersion: RowVersion,
): Promise<Pick<Succession, "conditions" | "writes"> | undefined> {
  const key = headKey(view.key);
  const [headRow] = view.rows;
  assert(headRow !== undefined, "I16: a version becomes current when the one that was goes");
  const { head, next } = await newestOlder(context, view);
  if (head === undefined || !sameVersion(head.version, headRow.version)) return undefined;
  if (next === undefined) return { conditions: [], writes: [{ kind: "delete", key }, ...leaveNumber(context, view, rowVersion)] };
  assert(isNewer(nameOf(versionOf(headRow)), nameOf(versionOf(next))), "I16: the newest version of a key is its head");
  return {
    conditions: [{ key: next.key, version: next.version }],
    writes: [putRow(key, rowVersion, versionOf(next).row), { kind: "delete", key: next.key }],
  };
}

/** The newest beside the head, and the head that it is older than: none can become newer than it without a commit on the head. */
async function newestOlder(
  context: ObjectStoreContext,
  { partition, key }: ShardView,
): Promise<{ readonly head: MetadataRow | undefined; readonly next: MetadataRow | undefined }> {
  const [newest] = await context.metadata.range(partition, { ...versionsOfKeySpan(key), limit: 1 });
  const [nullRow, head] = await context.metadata.read(partition, [nullVersionKey(key), headKey(key)]);
  assertNull(nullRow);
  if (newest === undefined || nullRow === undefined) return { head, next: newest ?? nullRow };
  return { head, next: isNewer(nameOf(versionOf(nullRow)), nameOf(versionOf(newest))) ? nullRow : newest };
}

/** A version of a key and where its row is. */
export interface FoundVersion extends Versioned<VersionRow> {
  readonly rowKey: Uint8Array;
  readonly isCurrent: boolean;
}

/** The rows that may be the version: the first is the head. */
export function rowKeysOfVersion(key: string, versionId: string | undefined): readonly Uint8Array[] {
  return versionId === undefined ? [headKey(key)] : [headKey(key), versionKey(key, parseVersionId(versionId))];
}

/** Of a view of `rowKeysOfVersion`: the version, or the current one; undefined: there is none. */
export function findVersion(view: ShardView, versionId: string | undefined): FoundVersion | undefined {
  const [headRow, olderRow] = view.rows;
  const head = headRow === undefined ? undefined : { ...versionOf(headRow), rowKey: headKey(view.key), isCurrent: true };
  if (versionId === undefined || head === undefined) return head;
  const wanted = parseVersionId(versionId);
  if (isVersion(nameOf(head), wanted)) return head;
  if (olderRow === undefined) return undefined;
  const older = { ...versionOf(olderRow), rowKey: olderRow.key, isCurrent: false };
  assert(isVersion(nameOf(older), wanted), "I16: a version's row is where its name says");
  return older;
}

/** OBJECT_UNKNOWN: there is no such version (field "version"), or it is a delete marker (field "marker"; current: no field). */
export function objectOfVersion(view: ShardView, versionId: string | undefined): FoundVersion & { readonly row: StoredObject } {
  const found = findVersion(view, versionId);
  if (found === undefined) {
    const field = versionId === undefined ? undefined : { field: "version", versionId };
    throw new ConcordError("OBJECT_UNKNOWN", "there is no such object", { metadata: { key: view.key, ...field } });
  }
  const { row } = found;
  if (row.kind === "object") return { ...found, row };
  const marker = { marker: versionIdOf(row.version), modifiedMs: String(row.modifiedMs) };
  const field = versionId === undefined ? undefined : { field: "marker" };
  throw new ConcordError("OBJECT_UNKNOWN", "there is a delete marker", { metadata: { key: view.key, ...marker, ...field } });
}
