// the gateway over stores in memory: what they do when the journal's disk fails.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nodeCipher, nodeClock, nodeEnvironment } from "@concord/adapter-node-runtime";
import type { BlobName } from "@concord/objects";
import { MemoryDisk, MemoryObjectData, MemoryObjectMetadata } from "@concord/port-contracts";
import { partsOfGuid } from "@concord/snowflake";
import { ConcordError, silentLog, silentMetrics, type Clock, type Timer } from "@concord/runtime";
import { objectGatewaySchema, type ObjectGatewayConfig } from "./config.ts";
import { WORKER_IDS_MAX } from "./limits.ts";
import { openGatewayStore, type GatewayStore } from "./gateway-store.ts";
import { ANN } from "./test/gateway.ts";

/** Timers of gateways that "died", so were never stopped: they must not keep this process alive. */
const timers = new Set<Timer>();
let ended = false;
/** How far the wall clock was set back. */
let behindMs = 0;
const clock: Clock = {
  ...nodeClock,
  nowMs: () => nodeClock.nowMs() - behindMs,
  setTimer(delayMs, action) {
    const timer = nodeClock.setTimer(delayMs, action);
    if (ended) timer.cancel();
    timers.add(timer);
    return timer;
  },
};

after(() => {
  ended = true;
  for (const timer of timers) timer.cancel();
});

class Stores {
  readonly metadata = new MemoryObjectMetadata();
  readonly data = new MemoryObjectData();
  readonly disk = new MemoryDisk();
  readonly failures: ConcordError[] = [];

  open(
    journal: ObjectGatewayConfig["journal"],
    signal = new AbortController().signal,
    more: Partial<ObjectGatewayConfig> = {},
  ): Promise<GatewayStore> {
    const transport = { connect: () => assert.fail(), listen: () => assert.fail() } as never;
    const environment = { ...nodeEnvironment({ transport, log: silentLog, metrics: silentMetrics, env: {} }), clock };
    const config = objectGatewaySchema.parse({ accessKeys: [ANN], journal, ...more });
    const { metadata, data, disk } = this;
    return openGatewayStore({
      config,
      environment,
      cipher: nodeCipher,
      metadata,
      data,
      disk,
      onFailed: (cause) => this.failures.push(cause),
      signal,
    });
  }
}

const blob = (key: string) => ({ bucket: "photos", key, part: undefined, guid: 1n, replaces: undefined });

/** Takes names until one fails or there were so many. */
async function take({ journal }: GatewayStore, count: number): Promise<BlobName[]> {
  const names: BlobName[] = [];
  for (let i = 0; i < count; i += 1) names.push(await journal.begin(blob("k")));
  return names;
}

test("[OGD8] a sync of the journal fails: uploads go on, reservation: also when the block after the next is needed", async () => {
  const stores = new Stores();
  const gateway = await stores.open("reservation");
  stores.disk.files.failNextSync();
  for (const name of await take(gateway, 2500)) await name.resolve("absent");
  assert.deepEqual(stores.failures, []);
  await gateway.stop();
});

for (const mode of ["per-transaction", "per-transaction-basic"] as const) {
  test(`[OGD8] a sync of the journal fails: ${mode}: that upload is refused, others go on; a crash leaves nothing behind`, async () => {
    const stores = new Stores();
    const gateway = await stores.open(mode);
    const left = await gateway.journal.begin(blob("left"));
    const writer = await stores.data.create(left.oid, blob("left"));
    await writer.seal();
    stores.disk.files.failNextSync();
    await assert.rejects(gateway.journal.begin(blob("refused")), { code: "STORE_FAILED", applied: "no" });
    await (await gateway.journal.begin(blob("next"))).resolve("absent");
    assert.deepEqual(stores.failures, []);
    stores.disk.crash();
    const again = await stores.open(mode);
    const { transactions } = await again.recovery.runOnce();
    assert.equal(transactions?.collected, 1);
    await again.stop();
  });
}

test("[OGD8] the journal's disk fails for good: the gateway says so, once", async () => {
  const stores = new Stores();
  const gateway = await stores.open("per-transaction");
  stores.disk.files.failNextSync();
  stores.disk.files.failNextSync();
  await assert.rejects(gateway.journal.begin(blob("k")), { code: "STORE_FAILED" });
  await assert.rejects(gateway.journal.begin(blob("k")), { code: "STORE_FAILED" });
  assert.equal(stores.failures.length, 1);
  await gateway.stop();
});

