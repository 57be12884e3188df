import { faultsOf, type Seed } from "./objects-rows.ts";

const ACLS = "acls";
const BODIES = "body-rows";
const BUCKETS = "buckets";
const CODEC = "row-codec";
const DELETES = "delete-object";
const GETS = "get-object";
const KEYS = "row-keys";
const LOCKS = "locks";
const MULTIPART = "multipart/multipart";
const PUTS = "put-object";
const SETTINGS = "settings";
const STORES = "object-store";
const VERSIONS = "versions";

/** Buckets, locks, keys and bytes of rows: the files directly in `libs/objects/src`. */
const SEEDS: readonly Seed[] = [
  // Buckets.
  [
    "each change of a bucket's settings has the next number",
    "buckets",
    "    const number = (settings?.number ?? 0n) + 1n;\n",
    "    const number = (settings?.number ?? 0n) + 2n;\n",
    SETTINGS,
  ],
  [
    "what was judged for a bucket's former owner is older than what its next one has set",
    "buckets",
    "return { settings: { number: (former?.settings?.number ?? 0n) + 1n, documents",
    "return { settings: { number: former?.settings?.number ?? 0n, documents",
    SETTINGS,
  ],
  [
    "OGD17: a bucket that is there keeps its owner",
    "buckets",
    "if ((await commitBucket(context, found, { ...found.row, tags })) !== undefined) return;",
    'if ((await commitBucket(context, found, { ...found.row, tenant: "", tags })) !== undefined) return;',
    BUCKETS,
  ],
  [
    "OGD17: a bucket that is there keeps the time of its making",
    "buckets",
    "if ((await commitBucket(context, found, { ...found.row, tags })) !== undefined) return;",
    "if ((await commitBucket(context, found, { ...found.row, createdMs: 0, tags })) !== undefined) return;",
    BUCKETS,
  ],
  [
    "OGD21: a bucket with locks keeps versions",
    "buckets",
    '    if (found.row.locking !== undefined && versioning !== "enabled") throw bucketState(KEEPS_VERSIONS);\n',
    "",
    LOCKS,
  ],
  ["OGD21: the time of locks is older than every lock", "buckets", "    await context.lockTime.establish();\n    if", "    if", LOCKS],
  ["OGD21: the time of locks is older than every lock", "buckets", "  if (withLocks) await context.lockTime.establish();\n", "", LOCKS],
  [
    "a scan of buckets goes on where its last page ended",
    "bucket-row",
    "range(SYSTEM_PARTITION, { from, to, limit: SCAN_ROWS });",
    "range(SYSTEM_PARTITION, { from: start, to, limit: SCAN_ROWS });",
    BUCKETS,
  ],
  [
    "OGD17: a bucket that is forgotten was closed",
    "bucket-shards",
    '  if (await isEmpty(context, mine.row)) return "empty";\n',
    '  if (await isEmpty(context, mine.row)) {\n    await changeHeaders(context, mine.row, closed, "open");\n    return "empty";\n  }\n',
    BUCKETS,
  ],
  [
    "each shard's header is written as it was read",
    "bucket-shards",
    "Promise.all(partitionsOf(mine.row).map(",
    "Promise.all(partitionsOf(mine.row).slice(1).map(",
    BUCKETS,
  ],
  [
    "the settings that a header names never go back",
    "bucket-shards",
    "(settings === undefined ? {} : { settings: settings.number }),",
    "(settings === undefined ? {} : { settings: 100n - settings.number }),",
    SETTINGS,
  ],
  [
    "a shard that keeps versions goes on to",
    "bucket-shards",
    "    ...(versioning === undefined ? {} : { versioning }),\n",
    '    ...(versioning !== "enabled" ? {} : { versioning }),\n',
    VERSIONS,
  ],
  [
    "OGD21: a shard whose versions can be locked goes on so",
    "bucket-shards",
    "    ...(locking === undefined ? {} : { locking }),\n",
    '    ...(locking === undefined || state === "closed" ? {} : { locking }),\n',
    LOCKS,
  ],
  ["a turn ends once", "bucket-turns", "    this.#running.set(bucket, running);\n", "", BUCKETS],
  [
    "a bounded number of buckets is remembered",
    "bucket-cache",
    "this.#rows.size >= this.#rowsMax",
    "this.#rows.size > this.#rowsMax",
    STORES,
  ],
  [
    "buckets are listed by name, each once",
    "bucket-row",
    "    for (const found of rows) yield",
    "    for (const found of rows.toReversed()) yield",
    BUCKETS,
  ],
  [
    "OGD16: no shard has fewer objects than none",
    "usage",
    "context.metadata.readCounters(partition, usageKey())",
    "context.metadata.readCounters(partition, usageKey()).then((all) => all.map((count) => -count))",
    MULTIPART,
  ],
  [
    "a view has a place for each row that was asked for",
    "shard-view",
    "read(partition, [headerKey(), ...rowKeys]);",
    "read(partition, [headerKey(), ...rowKeys.slice(0, 1)]);",
    VERSIONS,
  ],
  [
    "no write commits under settings newer than those it was judged by",
    "put-object",
    "    checkJudged(context, view.bucket, view.header.row.settings);\n",
    "",
    SETTINGS,
  ],
  [
    "no write commits under settings newer than those it was judged by",
    "change-object",
    "await viewShard(context, ",
    "await viewShard((({ judged: _, ...anyone }) => anyone)(context), ",
    SETTINGS,
  ],
  [
    "no write commits under settings newer than those it was judged by",
    "delete-object",
    '    const view = await viewShard(context, "write", bucket, key, rowKeys);\n',
    '    const view = await viewShard((({ judged: _, ...anyone }) => anyone)(context), "write", bucket, key, rowKeys);\n',
    SETTINGS,
  ],
  ["what rests is not taken over", "buckets", "    if (!isUnresolved(found.row)) continue;\n", "", BUCKETS],
  [
    "OGD17: a bucket is empty when nothing comes in any more",
    "bucket-shards",
    'const closed = await writeHeaders(context, mine, "closed");',
    'const closed = await writeHeaders(context, mine, "open");',
    BUCKETS,
  ],
  [
    "OGD21: a shard with locks keeps versions",
    "bucket-shards",
    "    ...(versioning === undefined ? {} : { versioning }),\n",
    "    ...(locking !== undefined ? {} : { versioning }),\n",
    LOCKS,
  ],
  // Locks, and other changes of a row.
  [
    "OGD21: governance is shortened by who bypasses it",
    "object-locks",
    "      checkRetentionChange(object.lock?.retention, retention, { nowMs, bypass });\n",
    "",
    LOCKS,
  ],
  [
    "OGD21: only a bucket with locks has locked versions",
    "locks",
    "  checkLocking(header);\n  if (asked.retention",
    "  if (asked.retention",
    LOCKS,
  ],
  [
    "OGD21: a retention leaves the legal hold as it is",
    "object-locks",
    "withLock(object, { ...object.lock, retention });",
    "withLock(object, { retention });",
    LOCKS,
  ],
  [
    "OGD21: a legal hold leaves the retention as it is",
    "object-locks",
    "withLock(object, { ...object.lock, legalHold });",
    "withLock(object, { legalHold });",
    LOCKS,
  ],
  [
    "OGD1: a change of a row keeps its time and its ETag",
    "tags",
    "return { ...object, attributes",
    "return { ...object, modifiedMs: 0, attributes",
    DELETES,
  ],
  ["an object's lock is changed as such", "tags", "return { ...object, attributes", "return { ...object, lock: {}, attributes", DELETES],
  [
    "an object's ACL is changed as such",
    "object-locks",
    "  const { lock: _, ...rest } = object;\n",
    '  const { lock: _, ...rest } = { ...object, acl: { owner: "", grants: "" } };\n',
    LOCKS,
  ],
  [
    "what a client said of its object stays as it was",
    "acls",
    "    const { acl: _, ...rest } = object;\n",
    "    const { acl: _, ...rest } = { ...object, attributes: { headers: {}, metadata: {}, tags: {} } };\n",
    ACLS,
  ],
  ["a copy of a range has all of it", "copy-object", "range.last >= sizeBytes) {", "range.last < 0) {", GETS],
  [
    "a copy sends visitors where its own request says",
    "copy-object",
    "const own = redirect === undefined ? inherited : {",
    "const own = redirect === undefined ? headers : {",
    GETS,
  ],
  [
    "the row of a pass goes on",
    "pass-turn",
    "    this.#own = version;\n",
    "    this.#own = { ...version, commit: version.commit + 2n ** 60n };\n",
    "consistency/scrubber",
  ],
  // Keys and bytes of rows.
  ["a number in a row is whole, and not below zero", "put-object", "modifiedMs: context.clock.nowMs(),", "modifiedMs: -1,", PUTS],
  [
    "what is written can be read",
    "row-codec",
    'const HEADER_STATES = ["open", "closed"] as const;',
    'const HEADER_STATES: readonly ShardHeader["state"][] = ["open"];',
    BUCKETS,
  ],
  [
    "fields of a row are in the order of their tags",
    "row-fields",
    "fields.push([ENCRYPTION, encryptionBytes(encryption)]);",
    "fields.unshift([ENCRYPTION, encryptionBytes(encryption)]);",
    CODEC,
  ],
  ["a key is in one of its bucket's shards", "row-keys", "% BigInt(shards));", "% BigInt(shards + 1));", KEYS],
  [
    "only a head has a head's key",
    "row-keys",
    "export const headSpan = (): KeySpan => spanOf(Uint8Array.of(HEAD));",
    "export const headSpan = (): KeySpan => ({ from: Uint8Array.of(HEAD), to: Uint8Array.of(UPLOAD) });",
    VERSIONS,
  ],
  [
    "only a version of an object has an object's key",
    "consistency/body-findings",
    "bodyKey(keyOfObject(found.key), content.guid)",
    "bodyKey(keyOfObject(found.key.subarray(1)), content.guid)",
    "consistency/body-findings",
  ],
  [
    "only uploads and their parts have an upload's id",
    "consistency/part-findings",
    "isPartKey(key) ? [uploadOfKey(key)]",
    "!isPartKey(key) ? [uploadOfKey(key)]",
    "consistency/part-findings",
  ],
  ["parts are counted from 1 on", "get-object", "content.uploadId, number));", "content.uploadId, number - 1));", GETS],
  [
    "only a part has a part's number",
    "multipart/list-uploads",
    "numberOfPart(found.key)",
    "numberOfPart(found.key.subarray(1))",
    MULTIPART,
  ],
  [
    "OGD14: only small objects are in rows",
    "store-body",
    "if (first.last && small.length <= target.inlineBytesMax) {",
    "if (first.last && target.inlineBytesMax >= 0) {",
    PUTS,
  ],
  [
    "OGD14: listings read no body of more than a little",
    "body-rows",
    "sizeBytes <= limits.headBytesMax) return",
    "sizeBytes <= limits.inlineBytesMax) return",
    BODIES,
  ],
  ["I16: a delete marker is known by its first bytes", "row-codec", "bytes[1] === KIND_TAGS.marker", "bytes[1] === KIND_TAGS.body", CODEC],
  [
    "OGD17: rows of a bucket are in a known number of shards",
    "buckets",
    "found?.row.shards ?? context.shards;",
    "found?.row.shards ?? 0;",
    BUCKETS,
  ],
  [
    "OGD11: an upload names parts in their order, each once",
    "multipart/select-parts",
    "part.number <= parts[at - 1]!.number",
    "part.number === parts[at - 1]!.number",
    MULTIPART,
  ],
  [
    "OGD9: bytes that are leaked are those of a finding",
    "consistency/scrub-page",
    "[...strays, ...parts].reduce((sum, { lengthBytes }) => sum + lengthBytes, 0)",
    "[...strays, ...parts].reduce((sum, { lengthBytes }) => sum + lengthBytes, 1)",
    "consistency/scrubber",
  ],
  [
    "OGD18: bytes that went are those of versions that went",
    "lifecycle/lifecycle-page",
    "  else if (isCurrent) counts.current += 1;\n  else counts.nonCurrent += 1;\n",
    "",
    "lifecycle/lifecycle",
  ],
  [
    "OGD4: a delete with If-Match deletes what has that ETag",
    "preconditions",
    "checkWriteCondition(ifMatch === undefined ? {} : { ifMatch }, object);",
    "checkWriteCondition(ifMatch === undefined || object === undefined ? {} : { ifMatch }, object);",
    DELETES,
  ],
  [
    "OGD21: the end of a retention can be said as a date",
    "locks",
    '  if (untilMs > LOCK_UNTIL_MS_MAX) throw malformed("The retain until date is too far in the future.");\n',
    "",
    LOCKS,
  ],
];

export const OBJECTS_BUCKETS_FAULTS = faultsOf(SEEDS);
