// Bad input to group logs, batches and their replicas: a documented code, and no node's store changes by a byte.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { LogAppended } from "@concord/protos-storage";
import { fromStatus } from "@concord/rpc";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import { encodeEntry } from "@concord/logged-batch";
import { BATCH_BYTES_MAX } from "@concord/ports";
import { LIST_PAGE_MAX } from "./limits.ts";
import { ENTRY_BYTES_MAX, GROUP_BYTES_MAX, LOG_READ_ENTRIES_MAX, OWNER_BYTES_MAX } from "@concord/group-log";
import { ConcordError, newTimeId, timeIdToBytes, timestampUsOf, type ErrorCode, type TimeId } from "@concord/runtime";
import { crc32 } from "node:zlib";
import { COORDINATOR, MemoryRing, PEER } from "./test/memory-ring.ts";

const ring = new MemoryRing({ size: 3 });
const memory = new MemoryRing({ size: 1, backend: "memory" });
const GROUP = "albums-0";
const RAISE = { group: GROUP, epoch: 6n, owner: "txn-2", protocol: GROUP_LOG_PROTOCOL };
const ID = idOf(1);
const TIMESTAMP_US = 9_000n;

before(async () => {
  for (const on of [ring, memory]) await prepare(on);
});

async function prepare(on: MemoryRing): Promise<void> {
  await on.start();
  const [node] = on.nodes;
  const statements = ["CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'"];
  await on.call(node!, "SchemaService/CreateTables", { statements });
  await on.call(node!, "GroupLogService/Raise", { group: GROUP, epoch: 5n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL }, COORDINATOR);
  await on.call(node!, "GroupLogService/Append", append({ seq: 1n, previousEpoch: 0n }), COORDINATOR);
  await on.call(node!, "BatchService/ExecuteBatch", { batchId: ID, timestampUs: TIMESTAMP_US, writes: [write("ann"), write("bob")] });
  await on.clock.advance(3000);
}

after(async () => {
  for (const on of [ring, memory]) await on.stop();
});

/** A UUIDv7. */
function idOf(last: number): Uint8Array {
  const id = new Uint8Array(16).fill(1);
  id[6] = 0x70;
  id[8] = 0x80;
  id[15] = last;
  return id;
}

const text = (value: string): object => ({ textValue: value });
const write = (owner: string, change: object = {}): object => {
  const key = { table: "notes", partition: [text(owner)], clustering: [{ bigintValue: 1n }] };
  return { kind: "WRITE_KIND_INSERT", key, columns: [{ name: "body", value: text("x") }], ...change };
};
const ofTable = (table: string): object => write("ann", { key: { table, partition: [text("a")], clustering: [] }, columns: [] });

function append(change: object): object {
  const base = { group: GROUP, epoch: 5n, owner: "txn-1", seq: 2n, previousEpoch: 5n, timestampCeilingUs: 9n, content: Uint8Array.of(7) };
  return { ...base, ...change };
}

const replicaEntry = (seq: bigint, epoch: bigint, content = Uint8Array.of(7)): object => ({ seq, epoch, content });
const replicaAppend = (change: object): object => {
  const base = { group: GROUP, epoch: 5n, owner: "txn-1", previousEpoch: 5n, entries: [replicaEntry(2n, 5n)], timestampCeilingUs: 9n };
  return { ...base, appliedSeq: 0n, appliedEpoch: 0n, ...change };
};

interface BadCall {
  readonly method: string;
  readonly name: string;
  readonly request: object;
  readonly code: ErrorCode;
  readonly token: string;
}

const log = (name: string, method: string, request: object, code: ErrorCode): BadCall => {
  return { method: `GroupLogService/${method}`, name, request, code, token: COORDINATOR };
};
const replica = (name: string, method: string, request: object, code: ErrorCode): BadCall => {
  return { method: `ReplicaService/${method}`, name, request, code, token: PEER };
};
const batch = (name: string, request: object, code: ErrorCode): BadCall => {
  return { method: "BatchService/ExecuteBatch", name, request: { writes: [write("ann"), write("bob")], ...request }, code, token: "" };
};
const operator = (name: string, method: string, request: object, code: ErrorCode): BadCall => {
  return { method: `BatchService/${method}`, name, request, code, token: COORDINATOR };
};

