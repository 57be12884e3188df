// Without a broker: what the adapter mends in kafkajs itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import RequestQueue from "kafkajs/src/network/requestQueue/index.js";
import "./kafkajs-wire.ts";

const THROTTLED_MS = 60_000;

function newQueue(): RequestQueue {
  const logger = { debug: () => undefined, namespace: () => logger };
  return new RequestQueue({
    requestTimeout: 1_000,
    clientId: "test",
    broker: "broker:1",
    logger,
    isConnected: () => true,
    maxInFlightRequests: null,
  });
}

test("an idle connection: its answers are in and nothing waits: no timer wakes the process", (t) => {
  const queue = newQueue();
  t.after(() => queue.destroy());
  queue.checkPendingRequests();
  assert.equal(queue.throttleCheckTimeoutId, null);
});

test("a throttled connection: a request waits: a timer will send it", (t) => {
  const queue = newQueue();
  t.after(() => queue.destroy());
  queue.throttledUntil = Date.now() + THROTTLED_MS;
  queue.push({ entry: { correlationId: 1 }, expectResponse: true, sendRequest: () => undefined });
  assert.equal(queue.pending.length, 1);
  assert.notEqual(queue.throttleCheckTimeoutId, null);
});
