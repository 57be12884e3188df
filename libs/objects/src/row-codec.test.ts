import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { oidOf } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { decodeRow, decodeRowAs, encodeRow, referencesOf, type Row } from "./row-codec.ts";

const oid = oidOf(0x2a, 0xf);
const attributes = {
  headers: { "content-type": "text/plain" },
  metadata: { a: "b" },
  tags: { t: "" },
};
const checksum = { algorithm: "CRC32C", type: "FULL_OBJECT", value: "x==" } as const;
const stored = { sizeBytes: 3, etag: "e", modifiedMs: 5, attributes, checksum };

const counts = { rows: 1, blobs: 2, bytes: 3, leaked: 4, leakedBytes: 5, dangling: 6, damaged: 7, unreadableRows: 8 };
const expired = { looked: 1, current: 2, nonCurrent: 3, markers: 4, bytes: 5, uploads: 6, overtaken: 7, kept: 8 };

/** One row of each shape with its bytes: version 1, never to change. */
const told = {
  bucket: "b",
  bucketCreatedMs: 13,
  tenant: "t",
  region: "r",
  key: "k",
  ruleId: "all",
  rule: 2,
  atMs: 14,
  cause: { principal: "p", address: "a", requestId: "i" },
};

const GOLDEN: readonly (readonly [string, Row, string])[] = [
  [
    "inline object",
    { kind: "object", ...stored, content: { kind: "inline", bytes: Uint8Array.of(1, 2, 3) } },
    "0101000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d0103010203",
  ],
  [
    "object with its body beside it",
    { kind: "object", ...stored, content: { kind: "beside", guid: 258n } },
    "0101000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d040000000000000102",
  ],
  ["body", { kind: "body", bytes: Uint8Array.of(1, 2, 3) }, "011b03010203"],
  [
    "object in a blob",
    { kind: "object", ...stored, checksum: undefined, content: { kind: "blob", oid, lengthBytes: 3 } },
    "0101000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000020000002a000000000000000f0000000000000003",
  ],
  [
    "object in parts",
    {
      kind: "object",
      ...stored,
      content: {
        kind: "parts",
        uploadId: 7n,
        parts: [
          { number: 1, lengthBytes: 2 },
          { number: 300, lengthBytes: 1 },
        ],
      },
    },
    "0101000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d03000000000000000702010000000000000002ac020000000000000001",
  ],
  [
    "open upload",
    { kind: "upload", state: { kind: "open" }, initiatedMs: 9, attributes, checksum: undefined },
    "01020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e0101610162010174000001",
  ],
  [
    "completing upload",
    {
      kind: "upload",
      state: { kind: "completing", guid: 8n, sinceMs: 10, parts: [{ number: 1, etag: "e" }] },
      initiatedMs: 9,
      attributes,
      checksum: { algorithm: "SHA256", type: "COMPOSITE" },
    },
    "01020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e010161016201017400010401020000000000000008000000000000000a01010165",
  ],
  [
    "done upload",
    {
      kind: "upload",
      state: { kind: "done", guid: 8n, etag: "e-1", doneMs: 11, parts: [{ number: 1, etag: "e" }] },
      initiatedMs: 9,
      attributes,
      checksum: undefined,
    },
    "01020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e0101610162010174000003000000000000000803652d31000000000000000b01010165",
  ],
  [
    "part",
    { kind: "part", oid, lengthBytes: 3, etag: "e", modifiedMs: 5, checksum },
    "01030000002a000000000000000f00000000000000030165000000000000000501010003783d3d",
  ],
  [
    "garbage blobs",
    { kind: "garbage", bucket: "b", key: "k", dueMs: 12, what: { kind: "blobs", oids: [oid] } },
    "01040162016b000000000000000c01010000002a000000000000000f",
  ],
  [
    "garbage upload",
    { kind: "garbage", bucket: "b", key: "k", dueMs: 12, what: { kind: "upload", uploadId: 7n } },
    "01040162016b000000000000000c020000000000000007",
  ],
  [
    "done upload with a version",
    {
      kind: "upload",
      state: { kind: "done", guid: 8n, etag: "e-1", doneMs: 11, parts: [], version: { commit: 258n, guid: 3n, isNull: false } },
      initiatedMs: 9,
      attributes: { headers: {}, metadata: {}, tags: {} },
      checksum: undefined,
    },
    "010200000000000000090000000004000000000000000803652d31000000000000000b000000000000000102000000000000000300",
  ],
  [
    "version",
    {
      kind: "object",
      content: { kind: "blob", oid, lengthBytes: 3 },
      ...stored,
      checksum: undefined,
      version: { commit: 258n, guid: 3n, isNull: true },
    },
    "0109000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000020000002a000000000000000f00000000000000030000000000000102000000000000000301",
  ],
  [
    "delete marker",
    { kind: "marker", version: { commit: 258n, guid: 3n, isNull: false }, modifiedMs: 5 },
    "010a00000000000000050000000000000102000000000000000300",
  ],
  ["header of a versioned bucket", { kind: "header", state: "open", shards: 4, versioning: "suspended" }, "010b000000000401"],
  ["header", { kind: "header", state: "closed", shards: 4 }, "01050100000004"],
  [
    "bucket",
    { kind: "bucket", name: "b", tenant: "t", region: "r", createdMs: 13, shards: 4, state: "open", tags: { x: "y" } },
    "0106016201740172000000000000000d00000004010101780179",
  ],
  ["header of a configured bucket", { kind: "header", state: "open", shards: 4, settings: 258n }, "010d0000000004000000000000000102"],
  [
    "header of a configured and versioned bucket",
    { kind: "header", state: "open", shards: 4, versioning: "enabled", settings: 1n },
    "010d000000000401000000000000000001",
  ],
  [
    "configured bucket",
    {
      kind: "bucket",
      name: "b",
      tenant: "t",
      region: "r",
      createdMs: 13,
      shards: 4,
      state: "open",
      tags: {},
      settings: { number: 2n, documents: { policy: "{}" } },
    },
    "010e016201740172000000000000000d00000004010000000000000000000201" + "06706f6c696379027b7d",
  ],
  [
    "scrub of rows",
    { kind: "scrub", startedMs: 1, counts, place: { kind: "rows", bucket: "b", shard: 2, from: Uint8Array.of(16, 107) } },
    "01080000000000000001000000000000000100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000080101620000000202106b",
  ],
  [
    "scrub of blobs",
    { kind: "scrub", startedMs: 1, counts, place: { kind: "blobs", epoch: 42, sequence: 9 } },
    "0108000000000000000100000000000000010000000000000002000000000000000300000000000000040000000000000005000000000000000600000000000000070000000000000008020000002a0000000000000009",
  ],
  [
    "ended scrub",
    { kind: "scrub", startedMs: 1, counts, place: { kind: "ended", endedMs: 14 } },
    "010800000000000000010000000000000001000000000000000200000000000000030000000000000004000000000000000500000000000000060000000000000007000000000000000803000000000000000e",
  ],
  [
    "lifecycle pass",
    {
      kind: "lifecycle",
      startedMs: 1,
      timeMs: 2,
      counts: expired,
      place: { kind: "rows", bucket: "b", shard: 2, from: Uint8Array.of(16, 107) },
    },
    "010f00000000000000010000000000000002000000000000000100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000080101620000000202106b",
  ],
  [
    "ended lifecycle pass",
    { kind: "lifecycle", startedMs: 1, timeMs: 2, counts: expired, place: { kind: "ended", endedMs: 14 } },
    "010f000000000000000100000000000000020000000000000001000000000000000200000000000000030000000000000004000000000000000500000000000000060000000000000007000000000000000803000000000000000e",
  ],
  [
    "garbage of a last number",
    { kind: "garbage", bucket: "b", key: "k", dueMs: 11, what: { kind: "last number", guid: 258n } },
    "010401620" + "16b000000000000000b030000000000000102",
  ],
  ["last number", { kind: "last number" }, "0119"],
  [
    "event",
    {
      kind: "event",
      name: "ObjectCreated:Copy",
      ...told,
      versionId: "v",
      object: { sizeBytes: 3, etag: "e" },
    },
    "0118020162000000000000000d01740172016b03616c6c02000000000000000e0170016101690101760100000000000000030165",
  ],
  [
    "event of a removal",
    { kind: "event", name: "ObjectRemoved:Delete", ...told, versionId: undefined, object: undefined },
    "0118040162000000000000000d01740172016b03616c6c02000000000000000e0170016101690000",
  ],
  [
    "header of a bucket with event rules",
    { kind: "header", state: "open", shards: 4, settings: 258n, events: { createdMs: 13, tenant: "t", region: "r", rules: "[]" } },
    "011a000000000400000000000000010200000000000000000d01740172025b5d",
  ],
  [
    "header of a versioned bucket with event rules",
    {
      kind: "header",
      state: "open",
      shards: 4,
      versioning: "enabled",
      settings: 1n,
      events: { createdMs: 13, tenant: "t", region: "r", rules: "[]" },
    },
    "011a00000000040100000000000000000100000000000000000d01740172025b5d",
  ],
  [
    "epoch",
    { kind: "epoch", epoch: 42, instance: "i", reservedTo: 1024, lowWater: 3, closed: true },
    "01070000002a01690000000000000400000000000000000301",
  ],
];

