import assert from "node:assert/strict";
import { test } from "node:test";
import { Paths, UDP_SILENT_MS } from "./paths.ts";

test("[TX13] paths: datagrams come: no stream; none for long: a stream, until they come again", () => {
  const paths = new Paths(3, 1_000);
  assert.equal(paths.needsStream(1, 1_000 + UDP_SILENT_MS), false);
  assert.equal(paths.needsStream(1, 1_001 + UDP_SILENT_MS), true);
  assert.equal(paths.needsStream(2, 1_001 + UDP_SILENT_MS), true);
  paths.heardByUdp(1, 5_000);
  assert.deepEqual([paths.needsStream(1, 5_001), paths.isSilent(1, 5_001)], [false, false]);
});

test("[TX13] paths: the other hears none of ours, though we hear it: a stream for as long as it says so", () => {
  const paths = new Paths(2, 0);
  paths.heardByUdp(1, 100);
  paths.heardByStream(1, true, 100);
  assert.deepEqual([paths.needsStream(1, 101), paths.isSilent(1, 101)], [true, false]);
  paths.heardByUdp(1, 4_000);
  assert.equal(paths.needsStream(1, 101 + UDP_SILENT_MS), false);
});

test("[TX13] paths: both send over gRPC and hear by UDP again: neither keeps the other's stream alive", () => {
  const paths = new Paths(2, 0);
  paths.heardByStream(1, true, 3_000);
  paths.heardByUdp(1, 3_010);
  paths.heardByStream(1, false, 3_020);
  assert.equal(paths.needsStream(1, 3_021), false);
});