const GROUP_LOG: readonly BadCall[] = [
  log("no group", "Status", {}, "MALFORMED_REQUEST"),
  log("too long a group", "Status", { group: "g".repeat(GROUP_BYTES_MAX + 1) }, "LIMIT_EXCEEDED"),
  log("another version of entries", "Raise", { ...RAISE, protocol: 0 }, "PERMISSION_DENIED"),
  log("no owner", "Raise", { ...RAISE, owner: "" }, "MALFORMED_REQUEST"),
  log("too long an owner", "Raise", { ...RAISE, owner: "o".repeat(OWNER_BYTES_MAX + 1) }, "LIMIT_EXCEEDED"),
  log("epoch 0", "Raise", { ...RAISE, epoch: 0n }, "MALFORMED_REQUEST"),
  log("epoch 0", "Append", append({ epoch: 0n }), "MALFORMED_REQUEST"),
  log("seq 0", "Append", append({ seq: 0n }), "MALFORMED_REQUEST"),
  log("seq 1 on top of something", "Append", append({ seq: 1n }), "MALFORMED_REQUEST"),
  log("on top of a newer epoch", "Append", append({ previousEpoch: 6n }), "MALFORMED_REQUEST"),
  log("no content", "Append", append({ content: new Uint8Array() }), "MALFORMED_REQUEST"),
  log("too large", "Append", append({ content: new Uint8Array(ENTRY_BYTES_MAX + 1) }), "LIMIT_EXCEEDED"),
  log("a negative ceiling", "Append", append({ timestampCeilingUs: -1n }), "MALFORMED_REQUEST"),
  log("other content under a seq", "Append", append({ seq: 1n, previousEpoch: 0n, content: Uint8Array.of(8) }), "IDEMPOTENCY_MISMATCH"),
  log("no owner", "Verify", { group: GROUP, epoch: 5n, owner: "" }, "MALFORMED_REQUEST"),
  log("a mark without epoch", "Trim", { group: GROUP, epoch: 5n, owner: "txn-1", appliedSeq: 1n, appliedEpoch: 0n }, "MALFORMED_REQUEST"),
  log(
    "a mark of a newer epoch",
    "Trim",
    { group: GROUP, epoch: 5n, owner: "txn-1", appliedSeq: 1n, appliedEpoch: 6n },
    "MALFORMED_REQUEST",
  ),
];

const REPLICAS: readonly BadCall[] = [
  replica("epoch 0", "LogRaise", { group: GROUP, epoch: 0n, owner: "txn-1" }, "MALFORMED_REQUEST"),
  replica("no group", "LogState", {}, "MALFORMED_REQUEST"),
  replica("limit 0", "LogRead", { group: GROUP, fromSeq: 0n, limit: 0 }, "LIMIT_EXCEEDED"),
  replica("too large a limit", "LogRead", { group: GROUP, fromSeq: 0n, limit: LOG_READ_ENTRIES_MAX + 1 }, "LIMIT_EXCEEDED"),
  replica("a stranger's trim", "LogTrim", { group: GROUP, epoch: 4n, owner: "txn-1", appliedSeq: 1n, appliedEpoch: 4n }, "EPOCH_FENCED"),
  replica("no entries", "BatchLogPut", { entries: [] }, "MALFORMED_REQUEST"),
  replica("an unreadable entry", "BatchLogPut", { entries: [Uint8Array.of(1, 2, 3)] }, "MALFORMED_REQUEST"),
  replica("a good entry and a damaged one", "BatchLogPut", { entries: [goodEntry(), damagedEntry()] }, "MALFORMED_REQUEST"),
  replica("a decided id that is none", "BatchLogPut", { decidedIds: [Uint8Array.of(1, 2)] }, "MALFORMED_REQUEST"),
  replica("no ids", "BatchLogRemove", { batchIds: [] }, "MALFORMED_REQUEST"),
  replica("an id that is none", "BatchLogRemove", { batchIds: [Uint8Array.of(1, 2)] }, "MALFORMED_REQUEST"),
];

