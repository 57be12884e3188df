// The service on a backend that is no ring: group log, operators' calls on batches, readiness, and a stop at every step of the start.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import { memoryStorage, MemoryStorageBackend } from "@concord/port-contracts";
import { MemoryTransport } from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics, timeIdFromBytes, timestampUsOf, type Environment, type Transport } from "@concord/runtime";
import { composeStorageProxy, storageProxySchema, type StorageProxyService } from "./index.ts";
import { COORDINATOR, MemoryRing } from "./test/memory-ring.ts";
import { VirtualClock } from "./test/virtual-clock.ts";

let proxy: MemoryRing;

afterEach(() => proxy?.stop());

const WRITE_TIMEOUT_MS = 1_000;

async function started(): Promise<MemoryRing> {
  proxy = new MemoryRing({ size: 1, backend: "memory", config: { writeTimeoutMs: WRITE_TIMEOUT_MS } });
  await proxy.start();
  return proxy;
}

const call = <Response>(method: string, request: object): Promise<Response> =>
  proxy.call<Response>(proxy.nodes[0]!, method, request, COORDINATOR);

test("group log: raised, appended, verified, trimmed and fenced through the RPCs of any backend", async () => {
  await started();
  const owned = { group: "g1", epoch: 1n, owner: "txn-1" };
  const append = (seq: bigint): Promise<{ result: string }> =>
    call("GroupLogService/Append", {
      ...owned,
      seq,
      previousEpoch: seq === 1n ? 0n : 1n,
      timestampCeilingUs: timestampUsOf(5n),
      content: Uint8Array.of(Number(seq)),
    });
  assert.equal((await call<{ result: string }>("GroupLogService/Raise", { ...owned, protocol: GROUP_LOG_PROTOCOL })).result, "raised");
  for (const seq of [1n, 2n, 3n]) assert.equal((await append(seq)).result, "logged");
  await call("GroupLogService/Trim", { ...owned, appliedSeq: 2n, appliedEpoch: 1n });
  assert.equal((await call<{ result: string }>("GroupLogService/Verify", owned)).result, "current");
  const next = { group: "g1", epoch: 2n, owner: "txn-2", protocol: GROUP_LOG_PROTOCOL };
  await assert.rejects(call("GroupLogService/Raise", { ...next, protocol: 0 }), { code: "PERMISSION_DENIED", applied: "no" });
  const { raised } = await call<{ raised: { appliedSeq: bigint; entries: readonly { seq: bigint }[] } }>("GroupLogService/Raise", next);
  assert.deepEqual([raised.appliedSeq, raised.entries.map(({ seq }) => seq)], [2n, [3n]]);
  assert.equal((await append(4n)).result, "fenced");
  const status = await call<{ promisedEpoch: bigint; owner: string }>("GroupLogService/Status", { group: "g1" });
  assert.deepEqual([status.promisedEpoch, status.owner], [2n, "txn-2"]);
});

test("[TXC1] group log: a call makes several exchanges: status says how many, a raise and an append have the longest wait of each", async () => {
  const { nodes } = await started();
  const { groupLog } = nodes[0]!.storage;
  groupLog.exchangesMax = 2;
  const budgetsMs: number[] = [];
  const [raise, append] = [groupLog.raise.bind(groupLog), groupLog.append.bind(groupLog)];
  groupLog.raise = (owner, ...[timeoutMs = 0]: readonly number[]) => (budgetsMs.push(timeoutMs), raise(owner));
  groupLog.append = (request, ...[timeoutMs = 0]: readonly number[]) => (budgetsMs.push(timeoutMs), append(request));
  const owned = { group: "g1", epoch: 1n, owner: "txn-1" };
  const { exchangesMax } = await call<{ exchangesMax: number }>("GroupLogService/Status", { group: "g1" });
  await call("GroupLogService/Raise", { ...owned, protocol: GROUP_LOG_PROTOCOL });
  await call("GroupLogService/Append", {
    ...owned,
    seq: 1n,
    previousEpoch: 0n,
    timestampCeilingUs: timestampUsOf(5n),
    content: Uint8Array.of(1),
  });
  const longestMs = 2 * WRITE_TIMEOUT_MS;
  assert.deepEqual([exchangesMax, budgetsMs], [2, [longestMs, longestMs]]);
});

function left(lastByte: number): Parameters<MemoryStorageBackend["storage"]["batches"]["leaveBehind"]>[0] {
  const key = { table: "notes", partition: [{ kind: "text", value: "ann" } as const], clustering: [] };
  const id = timeIdFromBytes(Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, lastByte));
  return { id, timestampUs: timestampUsOf(7n), mutations: [{ kind: "insert", key, columns: [], timestampUs: timestampUsOf(7n) }] };
}

test("[LBD12] batches: left behind: listed with their total, completed by ReplayBatches", async () => {
  const { nodes } = await started();
  for (const at of [1, 2]) nodes[0]!.storage.batches.leaveBehind(left(at));
  const listed = await call<{ batches: readonly { rowCount: number }[]; total: bigint }>("BatchService/ListPendingBatches", {
    pageSize: 1,
  });
  assert.deepEqual([listed.batches.map(({ rowCount }) => rowCount), listed.total], [[1], 2n]);
  assert.equal((await call<{ completed: bigint }>("BatchService/ReplayBatches", {})).completed, 2n);
  assert.equal(nodes[0]!.storage.rows.contents().length, 1);
});

