// The start of a coordinator beside replicas that answer late: 1 of 2, then 2.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { CoordinatorFixture, settle } from "./test/coordinator-fixture.ts";

/** More than a start makes of one kind. */
const CALLS_MAX = 60;
const START_MS_MAX = 60_000;
const STEP_MS = 50;

/** Starts a coordinator whose calls from `first` on fail, `times` of them; answers how many calls the start made. */
async function start(store: "rows" | "log", first: number, times: number): Promise<{ readonly calls: number; readonly ready: boolean }> {
  const fixture = new CoordinatorFixture();
  let calls = 0;
  fixture[store].before = () => {
    calls += 1;
    if (calls >= first && calls < first + times) throw new ConcordError("REPLICAS_UNAVAILABLE", "1 replicas answered, 2 are needed");
  };
  const service = fixture.compose("c0", "c0:1", []);
  let ended = false;
  const starting = service.start().finally(() => (ended = true));
  for (let waitedMs = 0; !ended; waitedMs += STEP_MS) {
    assert.ok(waitedMs < START_MS_MAX, `the start did not end although only calls ${first} to ${first + times - 1} of ${store} failed`);
    await settle();
    await fixture.clock.advance(STEP_MS);
  }
  await starting;
  const { ready } = service;
  const made = calls;
  const stopping = service.stop();
  await settle();
  await fixture.clock.advance(10_000);
  await stopping;
  return { calls: made, ready };
}

for (const store of ["rows", "log"] as const) {
  test(`start: each call of the ${store} in turn has one replica of two, three times: the start goes on`, async () => {
    const { calls } = await start(store, CALLS_MAX, 0);
    assert.ok(calls > 0 && calls < CALLS_MAX, `${calls} calls of a start`);
    for (let first = 1; first <= calls; first += 1) {
      const { ready } = await start(store, first, 3);
      assert.equal(ready, true, `call ${first}`);
    }
  });
}
