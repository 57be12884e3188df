import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryObjectMetadata } from "./memory-object-metadata.ts";
import type { MetadataCommit } from "@concord/ports";

const KEY = Uint8Array.of(1);
const writing = (commit: bigint, wanted: bigint | undefined): MetadataCommit => ({
  partition: "p",
  conditions: [{ key: KEY, version: wanted === undefined ? undefined : { commit: wanted, guid: wanted } }],
  writes: [{ kind: "put", row: { key: KEY, version: { commit, guid: commit }, value: Uint8Array.of(Number(commit)) } }],
});

test("memory metadata: fates applied and lost: unknown, the row is there or not", async () => {
  const metadata = new MemoryObjectMetadata();
  metadata.nextFates("lost", "applied");
  assert.equal((await metadata.commit(writing(1n, undefined))).kind, "unknown");
  assert.equal(metadata.contents("p").length, 0);
  assert.equal((await metadata.commit(writing(2n, undefined))).kind, "unknown");
  assert.equal(metadata.contents("p")[0]!.version.commit, 2n);
  assert.equal((await metadata.commit(writing(3n, 2n))).kind, "committed");
});

test("[OGD2] memory metadata: a late commit after a fence: refused by its condition", async () => {
  const metadata = new MemoryObjectMetadata();
  metadata.nextFates("late");
  assert.equal((await metadata.commit(writing(1n, undefined))).kind, "unknown");
  assert.equal((await metadata.commit(writing(2n, undefined))).kind, "committed");
  assert.equal(metadata.applyLate(), 0);
  assert.equal(metadata.contents("p")[0]!.version.commit, 2n);
});

test("memory metadata: a late commit whose conditions hold when it arrives: applied once", async () => {
  const metadata = new MemoryObjectMetadata();
  metadata.nextFates("late");
  await metadata.commit(writing(1n, undefined));
  assert.equal(metadata.lateCommits.length, 1);
  assert.deepEqual([metadata.applyLate(), metadata.applyLate()], [1, 0]);
  assert.deepEqual(metadata.partitions(), ["p"]);
});