const APPENDS: readonly [string, object, ErrorCode][] = [
  ["no entries and no base", replicaAppend({ entries: [] }), "MALFORMED_REQUEST"],
  ["a gap inside", replicaAppend({ entries: [replicaEntry(2n, 5n), replicaEntry(4n, 5n)] }), "MALFORMED_REQUEST"],
  ["an entry of a newer epoch", replicaAppend({ entries: [replicaEntry(2n, 6n)] }), "MALFORMED_REQUEST"],
  ["other content", replicaAppend({ previousEpoch: 0n, entries: [replicaEntry(1n, 5n, Uint8Array.of(8))] }), "IDEMPOTENCY_MISMATCH"],
];

const BATCHES: readonly BadCall[] = [
  batch("no writes", { writes: [] }, "BATCH_INVALID"),
  batch("more writes than allowed", { writes: Array.from({ length: 1001 }, () => write("ann")) }, "LIMIT_EXCEEDED"),
  batch("more bytes than allowed", { writes: [write("ann"), bigWrite("bob"), bigWrite("cid")] }, "LIMIT_EXCEEDED"),
  batch("an id that is no UUIDv7", { batchId: new Uint8Array(16), timestampUs: TIMESTAMP_US }, "MALFORMED_REQUEST"),
  batch("an id of 3 bytes", { batchId: Uint8Array.of(1, 2, 3), timestampUs: TIMESTAMP_US }, "MALFORMED_REQUEST"),
  batch("an id without a timestamp", { batchId: idOf(2) }, "BATCH_INVALID"),
  batch(
    "a known id with another payload",
    { batchId: ID, timestampUs: TIMESTAMP_US, writes: [write("ann"), write("cid")] },
    "IDEMPOTENCY_MISMATCH",
  ),
  batch("a timestamp without a tick before", { timestampUs: 1n }, "TIMESTAMP_OUT_OF_RANGE"),
  batch("a negative timestamp", { timestampUs: -9n }, "TIMESTAMP_OUT_OF_RANGE"),
  batch("a timestamp far ahead", { timestampUs: 1n << 62n }, "TIMESTAMP_OUT_OF_RANGE"),
  batch("a good write and a system table", { writes: [write("ann"), ofTable("concord_tables")] }, "SYSTEM_TABLE"),
  batch("a good write and an unknown table", { writes: [write("ann"), ofTable("nothing")] }, "TABLE_UNKNOWN"),
  batch("a good write and one without kind", { writes: [write("ann"), write("bob", { kind: undefined })] }, "MALFORMED_REQUEST"),
  batch(
    "a good write and an unknown column",
    { writes: [write("ann"), write("bob", { columns: [{ name: "z", value: text("x") }] })] },
    "COLUMN_UNKNOWN",
  ),
  batch("a schema version that no node has", { schemaVersion: 99n }, "SCHEMA_BEHIND"),
  operator("too large a page", "ListPendingBatches", { pageSize: LIST_PAGE_MAX + 1 }, "LIMIT_EXCEEDED"),
  operator("too large a page", "ListDeadLetters", { pageSize: LIST_PAGE_MAX + 1 }, "LIMIT_EXCEEDED"),
  operator("no id", "RedriveDeadLetter", {}, "MALFORMED_REQUEST"),
  operator("an unknown letter", "RedriveDeadLetter", { batchId: idOf(9), force: true }, "NOT_FOUND"),
  { ...operator("role client", "ReplayBatches", {}, "PERMISSION_DENIED"), token: "" },
  { ...operator("role client", "ListPendingBatches", {}, "PERMISSION_DENIED"), token: "" },
  { ...operator("role client", "ListDeadLetters", {}, "PERMISSION_DENIED"), token: "" },
  { ...operator("role client", "RedriveDeadLetter", { batchId: idOf(9) }, "PERMISSION_DENIED"), token: "" },
];

function bigWrite(owner: string): object {
  return write(owner, { columns: [{ name: "body", value: text("x".repeat(BATCH_BYTES_MAX / 2)) }] });
}

function goodEntry(): Uint8Array {
  const random = { bytes: (length: number) => new Uint8Array(length).fill(3), below: () => 0, float: () => 0 };
  const id: TimeId = newTimeId(ring.clock, random);
  const entry = {
    id,
    coordinator: "node-2",
    createdMs: 1,
    timestampUs: timestampUsOf(5n),
    holders: ["node-1"],
    rowCount: 1,
    mutations: [timeIdToBytes(id)],
  };
  return encodeEntry(entry, (bytes) => crc32(bytes));
}