test("the journal is switched to another mode, or off, after a crash: what it left is decided all the same", async () => {
  const modes = ["reservation", "per-transaction", "per-transaction-basic", "off"] as const;
  for (const before of modes.slice(0, 3)) {
    for (const after of modes) {
      const stores = new Stores();
      const gateway = await stores.open(before);
      const left = await gateway.journal.begin(blob("left"));
      await (await stores.data.create(left.oid, blob("left"))).seal();
      stores.disk.crash();
      const again = await stores.open(after);
      const { epochs, transactions } = await again.recovery.runOnce();
      const collected = epochs.reduce((sum, epoch) => sum + epoch.collected, transactions?.collected ?? 0);
      assert.equal(collected, 1, `${before} to ${after}`);
      await again.stop();
    }
  }
});

test("the journal was never on: nothing of it is on the disk", async () => {
  const stores = new Stores();
  await (await stores.open("off")).stop();
  assert.deepEqual(await stores.disk.list("journal"), []);
});

test("[OGD5] [OPS16] the clock is set back: uploads go on with another worker id, over restarts too; once all are used up the start waits", async () => {
  const stores = new Stores();
  const seen = new Set<bigint>();
  for (let step = 0; step < WORKER_IDS_MAX; step += 1) {
    behindMs = step * 60_000;
    const gateway = await stores.open("reservation");
    for (let at = 0; at < 3; at += 1) seen.add(await gateway.context.guids.next());
    await take(gateway, 1);
    await gateway.stop();
  }
  assert.equal(seen.size, 3 * WORKER_IDS_MAX);
  behindMs = WORKER_IDS_MAX * 60_000;
  const stopping = new AbortController();
  const stopped = stores.open("reservation", stopping.signal);
  const waiting = stores.open("reservation");
  await new Promise((resolve) => setImmediate(resolve));
  stopping.abort(new Error("stopped"));
  await assert.rejects(stopped, /stopped/);
  behindMs = 0;
  const last = await waiting;
  await take(last, 1);
  await last.stop();
});

test("[OGD5] [OPS16] the clock is set back under a running gateway: the next ids are of another worker id, none is refused", async () => {
  const stores = new Stores();
  const gateway = await stores.open("reservation");
  const before = await gateway.context.guids.next();
  behindMs = 3_600_000;
  const behind = await Promise.all(Array.from({ length: 10 }, () => gateway.context.guids.next()));
  behindMs = 0;
  assert.equal(new Set([before, ...behind]).size, 11);
  assert.notEqual(partsOfGuid(before).workerId, partsOfGuid(behind[0]!).workerId);
  await gateway.stop();
});

test("start: the rows' master moves meanwhile, each step fails at first: tried again, the gateway opens; a fenced one does not", async () => {
  for (const [failing, count] of [
    ["range", 2],
    ["commit", 3],
  ] as const) {
    for (let passed = 0; passed < count; passed += 1) {
      const stores = new Stores();
      let operations = 0;
      stores.metadata.before = (operation) => {
        if (operation !== failing) return;
        operations += 1;
        if (operations === passed + 1) throw new ConcordError("TRANSACTION_ABORTED", "its master is gone");
      };
      const gateway = await stores.open("per-transaction");
      await take(gateway, 1);
      await gateway.stop();
      assert.ok(operations > passed, `${failing} ${passed + 1} was tried`);
    }
  }
  const stores = new Stores();
  stores.metadata.before = () => {
    throw new ConcordError("EPOCH_FENCED", "another process has the name");
  };
  await assert.rejects(stores.open("reservation"), { code: "EPOCH_FENCED" });
});

test("[OPS24] headBytesMax: 16384: rows are as gateways of before have them; without it the body is a row of its own", async () => {
  const rowsWith = async (more: Partial<ObjectGatewayConfig>): Promise<number> => {
    const stores = new Stores();
    const { store } = await stores.open("reservation", undefined, more);
    await store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
    const rows = stores.metadata.contents().length;
    const chunks = ReadableStream.from([new Uint8Array(16_384)]);
    const body = { lengthBytes: 16_384, chunks, finish: () => ({ md5Hex: "0", checksum: undefined }) };
    await store.putObject({ bucket: "photos", key: "k", body, attributes: { headers: {}, metadata: {}, tags: {} }, precondition: {} });
    return stores.metadata.contents().length - rows;
  };
  assert.deepEqual([await rowsWith({ headBytesMax: 16_384 }), await rowsWith({})], [1, 2]);
});