/** Rows with an ACL: version 2, never to change. */
const GOLDEN_WITH_ACL: readonly (readonly [string, Row, string])[] = [
  [
    "object with an ACL",
    { kind: "object", ...stored, content: { kind: "inline", bytes: Uint8Array.of(1, 2, 3) }, acl: { owner: "o", grants: "[]" } },
    "0201000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d010301020300016f025b5d",
  ],
  [
    "version with an ACL",
    {
      kind: "object",
      content: { kind: "blob", oid, lengthBytes: 3 },
      ...stored,
      checksum: undefined,
      version: { commit: 258n, guid: 3n, isNull: true },
      acl: { owner: "o", grants: "[]" },
    },
    "0201000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000020000002a000000000000000f0000000000000003010000000000000102000000000000000301016f025b5d",
  ],
  [
    "upload with an ACL",
    { kind: "upload", state: { kind: "open" }, initiatedMs: 9, attributes, checksum: undefined, acl: { owner: "o", grants: "[]" } },
    "02020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e0101610162010174000001016f025b5d",
  ],
];

/** Rows with a lock, with an ACL or without: version 3, never to change. */
const GOLDEN_WITH_LOCK: readonly (readonly [string, Row, string])[] = [
  [
    "object with a lock",
    {
      kind: "object",
      ...stored,
      content: { kind: "inline", bytes: Uint8Array.of(1, 2, 3) },
      lock: { retention: { mode: "COMPLIANCE", untilMs: 258 } },
    },
    "0301000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d01030102030001020a02000000000000010200",
  ],
  [
    "version with a lock and an ACL",
    {
      kind: "object",
      content: { kind: "blob", oid, lengthBytes: 3 },
      ...stored,
      checksum: undefined,
      version: { commit: 258n, guid: 3n, isNull: true },
      acl: { owner: "o", grants: "[]" },
      lock: { retention: { mode: "GOVERNANCE", untilMs: 258 }, legalHold: "ON" },
    },
    "0301000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000020000002a000000000000000f0000000000000003010000000000000102000000000000000301020105016f025b5d020a01000000000000010202",
  ],
  [
    "upload with a lock",
    { kind: "upload", state: { kind: "open" }, initiatedMs: 9, attributes, checksum: undefined, lock: { legalHold: "OFF" } },
    "03020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000010102020001",
  ],
];

