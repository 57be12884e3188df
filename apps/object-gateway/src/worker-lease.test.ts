import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock, nodeRandom } from "@concord/adapter-node-runtime";
import { MemoryObjectMetadata } from "@concord/port-contracts";
import { ConcordError, type Clock } from "@concord/runtime";
import { openGuidSource } from "@concord/snowflake";
import { decodeWorker, encodeWorker, leaseWorker, type WorkerLease } from "./worker-lease.ts";

const metadata = (): MemoryObjectMetadata => new MemoryObjectMetadata();
const lease = (store: MemoryObjectMetadata, instance: string, clock: Clock = nodeClock): Promise<WorkerLease> =>
  leaseWorker({ metadata: store, clock, random: nodeRandom, instance });
const isFenced = (thrown: unknown): boolean => thrown instanceof ConcordError && thrown.code === "EPOCH_FENCED";

test("[OGD5] worker lease: other names: other worker ids; the same name later: the same one", async () => {
  const store = metadata();
  const [one, two] = [await lease(store, "one"), await lease(store, "two")];
  assert.deepEqual([one.workerId, two.workerId], [0, 1]);
  assert.equal((await lease(store, "two")).workerId, 1);
});

test("[OGD5] worker lease: a second process of the name: the first makes no id any more, the second goes on above its mark", async () => {
  const store = metadata();
  const first = await lease(store, "one");
  await first.mark.raise(5000);
  const second = await lease(store, "one");
  assert.equal(await second.mark.load(), 5000);
  await second.mark.raise(6000);
  await assert.rejects(first.mark.raise(7000), isFenced);
  assert.equal(await (await lease(store, "one")).mark.load(), 6000);
  const ids = openGuidSource({ workerId: first.workerId, clock: nodeClock, mark: first.mark });
  await assert.rejects(ids.next(), isFenced);
});

test("[OGD5] worker lease: two starts at once under two names: each has its own id", async () => {
  const store = metadata();
  const leases = await Promise.all(["a", "b", "c", "d"].map((name) => lease(store, name)));
  assert.equal(new Set(leases.map(({ workerId }) => workerId)).size, 4);
});

test("worker lease: the answer to a raise and the read behind it are lost: the next raise goes on, no process is fenced", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const store = metadata();
    const standing = { ...nodeClock, nowUs: () => 1_700_000_000_000_000n };
    const { workerId, mark } = await lease(store, "one", standing);
    const noAnswer = new ConcordError("STORE_FAILED", "no answer", { applied: "no" });
    store.nextFates(fate);
    store.before = (operation) => {
      if (operation === "read") throw noAnswer;
    };
    await assert.rejects(mark.raise(5000), noAnswer);
    store.before = () => undefined;
    await mark.raise(6000);
    assert.equal(store.applyLate(), 0);
    const next = await lease(store, "one");
    assert.deepEqual([next.workerId, await next.mark.load()], [workerId, 6000]);
    await assert.rejects(mark.raise(7000), isFenced);
  }
});

test("worker lease: the stored form, version 1", () => {
  const bytes = encodeWorker({ instance: "gateway-1", markMs: 1_700_000_000_000 });
  assert.equal(Buffer.from(bytes).toString("hex"), "0109676174657761792d310000018bcfe56800");
  assert.deepEqual(decodeWorker(bytes), { instance: "gateway-1", markMs: 1_700_000_000_000 });
  assert.throws(
    () => decodeWorker(bytes.slice(0, -1)),
    (thrown) => thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA",
  );
});
