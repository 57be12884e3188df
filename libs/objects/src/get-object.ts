import { assert, ConcordError, spanOver, unreachable } from "@concord/runtime";
import type { ByteRange, FoundObject, HeadRequest, ObjectStore, Precondition } from "./api.ts";
import { openBeside, type OpenContent } from "./body-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { checkCustomerKey, openChecksum, openDataKey, type DataKey } from "./encryption/data-keys.ts";
import { openBlob, openInline, openPart } from "./encryption/open-content.ts";
import { assertAnswered } from "./page-invariants.ts";
import { checkReadCondition } from "./preconditions.ts";
import { decodeRowAs } from "./row-codec.ts";
import { partKey } from "./row-keys.ts";
import type { Content, PartRow, StoredChecksum, StoredObject } from "./rows.ts";
import { viewShard, type ShardView } from "./shard-view.ts";
import { nameOf, objectOfVersion, rowKeysOfVersion } from "./versions.ts";

interface Span {
  readonly offset: number;
  readonly lengthBytes: number;
}

/** A stretch of one part. */
interface PartSpan extends Span {
  readonly number: number;
}

type PartsContent = Extract<Content, { readonly kind: "parts" }>;

/** BUCKET_UNKNOWN, OBJECT_UNKNOWN (`objectOfVersion`), NOT_MODIFIED, PRECONDITION_FAILED. */
export async function headObject(context: ObjectStoreContext, request: HeadRequest): Promise<StoredObject> {
  const { object } = await find(context, request);
  checkReadCondition(request.precondition, object);
  return shown(object, await keyOfHead(context, object, request));
}

/** For what is said beside the content, in the row's plain fields (tags, ACL, lock): asks for no customer's key. Errors as `headObject`. */
export async function objectWithoutKey(
  context: ObjectStoreContext,
  request: Omit<HeadRequest, "customerKey" | "checksum">,
): Promise<StoredObject> {
  const { object } = await find(context, request);
  checkReadCondition(request.precondition, object);
  return object;
}

/** Asked for only where it is needed: a customer's key is checked, a checksum may be encrypted. */
async function keyOfHead(context: ObjectStoreContext, object: StoredObject, request: HeadRequest): Promise<DataKey | undefined> {
  const { encryption } = object;
  checkCustomerKey(encryption, request.customerKey);
  if (encryption === undefined) return undefined;
  const isNeeded = encryption.under.kind === "customer" || (request.checksum === "wanted" && encryption.under.kind === "service");
  return isNeeded ? await openDataKey(context, encryption, request, request.customerKey) : undefined;
}

/** With the checksum of its plaintext. */
function shown(object: StoredObject, key: DataKey | undefined): StoredObject {
  return key === undefined ? object : { ...object, checksum: shownChecksum(object, key) };
}

/** As `headObject`, with a page of the object's parts; their rows are read some at a time. */
export async function headObjectParts(
  context: ObjectStoreContext,
  request: Parameters<ObjectStore["headObjectParts"]>[0],
): ReturnType<ObjectStore["headObjectParts"]> {
  const { view, object: found } = await find(context, request);
  checkReadCondition(request.precondition, found);
  const key = await keyOfHead(context, found, { ...request, checksum: "wanted" });
  const object = shown(found, key);
  const { content } = object;
  if (content.kind !== "parts") return { object, parts: undefined };
  const left = content.parts.filter(({ number }) => number > request.after);
  const page = left.slice(0, Math.min(request.limit, context.limits.listLimitMax));
  assert(page.length === 0 || page[0]!.number > request.after, "OG14: a page of parts goes on behind its marker");
  const rows: PartRow[] = [];
  for (let at = 0; at < page.length; at += context.limits.partPageRows)
    rows.push(...(await readParts(context, view, content, page.slice(at, at + context.limits.partPageRows))));
  const parts = page.map(({ number, lengthBytes }, at) => ({ number, sizeBytes: lengthBytes, checksum: shownChecksum(rows[at]!, key) }));
  const next = page.length < left.length ? (page.at(-1)?.number ?? request.after) : undefined;
  assert(next === undefined || left[page.length]!.number > next, "OG14: each part is on one page");
  return { object, parts: { total: content.parts.length, parts, next } };
}

/** Of the plaintext of an object or a part; undefined also when it is encrypted and the key is not there. */
export function shownChecksum(
  { checksum, encryption }: Pick<StoredObject | PartRow, "checksum" | "encryption">,
  key: DataKey | undefined,
): StoredChecksum | undefined {
  return key === undefined || encryption?.checksum === undefined ? checksum : openChecksum(key, encryption.checksum);
}