function damagedEntry(): Uint8Array {
  const bytes = goodEntry();
  bytes[bytes.length - 1]! ^= 1;
  return bytes;
}

function refuses(on: MemoryRing, backend: string, { method, name, request, token, code }: BadCall): void {
  test(`[SEC11] bad input: ${method}: ${name}: ${code}, nothing changes (${backend})`, async () => {
    const contents = on.snapshot();
    await assert.rejects(on.call(on.nodes[0]!, method, request, token === "" ? undefined : token), (thrown) => {
      assert.ok(thrown instanceof ConcordError);
      assert.equal(thrown.code, code, thrown.message);
      assert.equal(thrown.applied, "no");
      return true;
    });
    assert.deepEqual(on.snapshot(), contents);
  });
}

for (const call of [...GROUP_LOG, ...REPLICAS, ...BATCHES]) refuses(ring, "ring", call);
for (const call of BATCHES) refuses(memory, "memory", call);

function replicate(appends: readonly object[]): Promise<{ appended: readonly LogAppended[] }> {
  return ring.call(ring.nodes[0]!, "ReplicaService/Replicate", { appends }, PEER);
}

for (const [name, append, code] of APPENDS) {
  test(`bad input: ReplicaService/Replicate: ${name}: ${code}, nothing changes`, async () => {
    const contents = ring.snapshot();
    const { appended } = await replicate([append]);
    const error = fromStatus(appended[0]!.error!)!;
    assert.deepEqual([error.code, error.applied, appended.length], [code, "no", 1]);
    assert.deepEqual(ring.snapshot(), contents);
  });
}

test("[TXR2] bad input: ReplicaService/Replicate: what is refused of one group takes nothing of another one with it", async () => {
  const other = { ...replicaAppend({ previousEpoch: 0n, entries: [replicaEntry(1n, 5n)] }), group: "others" };
  await ring.call(ring.nodes[0]!, "ReplicaService/LogRaise", { group: "others", epoch: 5n, owner: "txn-1" }, PEER);
  const { appended } = await replicate([
    APPENDS[0]![1],
    other,
    replicaAppend({ epoch: 4n, previousEpoch: 4n, entries: [replicaEntry(2n, 4n)] }),
  ]);
  assert.deepEqual(
    appended.map(({ result, error }) => [result, error === null ? undefined : fromStatus(error)?.code]),
    [
      ["LOG_APPEND_RESULT_UNSPECIFIED", "MALFORMED_REQUEST"],
      ["LOG_APPEND_RESULT_ACCEPTED", undefined],
      ["LOG_APPEND_RESULT_FENCED", undefined],
    ],
  );
});

test("bad input: GroupLogService/Append: out of order: SEQUENCE_GAP, nothing changes", async () => {
  const contents = ring.contents();
  await assert.rejects(ring.call(ring.nodes[0]!, "GroupLogService/Append", append({ seq: 3n }), COORDINATOR), { code: "SEQUENCE_GAP" });
  assert.deepEqual(ring.contents(), contents);
});

test("[TXD1] bad input: GroupLogService: an older epoch: fenced or refused, nothing changes", async () => {
  const contents = ring.contents();
  const call = <Response>(method: string, request: object): Promise<Response> =>
    ring.call<Response>(ring.nodes[0]!, `GroupLogService/${method}`, request, COORDINATOR);
  const raised = await call<{ refused: object }>("Raise", { group: GROUP, epoch: 5n, owner: "txn-2", protocol: GROUP_LOG_PROTOCOL });
  assert.deepEqual({ ...raised.refused }, { epoch: 5n, owner: "txn-1" });
  assert.equal((await call<{ result: string }>("Append", append({ epoch: 4n, previousEpoch: 4n }))).result, "fenced");
  assert.equal((await call<{ result: string }>("Verify", { group: GROUP, epoch: 4n, owner: "txn-1" })).result, "fenced");
  await call("Trim", { group: GROUP, epoch: 4n, owner: "txn-1", appliedSeq: 1n, appliedEpoch: 4n });
  assert.deepEqual(ring.contents(), contents);
});
