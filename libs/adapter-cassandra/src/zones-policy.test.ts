import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client, Host, HostMap } from "cassandra-driver";
import { silentNodes } from "./failure.ts";
import { SILENT_AFTER_MS, SILENT_LAST_MS } from "./limits.ts";
import { ZonesPolicy } from "./zones-policy.ts";

const HOSTS = ["a", "b", "c", "d"].map((address, at) => ({
  address,
  datacenter: at < 3 ? "dc1" : "dc2",
  isUp: () => true,
  canBeConsideredAsUp: () => true,
})) as unknown as readonly Host[];

function policy(): { readonly zones: ZonesPolicy; readonly plan: () => string[]; pass(ms: number): void } {
  let nowMs = 0;
  const zones = new ZonesPolicy("dc1", { monotonicMs: () => nowMs });
  const hosts = { values: () => [...HOSTS], forEach: () => undefined, on: () => undefined, length: HOSTS.length } as unknown as HostMap;
  const client = { options: { policies: {} }, hosts, log: () => undefined } as unknown as Client;
  zones.init(client, hosts, () => undefined);
  for (const host of HOSTS) zones.getDistance(host);
  const plan = (): string[] => {
    const addresses: string[] = [];
    zones.newQueryPlan("", undefined as never, (error, order) => {
      assert.equal(error ?? undefined, undefined);
      for (let next = order.next(); next.done !== true; next = order.next()) addresses.push(next.value.address);
    });
    return addresses;
  };
  return { zones, plan, pass: (ms) => void (nowMs += ms) };
}

test("coordinators: own datacenter first, the others behind", () => {
  const { plan } = policy();
  const first = plan();
  assert.deepEqual([first.slice(0, 3).toSorted(), first[3]], [["a", "b", "c"], "d"]);
});

test("coordinators: one was silent: last for a while, then as before", () => {
  const { zones, plan, pass } = policy();
  zones.silent(["b"]);
  for (let turn = 0; turn < 6; turn += 1) assert.equal(plan().at(-1), "b");
  assert.equal(plan().length, 4);
  pass(SILENT_LAST_MS);
  assert.notEqual(plan().at(-1), "b");
});

test("coordinators: all were silent: all are tried", () => {
  const { zones, plan } = policy();
  zones.silent(["a", "b", "c", "d"]);
  assert.deepEqual(plan().toSorted(), ["a", "b", "c", "d"]);
});

test("coordinators: an avoided one is in no plan", () => {
  const { zones, plan } = policy();
  zones.avoided = new Set(["a", "d"]);
  assert.deepEqual(plan().toSorted(), ["b", "c"]);
});

test("silent nodes: of a time-out its coordinator, of several tries those that timed out, of an answer none", () => {
  const timeOut = { name: "OperationTimedOutError", message: "late", host: "a" };
  assert.deepEqual(silentNodes(timeOut, SILENT_AFTER_MS), ["a"]);
  const several = { name: "NoHostAvailableError", message: "none", innerErrors: { b: timeOut, c: { name: "Error", message: "closed" } } };
  assert.deepEqual(silentNodes(several, SILENT_AFTER_MS), ["b"]);
  assert.deepEqual(silentNodes({ name: "ResponseError", message: "cas", code: 0x1100 }, SILENT_AFTER_MS), []);
});

test("silent nodes: of a request that had little time: none", () => {
  const timeOut = { name: "OperationTimedOutError", message: "late", host: "a" };
  assert.deepEqual(silentNodes(timeOut, SILENT_AFTER_MS - 1), []);
  assert.deepEqual(silentNodes(timeOut, 1), []);
});