test("[LBD6] batches: a dead letter: shown with its reason, executed only by force", async () => {
  const { nodes } = await started();
  nodes[0]!.storage.batches.leaveExpired(left(1));
  const shown = await call<{ letters: readonly { batchId: Uint8Array; reason: string }[] }>("BatchService/ListDeadLetters", {});
  assert.deepEqual(
    shown.letters.map(({ reason }) => reason),
    ["EXPIRED"],
  );
  const { batchId } = shown.letters[0]!;
  await assert.rejects(call("BatchService/RedriveDeadLetter", { batchId }), { code: "BATCH_INVALID", applied: "no" });
  const { rows } = await call<{ rows: readonly { table: string }[] }>("BatchService/RedriveDeadLetter", { batchId, force: true });
  assert.deepEqual(
    rows.map(({ table }) => table),
    ["notes"],
  );
});

test("[TXD7] outcomes: past the retention and the margin: the backend is asked to purge them, at an interval", async () => {
  const { nodes, clock } = await started();
  const [node] = nodes;
  const bucket = BigInt(Math.floor(clock.nowMs() / 60_000));
  const outcome = (ageMinutes: bigint): object => {
    const partition = [{ textValue: "g1" }, { bigintValue: bucket - ageMinutes }];
    const key = { table: "concord_outcomes", partition, clustering: [{ uuidValue: new Uint8Array(16) }] };
    return { write: { kind: "WRITE_KIND_INSERT", key, columns: [] }, timestampUs: timestampUsOf(5n) };
  };
  await call("RowsService/Apply", { mutations: [outcome(0n), outcome(60n)] });
  await clock.advance(31_000);
  assert.equal(node!.storage.rows.contents().length, 1);
});

/** A service whose parts tests replace. */
function composed(backend: MemoryStorageBackend, opening: Promise<void>, transport: Transport, clock: VirtualClock): StorageProxyService {
  const random = { bytes: (length: number) => new Uint8Array(length), below: () => 0, float: () => 0 };
  const environment: Environment = {
    clock,
    random,
    transport,
    checksum: () => 0,
    log: silentLog,
    metrics: silentMetrics,
    failpoint: () => undefined,
  };
  const config = storageProxySchema.parse({ nodeName: "node-1", listenAddress: "node-1:7000", coordinatorToken: COORDINATOR });
  return composeStorageProxy(config, { environment, openBackend: () => opening.then(() => ({ backend, services: [] })) });
}

test("ready: as its backend is", async () => {
  const clock = new VirtualClock();
  let isReady = true;
  class Wavering extends MemoryStorageBackend {
    override get ready(): boolean {
      return isReady && super.ready;
    }
  }
  const service = composed(new Wavering(memoryStorage()), Promise.resolve(), new MemoryTransport({ clock }), clock);
  await clock.run(service.start());
  assert.equal(service.ready, true);
  isReady = false;
  assert.equal(service.ready, false);
  await clock.run(service.stop());
});

class Counted extends MemoryStorageBackend {
  stops = 0;

  override async stop(): Promise<void> {
    this.stops += 1;
    await super.stop();
  }
}

test("stop: while the backend is being opened: the stop closes it when it comes, start rejects, nothing listens", async () => {
  const clock = new VirtualClock();
  const opening = Promise.withResolvers<void>();
  const backend = new Counted();
  const transport = new MemoryTransport({ clock });
  const service = composed(backend, opening.promise, transport, clock);
  const start = assert.rejects(service.start(), { code: "CANCELLED" });
  const stopped = service.stop();
  opening.resolve();
  await clock.run(start);
  await stopped;
  assert.equal(backend.stops > 0, true);
  const again = composed(new MemoryStorageBackend(), Promise.resolve(), transport, clock);
  await clock.run(again.start());
  await clock.run(again.stop());
});

test("stop: while the address is being bound: the listener is closed when it comes, start rejects", async () => {
  const clock = new VirtualClock();
  const memory = new MemoryTransport({ clock });
  const binding = Promise.withResolvers<void>();
  const transport: Transport = {
    connect: (address) => memory.connect(address),
    serve: (address, methods) => binding.promise.then(() => memory.serve(address, methods)),
  };
  const backend = new Counted();
  const service = composed(backend, Promise.resolve(), transport, clock);
  const start = assert.rejects(service.start(), { code: "CANCELLED" });
  await new Promise((resolve) => setImmediate(resolve));
  await clock.run(service.stop());
  binding.resolve();
  await clock.run(start);
  assert.equal(backend.stops > 0, true);
  const again = composed(new MemoryStorageBackend(), Promise.resolve(), memory, clock);
  await clock.run(again.start());
  await clock.run(again.stop());
});

test("start: the backend must not serve: start rejects with its reason, the backend is stopped", async () => {
  const clock = new VirtualClock();
  class Broken extends Counted {
    override start(): Promise<void> {
      return Promise.reject(new ConcordError("CORRUPT_DATA", "not to be served"));
    }
  }
  const backend = new Broken();
  const service = composed(backend, Promise.resolve(), new MemoryTransport({ clock }), clock);
  await assert.rejects(clock.run(service.start()), { code: "CORRUPT_DATA" });
  assert.equal(backend.stops > 0, true);
  assert.equal(service.ready, false);
});
