import { sameVersion, type MetadataRow } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import type { ListedVersion, ListVersionsRequest, VersionListing } from "./api.ts";
import type { ObjectStoreContext } from "./context.ts";
import { versionOf } from "./head-row.ts";
import { checkListing, commonPrefixOf, startOf } from "./list-objects.ts";
import { assertForward } from "./page-invariants.ts";
import {
  afterKey,
  afterPrefix,
  bucketPartition,
  headKey,
  keyOfHead,
  nullVersionKey,
  shardOf,
  versionKey,
  versionsOfKeySpan,
} from "./row-keys.ts";
import type { ObjectVersion } from "./rows.ts";
import { mergeShards, type MergedRows } from "./shard-cursor.ts";
import { readBucket } from "./shard-view.ts";
import { isNewer, nameOf, NULL_VERSION_ID, orderText, parseVersionId, versionIdOf } from "./versions.ts";

/** Keys whose versions are read at once. */
const KEYS_AT_ONCE = 16;
/** Versions of one key read at once with others'; a key with more is read on its own. */
const FIRST_VERSIONS = 50;

interface Entry {
  readonly version: ObjectVersion;
  readonly modifiedMs: number;
  readonly object: ListedVersion["object"];
}

interface KeyVersions {
  readonly key: string;
  /** Newest first; all as they were at one moment. */
  readonly entries: readonly Entry[];
  /** The first entry is the current version. */
  readonly isFromHead: boolean;
  /** Nothing follows the entries. */
  readonly isWhole: boolean;
}

/** A page while it is filled. */
class Page {
  readonly versions: ListedVersion[] = [];
  readonly commonPrefixes: string[] = [];
  readonly #limit: number;
  #last: VersionListing["next"];

  constructor(limit: number) {
    this.#limit = limit;
  }

