// Calls for partitions that are on their way from one worker to another: they wait, and nothing is appended or sent before their place is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InputResult, PartitionWorker } from "@concord/dedup";
import { MemoryMessageLog } from "@concord/port-contracts";
import { ConcordError, silentMetrics } from "@concord/runtime";
import { ROUTE_AGAIN_MS, ROUTE_WAIT_MS } from "../limits.ts";
import type { Worker } from "../partitions/partitions.ts";
import { ManualClock, settle } from "../test/worker-fixture.ts";
import type { CheckedMessage } from "./check-message.ts";
import { Ingest, type Forward, type IngestCall, type IngestResult } from "./ingest.ts";

const none = new Uint8Array(0);
const message: CheckedMessage = { id: Uint8Array.of(97), key: none, value: none, headers: [], timestampMs: 1, bytes: 1 };
const OTHER: Worker = { name: "b", address: "b:1", datacenter: "d" };
const QUEUED: IngestResult = { status: "queued", partition: 0, offset: 0n, id: "a" };

interface Place {
  /** Undefined: another worker's. */
  isHere: boolean;
  owner: Worker;
  moving: PromiseWithResolvers<void> | undefined;
}

function fixture(forward: Forward = () => assert.fail("passed on")): {
  readonly place: Place;
  readonly clock: ManualClock;
  readonly appended: () => number;
  readonly uses: () => number;
  readonly call: (more?: Partial<IngestCall>) => Promise<readonly IngestResult[]>;
} {
  const clock = new ManualClock();
  const log = new MemoryMessageLog(1);
  let [appended, uses] = [0, 0];
  const place: Place = { isHere: true, owner: OTHER, moving: undefined };
  const processed: InputResult = { kind: "accepted", offset: 0n };
  const worker = { partition: 0, state: { kind: "running" }, whenProcessed: async () => processed } as unknown as PartitionWorker;
  const partitions = {
    isShared: true,
    moving: () => place.moving?.promise,
    otherOwner: () => (place.isHere ? undefined : place.owner),
    working: () => {
      if (place.isHere) return worker;
      throw new ConcordError("NOT_OWNER", "another worker's");
    },
    enter: () => {
      uses += 1;
      return () => (uses -= 1);
    },
  };
  const append = log.append.bind(log);
  log.append = async (...given) => {
    appended += 1;
    return await append(...given);
  };
  const ingest = new Ingest({
    log,
    partitions,
    place: async (one) => ({ message: one, id: one.id, partition: 0 }),
    forward,
    environment: { clock, metrics: silentMetrics, failpoint: () => undefined },
    admit: () => Promise.resolve(),
  });
  const call = (more: Partial<IngestCall> = {}): Promise<readonly IngestResult[]> =>
    ingest.ingest([message], "output", {
      signal: new AbortController().signal,
      timeoutMs: 60_000,
      isForwarded: false,
      source: undefined,
      ...more,
    });
  return { place, clock, call, appended: () => appended, uses: () => uses };
}

async function refused(promise: Promise<unknown>): Promise<readonly [code: string, applied: string]> {
  const thrown: unknown = await promise.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof ConcordError);
  return [thrown.code, thrown.applied];
}

test("[TX17] routing: the partition is being released here: the call waits, then is passed on to its next owner", async () => {
  const passed: string[] = [];
  const { place, clock, call, appended } = fixture(async (address) => {
    passed.push(address);
    return [QUEUED];
  });
  place.moving = Promise.withResolvers();
  const answered = call();
  await settle();
  assert.deepEqual([appended(), passed], [0, []]);
  const { moving } = place;
  Object.assign(place, { isHere: false, moving: undefined });
  moving.resolve();
  await clock.advance(ROUTE_AGAIN_MS);
  assert.deepEqual([await answered, passed], [[QUEUED], ["b:1"]]);
});

test("[TX17] routing: the partition is being opened here: the call, also one that was passed on, waits and is answered here", async () => {
  const { place, clock, call, appended, uses } = fixture();
  place.moving = Promise.withResolvers();
  const answered = call({ isForwarded: true });
  await clock.advance(3 * ROUTE_AGAIN_MS);
  assert.equal(appended(), 0);
  place.moving = undefined;
  await clock.advance(ROUTE_AGAIN_MS);
  assert.deepEqual((await answered)[0]!.status, "accepted");
  assert.deepEqual([appended(), uses()], [1, 0]);
});

test("[TX17] routing: the worker asked refuses with applied no: the next owner is asked; with applied unknown: no other is", async () => {
  const passed: string[] = [];
  const made = fixture(async (address) => {
    passed.push(address);
    if (address === "c:1") return [QUEUED];
    made.place.owner = { ...OTHER, address: "c:1" };
    throw new ConcordError("NOT_OWNER", "handed over", { applied: "no" });
  });
  made.place.isHere = false;
  const answered = made.call();
  await made.clock.advance(ROUTE_AGAIN_MS);
  assert.deepEqual([await answered, passed], [[QUEUED], ["b:1", "c:1"]]);
  const lost = fixture(() => Promise.reject(new ConcordError("CONNECTION_LOST", "broken", { applied: "unknown" })));
  lost.place.isHere = false;
  assert.deepEqual(await refused(lost.call()), ["CONNECTION_LOST", "unknown"]);
});

test("[TX17] routing: the partition does not arrive in ROUTE_WAIT_MS, or within the deadline: refused with applied no, nothing appended", async () => {
  for (const [timeoutMs, waitedMs] of [
    [60_000, ROUTE_WAIT_MS],
    [500, 500],
  ] as const) {
    const { place, clock, call, appended, uses } = fixture();
    place.moving = Promise.withResolvers();
    let isOver = false;
    const answered = refused(call({ timeoutMs })).finally(() => (isOver = true));
    await clock.advance(waitedMs - ROUTE_AGAIN_MS);
    assert.equal(isOver, false);
    await clock.advance(2 * ROUTE_AGAIN_MS);
    assert.deepEqual([await answered, appended(), uses()], [["STARTING", "no"], 0, 0]);
  }
});

test("[I6] routing: a call that was passed on is refused at once where another worker owns its partition", async () => {
  const { place, call } = fixture();
  place.isHere = false;
  assert.deepEqual(await refused(call({ isForwarded: true })), ["NOT_OWNER", "no"]);
});

test("[DDD13] routing: a call with a source: it is passed on with the source", async () => {
  const passed: (string | undefined)[] = [];
  const { place, call } = fixture(async (_address, _messages, _acknowledge, source) => {
    passed.push(source);
    return [QUEUED];
  });
  place.isHere = false;
  await call({ source: "billing" });
  await call();
  assert.deepEqual(passed, ["billing", undefined]);
});
