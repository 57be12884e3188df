import type { AssertionFault } from "./assertion-fault.ts";

/** Files and tests are named below `libs/objects/src`, without their ends. */
export type Seed = readonly [message: string, file: string, search: string, replace: string, test: string];

const BODIES = "body-rows";
const BUCKETS = "buckets";
const COMMITS = "commit-rows";
const DELETES = "delete-object";
const ENCRYPTED = "encryption/encrypted-objects";
const EVENTS = "events/events";
const GETS = "get-object";
const LISTS = "list-objects";
const LOCKS = "locks";
const MULTIPART = "multipart/multipart";
const PUTS = "put-object";
const VERSIONS = "versions";

/** Commits, versions, contents of objects, listings: the files directly in `libs/objects/src`. */
const SEEDS: readonly Seed[] = [
  // Before rows are committed.
  [
    "OGD15: rows of buckets, epochs and passes are apart from those of objects",
    "commit-rows",
    "    partition: attempt.view.partition,\n",
    '    partition: "",\n',
    COMMITS,
  ],
  [
    "OGD15: rows of buckets, epochs and passes are apart from those of objects",
    "commit-rows",
    "    partition,\n    conditions: [{ key: headerKey(), version: header.version }],\n",
    '    partition: "",\n    conditions: [{ key: headerKey(), version: header.version }],\n',
    BUCKETS,
  ],
  [
    "OGD4: a head is replaced or removed as it was seen",
    "delete-object",
    "    conditions: [headerCondition(view), { key: found.rowKey, version: found.version }, ...rest.conditions],\n",
    "    conditions: [headerCondition(view), ...rest.conditions],\n",
    VERSIONS,
  ],
  [
    "a commit that removes a head names its header",
    "delete-object",
    "    conditions: [headerCondition(view), { key: headKey(key), version: found.version }],\n",
    "    conditions: [{ key: headKey(key), version: found.version }],\n",
    DELETES,
  ],
  [
    "an event is written under the header that has its rules",
    "delete-object",
    "    conditions: [headerCondition(view), { key: found.rowKey, version: found.version }, ...rest.conditions],\n",
    "    conditions: [...(found.isCurrent ? [headerCondition(view)] : []), { key: found.rowKey, version: found.version }, ...rest.conditions],\n",
    EVENTS,
  ],
  [
    "OGD2: a commit that may be repeated changes a row that it names",
    "change-object",
    "      conditions: [headerCondition(view), { key: found.rowKey, version: found.version }],\n",
    "      conditions: [headerCondition(view)],\n",
    DELETES,
  ],
  [
    "OGD2: a commit writes once the row that decides it",
    "put-object",
    "      deciding: { key, observed: view.rows[0]?.version },\n",
    "      deciding: { key: nullVersionKey(view.key), observed: view.rows[0]?.version },\n",
    PUTS,
  ],
  [
    "a commit says once what a row must be",
    "put-object",
    "      conditions: next.conditions,\n",
    "      conditions: [{ key, version: view.rows[0]?.version }, ...next.conditions],\n",
    PUTS,
  ],
  [
    "garbage in a closed shard raises its header",
    "commit-rows",
    'const needed = !passed || header.row.state === "closed" || attempt',
    "const needed = !passed || attempt",
    COMMITS,
  ],
  [
    "garbage in a closed shard raises its header",
    "commit-rows",
    'writes: [...(header.row.state === "closed" ? [raiseHeader(context, header)] : []), garbage],',
    "writes: [garbage],",
    BUCKETS,
  ],
  [
    "OGD10: what a request may still read is garbage for as long as it may run",
    "commit-rows",
    "const dueMs = nowMs + limits.garbageGraceMs;",
    "const dueMs = nowMs;",
    PUTS,
  ],
  ["GC entries of one commit differ in one byte", "commit-rows", "const OWN_BLOBS = 255;", "const OWN_BLOBS = 256;", COMMITS],
  [
    "OGD17: nothing is put into a bucket that is closed",
    "put-object",
    '    if (current.header.row.state !== "open") view = await',
    '    if (current.header.row.state === "open") view = await',
    BUCKETS,
  ],
  ["a conflict shows the row of each condition", "commit-rows", "observed }, ...attempt.conditions];", "observed }];", MULTIPART],
  [
    "a blob is referenced once the commit that names it is there",
    "commit-rows",
    "return await decided(attempt, resolved, {",
    'return await decided(attempt, "referenced", {',
    COMMITS,
  ],
  [
    "a row is written under a higher number than was seen",
    "lock-time",
    "nextVersion(before?.version, clock, await guids.next())",
    "before?.version ?? nextVersion(undefined, clock, await guids.next())",
    LOCKS,
  ],
  // Versions.
  [
    "blobs that are replaced are garbage in the same commit",
    "delete-object",
    "      ...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]),\n",
    "",
    DELETES,
  ],
  [
    "blobs that are replaced are garbage in the same commit",
    "delete-object",
    "  const garbage = left === undefined ? bodyLeftBy(key, found.row) : [putGarbage(context, guid, { bucket, key, what: left })];\n",
    "  const garbage = bodyLeftBy(key, found.row);\n",
    VERSIONS,
  ],
  ["the body of a version goes with it", "versions", ", ...bodyLeftBy(key, old)],", ", ...bodyLeftBy(key, undefined)],", BODIES],
  ["the body of a version goes with it", "delete-object", "      ...bodyLeftBy(key, found.row),\n", "", BODIES],
  [
    "the body of a version goes with it",
    "delete-object",
    "  const garbage = left === undefined ? bodyLeftBy(key, found.row) : [",
    "  const garbage = left === undefined ? [] : [",
    BODIES,
  ],
  [
    "OGD16: a commit counts the objects and bytes that it changes",
    "put-object",
    "        ...countUsage(next.replaced, object),\n",
    "        ...countUsage(undefined, object),\n",
    PUTS,
  ],
  [
    "OGD16: a commit counts the objects and bytes that it changes",
    "delete-object",
    "...next.writes, ...countUsage(next.replaced, undefined), ...event];",
    "...next.writes, ...event];",
    VERSIONS,
  ],
  [
    "OGD16: a commit counts the objects and bytes that it changes",
    "delete-object",
    'writes: [...rest.writes, ...garbage, ...countUsage(found.row.kind === "object" ? found.row : undefined, undefined), ...event],',
    "writes: [...rest.writes, ...garbage, ...event],",
    VERSIONS,
  ],
  [
    "OGD16: a commit counts the objects and bytes that it changes",
    "delete-object",
    "      ...countUsage(found.row, undefined),\n",
    "",
    DELETES,
  ],
  [
    "ids of versions are as long as each other",
    "versions",
    'number.toString(16).padStart(U64_DIGITS, "0")).join("");',
    'number.toString(16)).join("");',
    VERSIONS,
  ],
  [
    "OGD5: a version is named by the commit that makes it",
    "versions",
    "version: { ...rowVersion, isNull: false }, replaced: undefined",
    "version: { commit: context.clock.nowUs() - 1n, guid, isNull: false }, replaced: undefined",
    VERSIONS,
  ],
  [
    "a bucket that keeps versions replaces none",
    "versions",
    "      return { rowVersion, version: { ...rowVersion, isNull: true },",
    "      return { rowVersion, version: { ...rowVersion, isNull: false },",
    VERSIONS,
  ],
  [
    "OGD4: a bucket without versions has one object of a key",
    "versions",
    'replaced: old?.kind === "object" ? old : undefined,',
    "replaced: undefined,",
    PUTS,
  ],
  [
    "the null version of a key has a place of its own",
    "versions",
    "  return putRow(versionKey(key, version), rowVersion, { ...head.row, version });\n",
    "  return putRow(versionKey(key, version), rowVersion, { ...head.row, version: { ...version, isNull: false } });\n",
    BODIES,
  ],
  [
    "the current version of a key is in its head row",
    "versions",
    "rowKey: olderRow.key, isCurrent: false };\n",
    "rowKey: olderRow.key, isCurrent: true };\n",
    VERSIONS,
  ],
  [
    "a version becomes current when the one that was goes",
    "delete-object",
    "await promote(context, view, number)",
    "await promote(context, { ...view, rows: [] }, number)",
    VERSIONS,
  ],
  [
    "the newest version of a key is its head",
    "versions",
    "const [newest] = await context.metadata.range(partition, { ...versionsOfKeySpan(key), limit: 1 });",
    "const [newest] = await context.metadata.read(partition, [headKey(key)]);",
    VERSIONS,
  ],
  [
    "a version's row is where its name says",
    "versions",
    "  return putRow(versionKey(key, version), rowVersion, { ...head.row, version });\n",
    "  return putRow(versionKey(key, version), rowVersion, { ...head.row, version: { ...version, guid: rowVersion.guid } });\n",
    VERSIONS,
  ],
  [
    "a version goes by its name where versions are kept",
    "delete-object",
    "    if (view.header.row.versioning === undefined) {\n",
    "    if (view.header.row.versioning === undefined && versionId === undefined) {\n",
    VERSIONS,
  ],
  [
    "while versions are suspended the null version is written",
    "versions",
    "      return { rowVersion, version: { ...rowVersion, isNull: true },",
    "      return { rowVersion, version: { ...rowVersion, isNull: false },",
    VERSIONS,
  ],
  [
    "the null version of a key is apart from the others",
    "versions",
    "  return putRow(versionKey(key, version), rowVersion, {",
    "  return putRow(versionKey(key, { ...version, isNull: false }), rowVersion, {",
    VERSIONS,
  ],
  // What rows say of their content.
  [
    "an object is as long as the plaintext of its blob",
    "store-body",
    'content: { kind: "blob", oid: name.oid, lengthBytes }, names',
    'content: { kind: "blob", oid: name.oid, lengthBytes: storedBytes }, names',
    ENCRYPTED,
  ],
  [
    "bytes in a row are those of its object",
    "store-body",
    'return { content: { kind: "inline", bytes }, names',
    'return { content: { kind: "inline", bytes: new Uint8Array(bytes.length + 1) }, names',
    PUTS,
  ],
  [
    "a body is put with the row that names it",
    "body-rows",
    'body: { kind: "body", bytes: content.bytes } };',
    "body: undefined };",
    BODIES,
  ],
  [
    "a row names the body that is put with it",
    "body-rows",
    'content: { kind: "beside", guid }, body',
    'content: { kind: "beside", guid: guid + 1n }, body',
    BODIES,
  ],
  [
    "a body beside a row is as long as its object",
    "body-rows",
    'body: { kind: "body", bytes: content.bytes } };',
    'body: { kind: "body", bytes: content.bytes.subarray(1) } };',
    BODIES,
  ],
  // Bodies that come and go.
  [
    "OG3: an object is as long as its body was announced",
    "store-body",
    'content: { kind: "inline", bytes }, names: [], sizeBytes: small.length',
    'content: { kind: "inline", bytes }, names: [], sizeBytes: bytes.length',
    ENCRYPTED,
  ],
  [
    "OGD24: each frame but the last is whole",
    "store-body",
    "  return Math.max(1, Math.floor(limits.writeBytes / FRAME_BYTES)) * FRAME_BYTES;\n",
    "  return Math.max(1, Math.floor(limits.writeBytes / FRAME_BYTES)) * FRAME_BYTES - 1;\n",
    ENCRYPTED,
  ],
  [
    "OGD3, OGD5: a name that was refused is not tried again",
    "store-body",
    "    const name = await context.journal.begin(blob);\n",
    "    const name = refused === undefined ? await context.journal.begin(blob) : ({ oid: refused } as BlobName);\n",
    PUTS,
  ],
  [
    "a buffer that is full grows",
    "store-body",
    "Math.max(FIRST_BUFFER_BYTES, buffer.length * 4)",
    "Math.max(buffer.length, FIRST_BUFFER_BYTES)",
    PUTS,
  ],
  [
    "OG14: a page of parts goes on behind its marker",
    "get-object",
    "filter(({ number }) => number > request.after);",
    "filter(({ number }) => number >= request.after);",
    MULTIPART,
  ],
  [
    "OG14: each part is on one page",
    "get-object",
    "(page.at(-1)?.number ?? request.after) : undefined;",
    "(left[page.length]?.number ?? request.after) : undefined;",
    MULTIPART,
  ],
  ["a range ends within its object", "get-object", "Math.min(last + 1, sizeBytes);", "last + 1;", GETS],
  ["OG14: a part is within its object", "get-object", "    offset += lengthBytes;\n", "    offset += object.sizeBytes;\n", GETS],
  [
    "a download has no more than what was asked for",
    "get-object",
    "return context.data.read(content.oid, span.offset, span.lengthBytes);",
    "return context.data.read(content.oid, span.offset, content.lengthBytes - span.offset);",
    GETS,
  ],
  [
    "a download that ends has all that was asked for",
    "get-object",
    "for (const [index, part] of page.entries()) yield*",
    "for (const [index, part] of page.slice(1).entries()) yield*",
    GETS,
  ],
  // Listings.
  [
    "all shards go on where a listing jumps to",
    "shard-cursor",
    "      for (const cursor of cursors) cursor.seek(from);\n",
    "      first?.seek(from);\n",
    LISTS,
  ],
  [
    "a row is looked at before it is taken",
    "list-objects",
    "      objects.push(listed(key, row.value));\n",
    "      objects.push(listed(key, row.value));\n      rows.take();\n",
    LISTS,
  ],
  ["a listing jumps forward", "list-objects", "rows.seek(afterPrefix(headKey(common)));", "rows.seek(headKey(common));", LISTS],
  [
    "only what was read is taken",
    "shard-cursor",
    "    const taken = this.#page[this.#at]?.key;\n",
    "    const taken = this.#page[this.#at]?.key;\n    this.#at += 1;\n",
    LISTS,
  ],
  [
    "a page of a shard has at most what was asked for",
    "shard-cursor",
    "to: this.#to, limit, onUnreadable });",
    "to: this.#to, limit: limit + 1, onUnreadable });",
    LISTS,
  ],
  [
    "a page of a shard is of what was asked for",
    "shard-cursor",
    "to: this.#to, limit, onUnreadable });",
    "to: afterKey(Uint8Array.of(0xff)), limit, onUnreadable });",
    LISTS,
  ],
  ["a page begins behind its marker", "list-objects", "? afterKey(headKey(after)) : afterPrefix", "? headKey(after) : afterPrefix", LISTS],
  [
    "versions of a key are listed from the newest on, each once",
    "list-versions",
    "  const at = older.findIndex(({ version }) => isNewer(entry.version, version));\n",
    "  const at = older.length - 1;\n",
    VERSIONS,
  ],
  [
    "a page that goes on is full",
    "list-versions",
    "      if (!page.add(all)) return page.finish(true);\n",
    "      if (!page.add(all) || !first.isWhole) return page.finish(true);\n",
    VERSIONS,
  ],
  [
    "no more versions of a key are read than are asked for",
    "list-versions",
    "    const pageLimit = Math.min(limit - entries.length, context.limits.listPageRows);\n",
    "    const pageLimit = context.limits.listPageRows;\n",
    VERSIONS,
  ],
];

export const faultsOf = (seeds: readonly Seed[]): readonly AssertionFault[] =>
  seeds.map(([message, file, search, replace, test]) => ({
    message,
    file: `libs/objects/src/${file}.ts`,
    search,
    replace,
    test: `libs/objects/src/${test}.test.ts`,
  }));

export const OBJECTS_ROWS_FAULTS = faultsOf(SEEDS);
