// The node as a whole, on disks in memory: what ends it, and how.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connectThrough } from "@concord/client";
import { ConcordError } from "@concord/runtime";
import { memoryConfig, MemoryNode, network } from "./test/memory-node.ts";

test("node: a store fails: the program hears the reason once; the other parts stop cleanly", async () => {
  const node = new MemoryNode(memoryConfig(), network());
  const { address } = await node.start();
  assert.equal(node.service.ready, true);
  const client = await connectThrough({ coordinators: [address], timeoutMs: 500 }, node.environment);
  node.store("storage").batch = () => Promise.reject(new ConcordError("STORE_FAILED", "the disk is gone"));
  await assert.rejects(client.createTables(["CREATE TABLE notes (owner text PRIMARY KEY)"]));
  assert.deepEqual(
    node.failures.map(({ code }) => code),
    ["STORE_FAILED"],
  );
  client.close();
  await node.stop();
  assert.equal(node.service.ready, false);
});

test("node: stopped in every phase of its start: the start rejects, all is closed, it starts again", async () => {
  for (let turns = 0; turns < 40; turns += 4) {
    const node = new MemoryNode(memoryConfig(), network());
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
