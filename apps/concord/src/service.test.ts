// The node as a whole, on disks in memory: what ends it, and how.
import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { connectThrough, type ConcordClient } from "@concord/client";
import { Health, type HealthListResponse } from "@concord/protos/grpc.health.v1";
import { IngestService } from "@concord/protos-dedup";
import { RowsService } from "@concord/protos-storage";
import { OBJECT_GATEWAY_CONTRACTS } from "@concord/object-gateway";
import { TXN_COORDINATOR_CONTRACTS } from "@concord/txn-coordinator";
import type { ServiceContract, UnaryMethod } from "@concord/protos";
import { callUnary } from "@concord/rpc";
import { ConcordError, sleep } from "@concord/runtime";
import { ACCESS_KEY, memoryConfig, MemoryNode, network } from "./test/memory-node.ts";

const LOOK_MS = 20;
/** A busy machine is slow; what has not come by then does not. */
const LOOKS_MAX = 3_000;

async function until(holds: () => boolean, what: string): Promise<void> {
  for (let looks = 0; !holds(); looks += 1) {
    assert.ok(looks < LOOKS_MAX, `waited in vain until ${what}`);
    await sleep(nodeClock, LOOK_MS);
  }
}

const client = (node: MemoryNode, address: string): Promise<ConcordClient> =>
  connectThrough({ coordinators: [address], dedupWorker: address, timeoutMs: 20_000 }, node.environment);
const send = ({ messages }: ConcordClient, id: string): Promise<string> =>
  messages.ingest([{ id, value: id }], { timeoutMs: 20_000 }).then(([result]) => result!.verdict);

test("[OPS2] node: a stop whose store of rows does not close: what it waits for is named, part and store, and nothing else", async () => {
  const node = new MemoryNode(memoryConfig(), network());
  await node.start();
  const store = node.store("storage");
  const close = store.close.bind(store);
  const stuck = Promise.withResolvers<void>();
  store.close = () => stuck.promise.then(close);
  const stopped = node.stop();
  const { stopProgress } = node.environment;
  const expected = ["the part storage", "the store of rows"];
  try {
    await until(() => stopProgress!.current.join() === expected.join(), "only the store of rows is waited for");
  } finally {
    stuck.resolve();
  }
  await stopped;
  assert.deepEqual(stopProgress!.current, []);
});

test("[OPS6] node: the store of the rows fails: messages and S3 serve on, calls and health say what is out, it comes back by itself", async (t) => {
  const node = new MemoryNode(memoryConfig(), network());
  t.after(() => node.stop());
  const { address, httpAddress } = await node.start();
  assert.equal(node.service.ready, true);
  const db = await client(node, address);
  await db.createTables(["CREATE TABLE notes (owner text PRIMARY KEY)"]);
  node.refuse("storage", new ConcordError("STORE_FAILED", "the disk is gone"));
  await assert.rejects(db.createTables(["CREATE TABLE more (owner text PRIMARY KEY)"]));
  await until(() => node.service.parts().transactions.kind === "waiting", "the transactions wait for the storage");
  assert.equal(node.service.ready, false);
  const [storage, transactions] = node.service.problems;
  assert.match(storage!, /^storage is out: .*the disk is gone; run "concord fsck/u);
  assert.equal(transactions, "transactions waits for storage, which is out");
  const channel = node.environment.transport.connect(address);
  const { statuses } = (await channel.unary(Health.methods.List, {}, { timeoutMs: 20_000 })) as HealthListResponse;
  const serving = Object.entries(statuses).flatMap(([name, entry]) => (entry.status === "SERVING" ? name : []));
  assert.deepEqual(
    serving.filter((name) => /storage|txn|ids/u.test(name)),
    [],
  );
  assert.ok(serving.includes("concord.dedup.v1.IngestService") && serving.includes("concord.object.v1.ObjectAdminService"));
  const call = callUnary(channel, RowsService.methods.Read, {}, { timeoutMs: 20_000 });
  await assert.rejects(call, { code: "STARTING", applied: "no", message: /storage is out: .*the disk is gone/u });
  assert.equal(await send(db, "m1"), "accepted");
  assert.equal((await fetch(`http://${httpAddress}/`)).status, 403);

  node.refuse("storage", undefined);
  await until(() => node.service.ready, "all parts serve again");
  assert.deepEqual(node.service.problems, []);
  await db.createTables(["CREATE TABLE more (owner text PRIMARY KEY)"]);
  assert.equal(await send(db, "m1"), "duplicate");
  assert.deepEqual(node.failures, []);
  channel.close();
  db.close();
  await node.stop();
  assert.equal(node.service.ready, false);
});

/** The call's outcome; it is made again where the connection took too long on a busy machine. */
async function answered(call: () => Promise<unknown>): Promise<unknown> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await call();
    } catch (thrown) {
      if ((thrown as ConcordError).code !== "CONNECTION_LOST" || tries === LOOKS_MAX) throw thrown;
      await sleep(nodeClock, LOOK_MS);
    }
  }
}

