import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk, ScriptedMembership } from "@concord/port-contracts";
import { WorkerService } from "@concord/protos-dedup";
import { bearer } from "@concord/rpc";
import { fails, WorkerFixture } from "../test/worker-fixture.ts";

const WORKERS = ["a", "b"].map((name) => ({ name, address: `${name}:1`, datacenter: name }));
const { Leave, Release } = WorkerService.methods;

test("hand-over: clients may not call it; workers may, under the name of another worker, for a partition that is there", async () => {
  const config = { nodeName: "a", workers: WORKERS, logFolder: "logs", workerToken: "of-the-workers" };
  const fixture = await new WorkerFixture({ config, host: { membership: new ScriptedMembership(), logDisk: new MemoryDisk() } }).start();
  const { channel } = fixture.connect();
  const release = (name: string, partition: number, token?: string): Promise<unknown> =>
    channel.unary(Release, { name, partition }, { timeoutMs: 1_000, metadata: bearer(token) });
  await fails("PERMISSION_DENIED", release("b", 0));
  await fails("PERMISSION_DENIED", release("b", 0, "secret-o"), "an operator");
  await fails("PERMISSION_DENIED", channel.unary(Leave, { name: "b" }, { timeoutMs: 1_000, metadata: {} }));
  for (const name of ["a", "c", ""]) await fails("MALFORMED_REQUEST", release(name, 0, "of-the-workers"), name);
  await fails("PARTITION_UNKNOWN", release("b", 2, "of-the-workers"));
  const worker = fixture.scripted[0]!;
  assert.deepEqual(await release("b", 0, "of-the-workers"), { listVersion: 0 });
  assert.deepEqual([worker.partition, worker.stops], [0, 1]);
  assert.deepEqual(await channel.unary(Leave, { name: "b" }, { timeoutMs: 1_000, metadata: bearer("of-the-workers") }), {});
  await fixture.service.stop();
});