/** Encrypted ones: version 3, never to change. */
const wrapped = Uint8Array.of(1, 2, 3);
const GOLDEN_ENCRYPTED: readonly (readonly [string, Row, string])[] = [
  [
    "encrypted object",
    {
      kind: "object",
      ...stored,
      content: { kind: "inline", bytes: Uint8Array.of(1, 2, 3) },
      encryption: { under: { kind: "managed", keyId: "m" }, wrapped, guid: 258n },
    },
    "0301000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740001010003783d3d01030102030001031001016d03010203000000000000010200",
  ],
  [
    "version encrypted under a service's key, with a lock and an ACL",
    {
      kind: "object",
      content: { kind: "blob", oid, lengthBytes: 3 },
      ...stored,
      checksum: undefined,
      version: { commit: 258n, guid: 3n, isNull: true },
      acl: { owner: "o", grants: "[]" },
      lock: { legalHold: "ON" },
      encryption: { under: { kind: "service", keyId: "s", context: "{}" }, wrapped, guid: 258n, checksum: Uint8Array.of(9) },
    },
    "0301000000000000000301650000000000000005010c636f6e74656e742d747970650a746578742f706c61696e01016101620101740000020000002a000000000000000f0000000000000003010000000000000102000000000000000301030105016f025b5d020200020315020173027b7d030102030000000000000102010109",
  ],
  [
    "upload encrypted under a customer's key",
    {
      kind: "upload",
      state: { kind: "open" },
      initiatedMs: 9,
      attributes,
      checksum: undefined,
      encryption: { under: { kind: "customer" }, wrapped, guid: 7n },
    },
    "03020000000000000009010c636f6e74656e742d747970650a746578742f706c61696e010161016201017400000101030e0303010203000000000000000700",
  ],
  [
    "encrypted part",
    {
      kind: "part",
      oid,
      lengthBytes: 3,
      etag: "e",
      modifiedMs: 5,
      checksum: undefined,
      encryption: { guid: 258n, checksum: Uint8Array.of(9) },
    },
    "03030000002a000000000000000f0000000000000003016500000000000000050001030c040000000000000102010109",
  ],
  [
    "encrypted part without a checksum of its own",
    { kind: "part", oid, lengthBytes: 3, etag: "e", modifiedMs: 5, checksum, encryption: { guid: 8n } },
    "03030000002a000000000000000f00000000000000030165000000000000000501010003783d3d01030a04000000000000000800",
  ],
];