/** One method of each service that a part has, and of those that need it. */
const methodsOf = (contracts: readonly object[]): readonly UnaryMethod[] =>
  contracts.map((contract) =>
    Object.values((contract as ServiceContract).methods).find(
      (method): method is UnaryMethod => !method.requestStream && !method.responseStream,
    )!,
  );
const CALLS = {
  storage: methodsOf([RowsService, ...TXN_COORDINATOR_CONTRACTS]),
  objects: methodsOf(OBJECT_GATEWAY_CONTRACTS),
  messages: methodsOf([IngestService]),
} as const;

for (const [part, others] of [
  ["storage", "messages and S3"],
  ["messages/meta", "rows and S3"],
  ["objects", "rows and messages"],
] as const) {
  test(`[OPS6] node: the store of ${part} is damaged before the start: ${others} serve, and it is served once it opens`, async (t) => {
    const node = new MemoryNode(memoryConfig({ accessKeys: [ACCESS_KEY] }), network());
    t.after(() => node.stop());
    const damage = new ConcordError("CORRUPT_DATA", `${part}/journal: bytes 196 to 262 are no record`);
    node.refuse(part, damage);
    const { address, httpAddress } = await node.start();
    const name = part.split("/")[0] as "storage" | "messages" | "objects";
    const parts = node.service.parts();
    const expected = {
      storage: name === "storage" ? "out" : "serving",
      transactions: name === "storage" ? "waiting" : "serving",
      objects: name === "objects" ? "out" : "serving",
      messages: name === "messages" ? "out" : "serving",
    };
    assert.deepEqual(Object.fromEntries(Object.entries(parts).map(([at, { kind }]) => [at, kind])), expected);
    assert.match(parts[name].problem!, /bytes 196 to 262 are no record/u);
    const s3 = await fetch(`http://${httpAddress}/`);
    assert.match(`${s3.status} ${await s3.text()}`, name === "objects" ? /^503 .*<Code>ServiceUnavailable<.Code>/su : /^403 /u);
    const channel = node.environment.transport.connect(address);
    for (const method of CALLS[name])
      await assert.rejects(
        answered(() => callUnary(channel, method, {}, { timeoutMs: 20_000 })),
        {
          code: "CORRUPT_DATA",
          applied: "no",
          retryAfterMs: undefined,
          metadata: { part: name },
          message: /bytes 196 to 262 are no record; stop the node and run "concord repair /u,
        },
      );
    channel.close();
    if (name === "storage")
      await assert.rejects(
        answered(() => client(node, address)),
        {
          code: "CORRUPT_DATA",
          retryable: false,
          message: /^transactions waits for storage, which is out: storage is out: .*"concord repair /u,
        },
      );
    node.refuse(part, undefined);
    await until(() => node.service.ready, "all parts serve");
    const db = await client(node, address);
    await db.createTables(["CREATE TABLE notes (owner text PRIMARY KEY)"]);
    assert.equal(await send(db, "m1"), "accepted");
    assert.equal((await fetch(`http://${httpAddress}/`)).status, 403);
    db.close();
    await node.stop();
  });
}

test("node: another process has a store when it starts: the start rejects with the reason, all is closed", async (t) => {
  const node = new MemoryNode(memoryConfig(), network());
  t.after(() => node.stop());
  const lock = Object.assign(new Error("IO error: lock: already held by process"), { code: "LEVEL_LOCKED" });
  node.refuse("storage", new ConcordError("STORE_FAILED", "cannot open the store: already held", { applied: "no", cause: lock }));
  await assert.rejects(node.start(), /already held/u);
  assert.equal(node.service.ready, false);
});

test("node: stopped in every phase of its start: the start rejects, all is closed, it starts again", async (t) => {
  for (let turns = 0; turns < 40; turns += 4) {
    const node = new MemoryNode(memoryConfig(), network());
    t.after(() => node.stop());
    const started = node.start().then(
      () => "started",
      () => "refused",
    );
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    await node.stop();
    assert.match(await started, /started|refused/);
    assert.equal(node.service.ready, false);
    await node.restart();
    assert.equal(node.service.ready, true);
    await node.stop();
  }
});
