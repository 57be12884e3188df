// Which Cassandra node a fault is for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { coordinatorOf } from "./victims.ts";

test("victim: nodes of three datacenters, proxies in two: one that a proxy asks first, not the one that none does", () => {
  assert.deepEqual(coordinatorOf(["a", "b", "c"], ["a", "b"]), { at: 1, asking: 1 });
  assert.deepEqual(coordinatorOf(["a", "b", "c"], ["a", "a", "b"]), { at: 0, asking: 2 });
});

test("victim: one datacenter: all proxies ask any node, whatever theirs is called", () => {
  assert.deepEqual(coordinatorOf(["one", "one", "one"], ["a", "b"]), { at: 2, asking: 2 });
  assert.deepEqual(coordinatorOf(["one"], ["a"]), { at: 0, asking: 1 });
});
