import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedMembership, type Membership, type MembershipChange } from "./index.ts";

const notStarted: (change: MembershipChange) => void = () => assert.fail("not started");

function scripted(): { membership: Membership; tell: (change: MembershipChange) => void; starts: number; isStopped: boolean } {
  const script = { tell: notStarted, starts: 0, isStopped: false };
  const membership: Membership = {
    start: async (onChange) => {
      script.starts += 1;
      script.tell = onChange;
    },
    leaseEndMs: () => 7,
    stop: async () => void (script.isStopped = true),
  };
  return Object.assign(script, { membership });
}

test("shared membership: two parts: one start; the later one first learns the newest of what is known; silent when both have stopped", async () => {
  const script = scripted();
  const shared = new SharedMembership(script.membership);
  const [first, second, unused] = [shared.share(), shared.share(), shared.share()];
  const heardFirst: MembershipChange[] = [];
  const heardSecond: MembershipChange[] = [];
  await first.start((change) => heardFirst.push(change));
  script.tell({ kind: "self", verdict: "works" });
  script.tell({ kind: "verdict", member: 2, verdict: "works" });
  script.tell({ kind: "verdict", member: 2, verdict: "gone" });
  await second.start((change) => heardSecond.push(change));
  assert.deepEqual(heardSecond, [
    { kind: "self", verdict: "works" },
    { kind: "verdict", member: 2, verdict: "gone" },
  ]);
  script.tell({ kind: "verdict", member: 1, verdict: "stuck" });
  assert.deepEqual([heardFirst.length, heardSecond.length, script.starts, first.leaseEndMs()], [4, 3, 1, 7]);
  await unused.stop();
  await first.stop();
  await first.stop();
  script.tell({ kind: "self", verdict: "lost" });
  assert.deepEqual([heardFirst.length, heardSecond.length, script.isStopped], [4, 4, false]);
  await second.stop();
  assert.equal(script.isStopped, true);
});