  get free(): number {
    assert(this.versions.length + this.commonPrefixes.length <= this.#limit, "a page has at most what was asked for");
    return this.#limit - this.versions.length - this.commonPrefixes.length;
  }

  /** False: the page is full, and this key has more. */
  add({ key, entries, isFromHead }: KeyVersions): boolean {
    for (const [at, { version, modifiedMs, object }] of entries.entries()) {
      if (this.free === 0) return false;
      const isOlder = at === 0 || isNewer(entries[at - 1]!.version, version);
      assert(isOlder, "versions of a key are listed from the newest on, each once");
      this.versions.push({ key, versionId: versionIdOf(version), isLatest: isFromHead && at === 0, modifiedMs, object });
      this.#last = { key, versionId: orderText(version) };
    }
    return true;
  }

  /** False: the page is full. */
  addCommon(common: string): boolean {
    if (this.free === 0) return false;
    assert(this.commonPrefixes.at(-1) !== common, "versions below a common prefix are jumped over");
    this.commonPrefixes.push(common);
    this.#last = { key: common, versionId: undefined };
    return true;
  }

  /** `more`: something follows. */
  finish(more: boolean): VersionListing {
    assert(!more || this.free === 0, "a page that goes on is full");
    assert(!more || this.#last !== undefined, "a page that goes on says where");
    return { versions: this.versions, commonPrefixes: this.commonPrefixes, next: more ? this.#last : undefined };
  }
}

/**
 * Objects and delete markers by key, then newest first; with a delimiter as in `listObjects`, but a prefix of delete markers alone counts too.
 * The versions of a key are those of one moment. BUCKET_UNKNOWN, MALFORMED_REQUEST.
 */
export async function listVersions(context: ObjectStoreContext, request: ListVersionsRequest): Promise<VersionListing> {
  const { prefix, delimiter, limit, after } = request;
  checkListing(context, { prefix, delimiter, limit, after: after?.key });
  const { row: bucket } = await readBucket(context, request.bucket);
  const page = new Page(limit);
  if (limit === 0) return page.finish(false);
  const read = (key: string, options: ReadOptions): Promise<KeyVersions> =>
    versionsOfKey(context, bucketPartition(request.bucket, shardOf(key, bucket.shards)), key, options);
  const partitions = Array.from({ length: bucket.shards }, (_, shard) => bucketPartition(request.bucket, shard));
  const heads = mergeShards(context, partitions, startOf({ prefix, delimiter, after: after?.key }));
  if (isWithin(request) && !page.add(await read(after!.key, { after: after!.versionId, limit: limit + 1 }))) return page.finish(true);
  for (;;) {
    const { keys, common } = await nextKeys(heads, { prefix, delimiter, count: Math.min(KEYS_AT_ONCE, page.free + 1) });
    if (keys.length === 0 && common === undefined) return page.finish(false);
    const firstLimit = Math.min(FIRST_VERSIONS, page.free + 1);
    const found = await Promise.all(keys.map((key) => read(key, { after: undefined, limit: firstLimit })));
    for (const first of found) {
      const all = first.isWhole ? first : await read(first.key, { after: undefined, limit: page.free + 1 });
      if (!page.add(all)) return page.finish(true);
    }
    if (common === undefined) continue;
    if (!page.addCommon(common)) return page.finish(true);
    heads.seek(afterPrefix(headKey(common)));
  }
}

/** The next keys, up to one that rolls up to a common prefix. */
async function nextKeys(
  heads: MergedRows,
  { prefix, delimiter, count }: { readonly prefix: string; readonly delimiter: string | undefined; readonly count: number },
): Promise<{ readonly keys: readonly string[]; readonly common: string | undefined }> {
  const keys: string[] = [];
  for (let row = await heads.peek(); row !== undefined; row = await heads.peek()) {
    const key = keyOfHead(row.key);
    const common = commonPrefixOf(key, prefix, delimiter);
    if (common !== undefined || keys.length === count) return { keys, common };
    keys.push(key);
    heads.take();
  }
  return { keys, common: undefined };
}

/** The page before ended between two versions of a key. */
function isWithin({ prefix, delimiter, after }: ListVersionsRequest): boolean {
  if (after?.versionId === undefined || !after.key.startsWith(prefix)) return false;
  return commonPrefixOf(after.key, prefix, delimiter) === undefined;
}

interface ReadOptions {
  /** Id of a version, or where it stands. */
  readonly after: string | undefined;
  readonly limit: number;
}

/** S3's name of a null version does not say where it stands. */
async function orderOfNull(context: ObjectStoreContext, partition: string, key: string): Promise<ObjectVersion> {
  const rows = await context.metadata.read(partition, [headKey(key), nullVersionKey(key)]);
  const found = rows.flatMap((row) => (row === undefined ? [] : [nameOf(versionOf(row))])).find(({ isNull }) => isNull);
  if (found === undefined)
    throw new ConcordError("MALFORMED_REQUEST", "the version id marker names no version", { metadata: { field: "version" } });
  return found;
}

/** Up to `limit` versions, newest first. A version moves only with the head: the same head before and after says that none moved between. */
async function versionsOfKey(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  { after, limit }: ReadOptions,
): Promise<KeyVersions> {
  const behind =
    after === NULL_VERSION_ID ? await orderOfNull(context, partition, key) : after === undefined ? undefined : parseVersionId(after);
  const rowKeys = [headKey(key), nullVersionKey(key)];
  let [head] = await context.metadata.read(partition, rowKeys);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const older = head === undefined ? [] : await olderOf(context, partition, key, { after: behind, limit });
    const [now, nullRow] = await context.metadata.read(partition, rowKeys);
    if (sameVersion(now?.version, head?.version)) {
      const isWhole = older.length < limit;
      const rest = nullRow === undefined ? older : withNull(older, entryOf(nullRow), isWhole);
      const [first] = head === undefined ? [] : [entryOf(head)];
      const entries = [...(first === undefined ? [] : [first]), ...rest].filter(
        ({ version }) => behind === undefined || isNewer(behind, version),
      );
      return { key, entries, isFromHead: first !== undefined && entries[0] === first, isWhole };
    }
    head = now;
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

/** Versions that are not current, but for a null version. */
async function olderOf(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  { after, limit }: { readonly after: ObjectVersion | undefined; readonly limit: number },
): Promise<readonly Entry[]> {
  const span = versionsOfKeySpan(key);
  let from = after === undefined ? span.from : afterKey(versionKey(key, { ...after, isNull: false }));
  const entries: Entry[] = [];
  while (entries.length < limit) {
    const pageLimit = Math.min(limit - entries.length, context.limits.listPageRows);
    const page = await context.metadata.range(partition, { from, to: span.to, limit: pageLimit });
    const found = page.map(entryOf);
    assert(!found.some(({ version }) => version.isNull), "I16: the null version of a key is apart from the others");
    entries.push(...found);
    if (page.length < pageLimit) break;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
  assert(entries.length <= limit, "no more versions of a key are read than are asked for");
  return entries;
}

/** The null version at its place; behind entries that were cut off it belongs to a later page. */
function withNull(older: readonly Entry[], entry: Entry, isWhole: boolean): readonly Entry[] {
  const at = older.findIndex(({ version }) => isNewer(entry.version, version));
  if (at < 0) return isWhole ? [...older, entry] : older;
  return [...older.slice(0, at), entry, ...older.slice(at)];
}

/** Without content: an inline object's bytes are not kept for a page. */
function entryOf(found: MetadataRow): Entry {
  const { version, row } = versionOf(found);
  const name = nameOf({ version, row });
  if (row.kind === "marker") return { version: name, modifiedMs: row.modifiedMs, object: undefined };
  const { sizeBytes, etag, checksum, modifiedMs, acl } = row;
  return { version: name, modifiedMs, object: { sizeBytes, etag, checksum, owner: acl?.owner } };
}