/** Of buckets whose versions can be locked: kinds that older gateways refuse. */
const GOLDEN_LOCKING: readonly (readonly [string, Row, string])[] = [
  [
    "header of a bucket with locks",
    { kind: "header", state: "open", shards: 3, versioning: "enabled", locking: {} },
    "0110000000000301000000",
  ],
  [
    "header of a configured bucket with a default lock",
    {
      kind: "header",
      state: "closed",
      shards: 3,
      versioning: "enabled",
      settings: 5n,
      locking: { defaultRetention: { mode: "COMPLIANCE", unit: "years", count: 7 } },
    },
    "011001000000030100010000000000000005020100000007",
  ],
  [
    "bucket with locks",
    {
      kind: "bucket",
      name: "b",
      tenant: "t",
      region: "r",
      createdMs: 12,
      shards: 16,
      state: "open",
      tags: {},
      versioning: "enabled",
      locking: {},
    },
    "0111016201740172000000000000000c00000010010001000000",
  ],
  [
    "configured bucket with a default lock",
    {
      kind: "bucket",
      name: "b",
      tenant: "t",
      region: "r",
      createdMs: 12,
      shards: 16,
      state: "changing",
      tags: {},
      versioning: "enabled",
      settings: { number: 5n, documents: { policy: "{}" } },
      locking: { defaultRetention: { mode: "GOVERNANCE", unit: "days", count: 30 } },
    },
    "0111016201740172000000000000000c00000010040001000100000000000000050106706f6c696379027b7d01000000001e",
  ],
  ["time of locks", { kind: "lock-time", timeMs: 258 }, "01120000000000000102"],
];

const ALL_GOLDEN = [...GOLDEN, ...GOLDEN_WITH_ACL, ...GOLDEN_WITH_LOCK, ...GOLDEN_ENCRYPTED, ...GOLDEN_LOCKING];

for (const [name, row, hex] of ALL_GOLDEN) {
  test(`row codec: ${name}: golden bytes of version ${hex.slice(1, 2)}`, () => {
    assert.equal(Buffer.from(encodeRow(row)).toString("hex"), hex);
    assert.deepEqual(plain(decodeRow(Buffer.from(hex, "hex"))), plain(row));
  });
}

