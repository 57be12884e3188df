// Ingest alone, over a log and partitions that do what the test says.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionWorker, InputResult } from "@concord/dedup";
import { MemoryMessageLog } from "@concord/port-contracts";
import type { MessageLog, NewMessage } from "@concord/ports";
import { ConcordError, silentMetrics, type Applied } from "@concord/runtime";
import type { Message } from "@concord/protos-dedup";
import { INGEST_IN_FLIGHT_BYTES_MAX, INGEST_IN_FLIGHT_MESSAGES_MAX } from "../limits.ts";
import { checkedMessages, type CheckedMessage } from "./check-message.ts";
import { ManualClock } from "../test/worker-fixture.ts";
import { Ingest, type IngestCall } from "./ingest.ts";

const callWith = (signal: AbortSignal): IngestCall => ({ signal, timeoutMs: 1_000, isForwarded: false, source: undefined });
const never = callWith(new AbortController().signal);
const none = new Uint8Array();

function message(partition: number, bytes = 10): CheckedMessage {
  return { id: Uint8Array.of(partition), key: none, value: none, headers: [], timestampMs: 1, bytes };
}

interface Fixture {
  readonly ingest: Ingest;
  readonly appended: { readonly partition: number; readonly messages: readonly NewMessage[] }[];
  /** The next result; waits when undefined. */
  result: (() => Promise<InputResult>) | undefined;
  /** What the next append to a partition fails with. */
  readonly fails: Map<number, ConcordError>;
  release(): void;
}

function fixture(): Fixture {
  const memory = new MemoryMessageLog(2);
  let held: (() => void)[] = [];
  const fails = new Map<number, ConcordError>();
  const appended: Fixture["appended"] = [];
  const log: MessageLog = Object.assign(Object.create(memory) as MessageLog, {
    append: async (partition: number, messages: readonly NewMessage[]) => {
      const error = fails.get(partition);
      fails.delete(partition);
      if (error !== undefined) throw error;
      appended.push({ partition, messages });
      return { from: BigInt(appended.length * 1000) };
    },
  });
  const whenProcessed = (offset: bigint): Promise<InputResult> =>
    made.result?.() ?? new Promise((resolve) => held.push(() => resolve({ kind: "accepted", offset })));
  const worker = (partition: number): PartitionWorker =>
    ({ partition, state: { kind: "running" }, whenProcessed }) as unknown as PartitionWorker;
  const partitions = {
    working: worker,
    otherOwner: () => undefined,
    isShared: false,
    moving: () => undefined,
    enter: () => () => undefined,
  };
  const forward = (): Promise<never> => assert.fail("all partitions are here");
  const place = async (one: CheckedMessage) => ({ message: one, id: one.id, partition: one.id![0]! });
  const environment = { clock: new ManualClock(), metrics: silentMetrics, failpoint: () => undefined };
  const made: Fixture = {
    ingest: new Ingest({ log, partitions, place, forward, environment, admit: () => Promise.resolve() }),
    appended,
    fails,
    result: undefined,
    release: () => {
      for (const go of held.splice(0)) go();
      held = [];
    },
  };
  return made;
}

async function refused(promise: Promise<unknown>): Promise<ConcordError> {
  const thrown: unknown = await promise.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof ConcordError);
  return thrown;
}

for (const [what, limit, count, bytes] of [
  ["messages", "INGEST_IN_FLIGHT_MESSAGES_MAX", INGEST_IN_FLIGHT_MESSAGES_MAX, 1],
  ["bytes", "INGEST_IN_FLIGHT_BYTES_MAX", 4, INGEST_IN_FLIGHT_BYTES_MAX / 4],
] as const) {
  test(`ingest: as many ${what} as may wait for results: taken; one more: OVERLOADED, nothing appended; accepted again when they are answered`, async () => {
    const { ingest, appended, release } = fixture();
    const waiting = ingest.ingest(
      Array.from({ length: count }, () => message(0, bytes)),
      "output",
      never,
    );
    const error = await refused(ingest.ingest([message(1, 1)], "output", never));
    assert.deepEqual([error.code, error.applied, error.metadata["limit"]], ["OVERLOADED", "no", limit]);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(new Set(appended.map(({ partition }) => partition)), new Set([0]), "nothing of the refused call");
    release();
    assert.equal((await waiting).length, count);
    const next = ingest.ingest([message(1, 1)], "output", never);
    await new Promise((resolve) => setImmediate(resolve));
    release();
    assert.equal((await next)[0]!.status, "accepted");
  });
}

