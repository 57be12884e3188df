import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "@concord/runtime";
import { batchlogCopies, checkBatchlogCopies } from "./batchlog-copies.ts";
import type { CassandraNode } from "./session.ts";

/** "dc1 dc1 -dc1": three nodes of a datacenter, one of them down. */
const nodesOf = (text: string): CassandraNode[] =>
  text.split(" ").map((word, at) => ({ address: `n${at}`, datacenter: word.replace("-", ""), isUp: !word.startsWith("-") }));

const cases: readonly (readonly [nodes: string, copies: number])[] = [
  ["dc1", 1],
  ["dc1 dc1", 1],
  ["dc1 dc1 dc1", 2],
  ["dc1 dc1 -dc1", 1],
  ["dc1 dc2 dc3", 1],
  ["dc1 dc2 dc2 dc2", 1],
  ["dc1 dc1 dc1 dc2", 2],
  // None of the own datacenter is up: another one coordinates.
  ["-dc1 dc2 dc2 dc2", 2],
  ["-dc1 dc2 dc2 dc2 dc3", 1],
  ["-dc1", 1],
];

for (const [nodes, copies] of cases) {
  test(`[LBC1] copies of the log of a batch: ${nodes}: ${copies}`, () => {
    assert.equal(batchlogCopies(nodesOf(nodes), "dc1"), copies);
  });
}

test("[LBC1] start: three datacenters of one node: said, with the datacenter; three nodes in one: nothing", () => {
  const said: unknown[] = [];
  const log = { ...silentLog, warn: (message: string, fields?: object) => void said.push(message, fields) };
  checkBatchlogCopies({ nodes: () => nodesOf("dc1 dc1 dc1") }, "dc1", log);
  assert.deepEqual(said, []);
  checkBatchlogCopies({ nodes: () => nodesOf("dc1 dc2 dc3") }, "dc1", log);
  assert.match(String(said[0]), /at one node/);
  assert.deepEqual(said[1], { datacenter: "dc1", nodes: 1 });
});