test("row codec: cut or followed bytes: CORRUPT_DATA", () => {
  for (const [, row] of ALL_GOLDEN) {
    const bytes = encodeRow(row);
    for (let length = 0; length < bytes.length; length += 1) {
      assert.throws(() => decodeRow(bytes.subarray(0, length)), { code: "CORRUPT_DATA" });
    }
    assert.throws(() => decodeRow(Buffer.concat([bytes, Uint8Array.of(0)])), { code: "CORRUPT_DATA" });
  }
});

test("row codec: any bytes: a row or CORRUPT_DATA", () => {
  const damaged = fc.tuple(fc.constantFrom(...ALL_GOLDEN), fc.nat(), fc.integer({ min: 1, max: 255 }));
  fc.assert(
    fc.property(damaged, ([[, row], at, flip]) => {
      const bytes = encodeRow(row);
      bytes[at % bytes.length]! ^= flip;
      try {
        decodeRow(bytes);
      } catch (thrown) {
        assert.ok(thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA", String(thrown));
      }
    }),
    { numRuns: 1000 },
  );
});

test("row codec: another version or another kind: CORRUPT_DATA", () => {
  const header = encodeRow({ kind: "header", state: "open", shards: 1 });
  assert.throws(() => decodeRowAs("object", header), { code: "CORRUPT_DATA" });
  // A header has neither ACL nor lock, and version 4 is not known yet.
  for (const version of [2, 3, 4]) {
    header[0] = version;
    assert.throws(() => decodeRow(header), { code: "CORRUPT_DATA" });
  }
});

test("row codec: a field that is not known, or one twice: CORRUPT_DATA", () => {
  const bytes = encodeRow(GOLDEN_WITH_LOCK[2]![1]);
  // Behind the row: the number of fields, then tag, length, value of each.
  const tagAt = bytes.length - 4;
  assert.deepEqual([...bytes.subarray(tagAt - 1)], [1, 2, 2, 0, 1]);
  const unknown = Uint8Array.from(bytes);
  unknown[tagAt] = 99;
  assert.throws(() => decodeRow(unknown), { code: "CORRUPT_DATA", message: /not known: 99/ });
  const twice = Buffer.concat([bytes, bytes.subarray(tagAt)]);
  twice[tagAt - 1] = 2;
  assert.throws(() => decodeRow(twice), { code: "CORRUPT_DATA", message: /not in order/ });
});

test("row codec: names like __proto__: kept as they are", () => {
  const metadata = Object.fromEntries([
    ["__proto__", "x"],
    ["constructor", "y"],
  ]);
  const row: Row = { kind: "object", ...stored, attributes: { ...attributes, metadata }, content: { kind: "blob", oid, lengthBytes: 3 } };
  const read = decodeRowAs("object", encodeRow(row));
  assert.deepEqual(Object.entries(read.attributes.metadata), Object.entries(metadata));
});

test("row codec: references: blobs and uploads that a row names", () => {
  const named = ALL_GOLDEN.map(([name, row]) => [name, referencesOf(row)] as const).filter(
    ([, { oids, uploadId }]) => oids.length > 0 || uploadId !== undefined,
  );
  assert.deepEqual(named, [
    ["object in a blob", { oids: [oid], uploadId: undefined }],
    ["object in parts", { oids: [], uploadId: 7n }],
    ["part", { oids: [oid], uploadId: undefined }],
    ["garbage blobs", { oids: [oid], uploadId: undefined }],
    ["garbage upload", { oids: [], uploadId: 7n }],
    ["version", { oids: [oid], uploadId: undefined }],
    ["version with an ACL", { oids: [oid], uploadId: undefined }],
    ["version with a lock and an ACL", { oids: [oid], uploadId: undefined }],
    ["version encrypted under a service's key, with a lock and an ACL", { oids: [oid], uploadId: undefined }],
    ["encrypted part", { oids: [oid], uploadId: undefined }],
    ["encrypted part without a checksum of its own", { oids: [oid], uploadId: undefined }],
  ]);
});

/** Views and buffers compare as plain bytes. */
function plain(row: Row): unknown {
  if (row.kind === "body") return { ...row, bytes: [...row.bytes] };
  if (row.kind !== "object" || row.content.kind !== "inline") return row;
  return { ...row, content: { ...row.content, bytes: [...row.content.bytes] } };
}
