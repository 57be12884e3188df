import assert from "node:assert/strict";
import { test } from "node:test";
import { SPECULATION_DELAY_MAX_MS, SPECULATION_DELAY_MS } from "./limits.ts";
import { SpeculationPolicy } from "./speculation-policy.ts";

const FIRST = { queriedHost: "b", triedHosts: { b: null, a: null } };
const BATCH = [{ query: "UPDATE" }, { query: "UPDATE" }];
const SECOND = { queriedHost: "a", triedHosts: { b: null, a: null } };

function delays(policy: SpeculationPolicy, query: string | readonly object[]): number[] {
  const plan = policy.newPlan("", query);
  return [plan.nextExecution(), plan.nextExecution()];
}

test("speculation: nodes answer soon: one more is asked after the fixed time, no third", () => {
  const policy = new SpeculationPolicy();
  for (let turn = 0; turn < 100; turn += 1) policy.answered(1, 5, FIRST);
  assert.deepEqual(delays(policy, "SELECT"), [SPECULATION_DELAY_MS, -1]);
});

test("speculation: all nodes are busy: three times what such requests take, up to a limit", () => {
  const policy = new SpeculationPolicy();
  for (let turn = 0; turn < 200; turn += 1) policy.answered(90, 200, FIRST);
  const [delayMs, third] = delays(policy, BATCH);
  assert.ok(Math.abs(delayMs! - 600) < 1, String(delayMs));
  assert.equal(third, -1);
  assert.equal(delays(policy, "SELECT")[0], SPECULATION_DELAY_MS, "batches say nothing about reads");
  for (let turn = 0; turn < 200; turn += 1) policy.answered(90, 5000, FIRST);
  assert.equal(delays(policy, BATCH)[0], SPECULATION_DELAY_MAX_MS);
});

test("speculation: a paused node's requests are answered by the second one asked: the delay stays", () => {
  const policy = new SpeculationPolicy();
  for (let turn = 0; turn < 200; turn += 1) policy.answered(1, turn % 2 === 0 ? 5 : 155, turn % 2 === 0 ? FIRST : SECOND);
  assert.equal(policy.delayMs(1), SPECULATION_DELAY_MS);
});

test("speculation: nodes are no longer busy: the fixed time again", () => {
  const policy = new SpeculationPolicy();
  for (let turn = 0; turn < 100; turn += 1) policy.answered(1, 300, FIRST);
  assert.ok(policy.delayMs(1) > SPECULATION_DELAY_MS);
  for (let turn = 0; turn < 100; turn += 1) policy.answered(1, 5, FIRST);
  assert.equal(policy.delayMs(1), SPECULATION_DELAY_MS);
});
