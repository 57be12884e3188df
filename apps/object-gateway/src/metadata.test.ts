import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { nodeClock, nodeDisk, nodeEnvironment } from "@concord/adapter-node-runtime";
import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, type ConcordError } from "@concord/runtime";
import { objectGatewaySchema } from "./index.ts";
import { openMetadata } from "./metadata.ts";
import { ANN } from "./test/gateway.ts";

test("a request that was cut off commits after the rows were closed: refused, and the process does not fail", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "concord-metadata-"));
  t.after(() => rm(folder, { recursive: true }));
  const observed = { log: silentLog, metrics: silentMetrics };
  const environment = nodeEnvironment({ ...observed, transport: grpcTransport({ ...observed, clock: nodeClock }), env: {} });
  const failures: ConcordError[] = [];
  const config = objectGatewaySchema.parse({ dataFolder: folder, accessKeys: [ANN] });
  const options = {
    environment,
    disk: nodeDisk(folder),
    http: { serve: () => assert.fail("nothing is served") },
    onFailed: (cause: ConcordError) => failures.push(cause),
  };
  const { metadata, close } = await openMetadata(config, options, new AbortController().signal);
  const row = { key: Uint8Array.of(1), version: { commit: 1n, guid: 1n }, value: Uint8Array.of(1) };
  const commit = { partition: "p", conditions: [], writes: [{ kind: "put", row }] } as const;
  assert.equal((await metadata.commit(commit)).kind, "committed");
  await close();
  assert.notEqual((await metadata.commit(commit)).kind, "committed");
  assert.deepEqual(failures, []);
});
