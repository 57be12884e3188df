// One node's disk after the other is replaced, as operators do it over the years: nothing acknowledged may go.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import { COORDINATOR, MemoryRing } from "../test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

test("[TXR4] lost stores: each node's store in turn: every one is copied, none joins the ring as new", async () => {
  ring = new MemoryRing({ size: 3 });
  await ring.start();
  const [first, second, third] = ring.nodes as [(typeof ring.nodes)[0], (typeof ring.nodes)[0], (typeof ring.nodes)[0]];
  const raise = { group: "g1", epoch: 7n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL };
  assert.equal((await ring.call<{ result: string }>(first, "GroupLogService/Raise", raise, COORDINATOR)).result, "raised");
  await ring.clock.advance(1000);
  for (const node of [first, second, third]) {
    await ring.halt(node);
    await ring.restart(node, { entries: [] });
    await ring.clock.advance(1000);
    const headers = node.store.contents().filter(({ key }) => key[0] === 0x67);
    assert.equal(headers.length, 1, `${node.name} promised an epoch and must not forget it`);
  }
});

test("[TXR4] lost store: an interrupted copy left log entries that were trimmed since: the next copy is whole and the node serves", async () => {
  ring = new MemoryRing({ size: 3 });
  await ring.start();
  const lost = ring.nodes[2]!;
  const call = (method: string, request: object): Promise<{ result: string }> =>
    ring.call<{ result: string }>(
      ring.nodes[0]!,
      `GroupLogService/${method}`,
      { group: "g1", epoch: 1n, owner: "txn-1", ...request },
      COORDINATOR,
    );
  await call("Raise", { protocol: GROUP_LOG_PROTOCOL });
  for (let seq = 1n; seq <= 3n; seq += 1n) {
    const request = { seq, previousEpoch: seq === 1n ? 0n : 1n, timestampCeilingUs: 5n, content: Uint8Array.of(1) };
    assert.equal((await call("Append", request)).result, "logged");
  }
  await ring.clock.advance(1000);
  const leftBehind = lost.store.contents().filter(({ key }) => key[0] === 0x67 || key[0] === 0x6c);
  await call("Trim", { appliedSeq: 2n, appliedEpoch: 1n });
  await ring.clock.advance(1000);
  await ring.halt(lost);
  await ring.restart(lost, { entries: leftBehind });
  assert.equal(lost.service.ready, true);
});