test("ingest: a call fails: what it had in flight is given back", async () => {
  const { ingest, fails } = fixture();
  for (let at = 0; at < 3; at += 1) {
    fails.set(0, new ConcordError("STORE_FAILED", "the disk"));
    await refused(ingest.ingest([message(0, INGEST_IN_FLIGHT_BYTES_MAX)], "input", never));
  }
  assert.equal((await ingest.ingest([message(0, INGEST_IN_FLIGHT_BYTES_MAX)], "input", never)).length, 1);
});

const failure = (applied: Applied): ConcordError => new ConcordError("STORAGE_FULL", "no room", { applied });

for (const [what, first, second, applied] of [
  ["one partition refuses, the other takes its messages", failure("no"), undefined, "unknown"],
  ["both refuse", failure("no"), failure("no"), "no"],
  ["one refuses, the other is unknown", failure("no"), failure("unknown"), "unknown"],
  ["both are unknown", failure("unknown"), failure("unknown"), "unknown"],
] as const) {
  test(`ingest: ${what}: the call fails, applied ${applied} (I2)`, async () => {
    const { ingest, fails } = fixture();
    fails.set(0, first);
    if (second !== undefined) fails.set(1, second);
    const error = await refused(ingest.ingest([message(0), message(1)], "output", never));
    assert.deepEqual([error.code, error.applied], ["STORAGE_FULL", applied]);
  });
}

for (const code of ["DRAINING", "PARTITION_STOPPED", "OVERLOADED", "OUTCOME_UNKNOWN"] as const) {
  test(`ingest: appended, then ${code} instead of a result: applied unknown (I2)`, async () => {
    const one = fixture();
    one.result = () => Promise.reject(new ConcordError(code, "no result"));
    const error = await refused(one.ingest.ingest([message(0), message(1)], "output", never));
    assert.deepEqual([error.code, error.applied], [code, "unknown"]);
  });
}

test("[DDD3] ingest: a message that belongs elsewhere: queued there, no offset yet", async () => {
  const one = fixture();
  one.result = () => Promise.resolve({ kind: "rerouted", partition: 1 });
  const [result] = await one.ingest.ingest([message(0)], "output", never);
  assert.deepEqual(result, { status: "queued", partition: 1, offset: undefined, id: "\u0000" });
});

test("ingest: the caller is gone before the result: DEADLINE_EXCEEDED, applied unknown, and a late result does no harm", async () => {
  const { ingest, release } = fixture();
  const controller = new AbortController();
  const waiting = ingest.ingest([message(0)], "output", callWith(controller.signal));
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  const error = await refused(waiting);
  assert.deepEqual([error.code, error.applied], ["DEADLINE_EXCEEDED", "unknown"]);
  release();
  await new Promise((resolve) => setImmediate(resolve));
});

test("[DD2] ingest: ids that are no UTF-8 or begin with a byte order mark, owned by another worker: unchanged there", async () => {
  const passed: Message[] = [];
  const id = Uint8Array.of(0xff, 0xfe, 1);
  const one: CheckedMessage = { id: undefined, key: id, value: none, headers: [], timestampMs: 1, bytes: 3 };
  const marked = new TextEncoder().encode("\uFEFFmarked");
  const ingest = new Ingest({
    log: new MemoryMessageLog(2),
    partitions: {
      working: () => assert.fail("nothing is here"),
      otherOwner: () => ({ name: "b", address: "b:1", datacenter: "d" }),
      isShared: true,
      moving: () => undefined,
      enter: () => assert.fail("nothing is here"),
    },
    place: async (message) => ({ message, id: (message.key?.length ?? 0) > 0 ? id : marked, partition: 0 }),
    forward: async (_, messages) => {
      passed.push(...messages);
      return messages.map(() => ({ status: "queued", partition: 0, offset: 0n, id: "" }));
    },
    environment: { clock: new ManualClock(), metrics: silentMetrics, failpoint: () => undefined },
    admit: () => Promise.resolve(),
  });
  await ingest.ingest([one, { ...one, key: none }], "output", never);
  assert.deepEqual(
    passed.map((message) => message.id),
    ["", "\uFEFFmarked"],
  );
  const [found, given] = checkedMessages(passed, 1);
  assert.deepEqual([found!.key, given!.id], [id, marked]);
});