/**
 * The object as it is now: an overwrite or delete while its bytes are streamed does not touch them, since garbage waits longer than
 * the longest request (OGD10). Also RANGE_UNSATISFIABLE; CORRUPT_DATA while streaming.
 */
export async function getObject(context: ObjectStoreContext, request: GetRequest): Promise<FoundObject> {
  const endsAtMs = context.clock.monotonicMs() + context.limits.longestRequestMs;
  let missed: bigint | undefined;
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const { view, object } = await find(context, request);
    const { span, key } = await openRequested(context, object, request);
    assert((key === undefined) === (object.encryption === undefined), "OGD23: what is encrypted is opened before it is served");
    const content = await openBeside(context, view, object.content);
    if (content !== undefined) {
      const bytes =
        key === undefined ? contentBytes(context, view, content, span) : openedBytes(context, view, { object, content, key }, span);
      return { object: shown(object, key), ...span, bytes: until(context, endsAtMs, span.lengthBytes, bytes) };
    }
    // It goes with its version only, so another look shows another version, or none (I23).
    missed = refuseDangling(context, object.content, missed);
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

export interface GetRequest {
  readonly bucket: string;
  readonly key: string;
  readonly range: ByteRange | undefined;
  readonly precondition: Precondition;
  readonly part: number | undefined;
  readonly versionId?: string | undefined;
  readonly customerKey?: Uint8Array | undefined;
}

/** What of the object is wanted, if its conditions hold, and the key of its data. */
async function openRequested(
  context: ObjectStoreContext,
  object: StoredObject,
  request: GetRequest,
): Promise<{ readonly span: Span; readonly key: DataKey | undefined }> {
  checkReadCondition(request.precondition, object);
  checkCustomerKey(object.encryption, request.customerKey);
  if (request.range !== undefined && request.part !== undefined) {
    throw new ConcordError("MALFORMED_REQUEST", "either a range or a part number");
  }
  const span = request.part === undefined ? spanOfRange(object, request.range) : spanOfPart(object, request.part);
  const { encryption } = object;
  const key = encryption === undefined ? undefined : await openDataKey(context, encryption, request, request.customerKey);
  return { span, key };
}

/** The GUID of the body that was gone. CORRUPT_DATA: the row that was found after that says that it is there. */
function refuseDangling(context: ObjectStoreContext, content: Content, missed: bigint | undefined): bigint {
  assert(content.kind === "beside", "only a body beside its row can be gone");
  if (content.guid !== missed) return content.guid;
  context.metrics.count("objects_dangling_total");
  throw new ConcordError("CORRUPT_DATA", "the body of the object has no row");
}

/** In a bucket that has versions, an object from before has its version too. */
async function find(
  context: ObjectStoreContext,
  { bucket, key, versionId }: { readonly bucket: string; readonly key: string; readonly versionId?: string | undefined },
): Promise<{ view: ShardView; object: StoredObject }> {
  const row = context.span?.child("metadata read");
  const viewing = viewShard(context, "read", bucket, key, rowKeysOfVersion(key, versionId));
  const view = await (row === undefined ? viewing : spanOver(row, viewing));
  const found = objectOfVersion(view, versionId);
  const isVersioned = view.header.row.versioning !== undefined;
  return { view, object: isVersioned ? { ...found.row, version: nameOf(found) } : found.row };
}

/** As RFC 9110, 14.1.2 has it: a last byte behind the end is the end, a suffix longer than the object is all of it. */
export function spanOfRange({ sizeBytes }: StoredObject, range: ByteRange | undefined): Span {
  if (range === undefined) return { offset: 0, lengthBytes: sizeBytes };
  const { first, last } = range;
  const offset = first ?? Math.max(0, sizeBytes - (last ?? 0));
  const end = first === undefined || last === undefined ? sizeBytes : Math.min(last + 1, sizeBytes);
  if (offset >= end) {
    throw new ConcordError("RANGE_UNSATISFIABLE", "the object has no such bytes", { metadata: { sizeBytes: String(sizeBytes) } });
  }
  assert(end <= sizeBytes, "a range ends within its object");
  const isAsked = first === undefined ? end - offset <= (last ?? 0) : last === undefined || end <= last + 1;
  assert(isAsked, "a range has no more than was asked for");
  return { offset, lengthBytes: end - offset };
}

/** An object that was not uploaded in parts is its own part 1. */
export function spanOfPart(object: StoredObject, part: number): Span {
  if (object.content.kind !== "parts" && part === 1) return { offset: 0, lengthBytes: object.sizeBytes };
  let offset = 0;
  for (const { number, lengthBytes } of object.content.kind === "parts" ? object.content.parts : []) {
    if (number === part) {
      assert(offset + lengthBytes <= object.sizeBytes, "OG14: a part is within its object");
      return { offset, lengthBytes };
    }
    offset += lengthBytes;
  }
  throw new ConcordError("RANGE_UNSATISFIABLE", "the object has no such part", { metadata: { part: String(part) } });
}

function contentBytes(context: ObjectStoreContext, view: ShardView, content: OpenContent, span: Span): AsyncIterable<Uint8Array> {
  switch (content.kind) {
    case "inline":
      return once(content.bytes.subarray(span.offset, span.offset + span.lengthBytes));
    case "blob":
      return context.data.read(content.oid, span.offset, span.lengthBytes);
    case "parts":
      return partBytes(context, view, content, span, ({ offset, lengthBytes }, { oid }) => context.data.read(oid, offset, lengthBytes));
    default:
      return unreachable(content);
  }
}

/** The plaintext of an encrypted object. */
function openedBytes(
  context: ObjectStoreContext,
  view: ShardView,
  { object: { sizeBytes }, content, key }: { readonly object: StoredObject; readonly content: OpenContent; readonly key: DataKey },
  span: Span,
): AsyncIterable<Uint8Array> {
  switch (content.kind) {
    case "inline":
      return once(openInline(key, content.bytes, sizeBytes, span));
    case "blob":
      return openBlob(context, key, content, span);
    case "parts":
      return partBytes(context, view, content, span, ({ number, offset, lengthBytes }, row) =>
        openPart(context, key, number, row, { offset, lengthBytes }),
      );
    default:
      return unreachable(content);
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  if (bytes.length > 0) yield bytes;
}

/** Part rows are read as the stream gets to them; a done upload's never change, and stay as long as its blobs (OGD11). */
async function* partBytes(
  context: ObjectStoreContext,
  view: ShardView,
  content: PartsContent,
  span: Span,
  read: (part: PartSpan, row: PartRow) => AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const touched = touchedParts(content, span);
  for (let at = 0; at < touched.length; at += context.limits.partPageRows) {
    const page = touched.slice(at, at + context.limits.partPageRows);
    const rows = await readParts(context, view, content, page);
    for (const [index, part] of page.entries()) yield* read(part, rows[index]!);
  }
}

async function readParts(
  context: ObjectStoreContext,
  view: ShardView,
  content: PartsContent,
  page: readonly Pick<PartSpan, "number">[],
): Promise<readonly PartRow[]> {
  const keys = page.map(({ number }) => partKey(view.key, content.uploadId, number));
  const rows = await context.metadata.read(view.partition, keys);
  assertAnswered(rows, keys);
  return rows.map((row, index) => {
    if (row !== undefined) return decodeRowAs("part", row.value);
    context.metrics.count("objects_dangling_total");
    throw new ConcordError("CORRUPT_DATA", `part ${page[index]!.number} of the object has no row`);
  });
}

/** Which bytes of which parts a span touches. */
export function touchedParts(content: PartsContent, span: Span): readonly PartSpan[] {
  const touched: PartSpan[] = [];
  const end = span.offset + span.lengthBytes;
  let at = 0;
  for (const { number, lengthBytes } of content.parts) {
    const from = Math.max(span.offset, at);
    const to = Math.min(end, at + lengthBytes);
    if (from < to) touched.push({ number, offset: from - at, lengthBytes: to - from });
    at += lengthBytes;
  }
  const covered = touched.reduce((sum, { lengthBytes }) => sum + lengthBytes, 0);
  assert(covered === span.lengthBytes, "OG14: a span of an object is in its parts");
  return touched;
}

/** A stream that outlasts the garbage grace could lose its bytes: it is ended (OGD10). */
async function* until(
  context: ObjectStoreContext,
  endsAtMs: number,
  lengthBytes: number,
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let leftBytes = lengthBytes;
  const check = (): void => {
    if (context.clock.monotonicMs() <= endsAtMs) return;
    context.metrics.count("objects_streams_ended_total");
    throw new ConcordError("DEADLINE_EXCEEDED", "the download took longer than the longest request", { applied: "no" });
  };
  for await (const chunk of bytes) {
    check();
    assert(chunk.length <= leftBytes, "a download has no more than what was asked for");
    yield chunk;
    leftBytes -= chunk.length;
    // The reader may have taken its time: what comes next may be gone by now.
    if (leftBytes > 0) check();
  }
  assert(leftBytes === 0, "a download that ends has all that was asked for");
}
