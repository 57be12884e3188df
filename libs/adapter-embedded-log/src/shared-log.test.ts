// Several processes over one log: who owns a partition, and what an owner that was paused, and wakes, can still do: nothing that is read.
import assert from "node:assert/strict";
import { test } from "node:test";
import { diskOver, MemoryDisk, type DiskCall } from "@concord/port-contracts";
import type { LogSession, MessageLog, PublishOutcome } from "@concord/ports";
import { ConcordError, silentLog, toConcordError, type Disk } from "@concord/runtime";
import { message, openOn, publication, settle, valuesOf } from "./test/memory-log.ts";

const PARTITIONS = 3;
const SHARED = { isAssigned: () => true, partitions: PARTITIONS };

async function openShared(disk: Disk): Promise<MessageLog> {
  const log = await openOn(disk, SHARED);
  for (let partition = 0; partition < PARTITIONS; partition += 1) await (await log.open(partition, "owner")).close();
  return log;
}

const notOwner = { code: "NOT_OWNER" };

test("shared log: a partition is open in its owner's process only; released, in none", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk, SHARED);
  await assert.rejects(log.append(0, [message("a")]), { ...notOwner, applied: "no" });
  assert.equal(log.inputEnd!(0), undefined);
  await log.open(0, "one");
  await log.append(0, [message("a")]);
  assert.equal(log.inputEnd!(0), 1n);
  await assert.rejects(log.read("input", 1, 0n, { messages: 1, bytes: 1 }), notOwner);
  const waiting = log.whenBeyond("input", 0, 1n, new AbortController().signal);
  await log.release(0);
  await waiting;
  await assert.rejects(log.bounds("input", 0), notOwner);
  assert.equal(log.inputEnd!(0), undefined);
  await assert.rejects(log.release(PARTITIONS), { code: "PARTITION_UNKNOWN" });
  await log.open(0, "one");
  assert.deepEqual(await valuesOf(log, "input"), ["a"]);
});

test("[DDD4] shared log: another process opens the partition: it has what was acknowledged; the one before appends and publishes nothing", async () => {
  const disk = new MemoryDisk();
  const [one, two] = [await openOn(disk, SHARED), await openOn(disk, SHARED)];
  const before = await one.open(0, "one");
  await one.append(0, [message("a"), message("b")]);
  assert.equal((await before.publish(publication({ output: [message("A")], acknowledgedInput: 1n }))).kind, "published");
  const after = await two.open(0, "two");
  assert.deepEqual([after.acknowledgedInput, after.output.end], [1n, 1n]);
  await assert.rejects(one.append(0, [message("zombie")]), { ...notOwner, applied: "unknown" });
  assert.deepEqual(await before.publish(publication({ output: [message("Z")], acknowledgedInput: 2n })), { kind: "fenced" });
  assert.equal((await after.publish(publication({ output: [message("B")], acknowledgedInput: 2n }))).kind, "published");
  await two.append(0, [message("c")]);
  for (const log of [two, await openOn(disk, SHARED)]) {
    if (log !== two) await log.open(0, "three");
    assert.deepEqual(
      [await valuesOf(log, "input"), await valuesOf(log, "output")],
      [
        ["a", "b", "c"],
        ["A", "B"],
      ],
    );
  }
  assert.deepEqual(await valuesOf(one, "output"), ["A"], "what the one before shows stays a beginning of it");
});

test("shared log: three owners in turn without one output, then a trim: a look at its size failed an assertion, which ended the process", async () => {
  const disk = new MemoryDisk();
  for (const owner of ["one", "two"]) await (await openOn(disk, SHARED)).open(0, owner);
  const log = await openOn(disk, SHARED);
  const session = await log.open(0, "three");
  const empty = log.outputUse!(0)!;
  await log.append(0, [message("a")]);
  assert.equal((await session.publish(publication({ output: [], acknowledgedInput: 1n }))).kind, "published");
  await settle();
  const { bytes, neededBytes } = log.outputUse!(0)!;
  assert.ok(bytes < empty.bytes, "segments without a record are gone");
  assert.ok(neededBytes > 0 && neededBytes <= bytes, `${neededBytes} of ${bytes} bytes`);
});

test("shared log: other partitions of a process are not touched by the loss of one", async () => {
  const disk = new MemoryDisk();
  const [one, two] = [await openShared(disk), await openOn(disk, SHARED)];
  await two.open(1, "two");
  await one.append(0, [message("a")]);
  await assert.rejects(one.append(1, [message("b")]), notOwner);
});

test("shared log: many open one partition at the same time: one tenure at a time, and the last one can write", async () => {
  const disk = new MemoryDisk();
  const logs = await Promise.all(Array.from({ length: 8 }, () => openOn(disk, SHARED)));
  const opened = await Promise.all(
    logs.map((log) =>
      log.open(0, "owner").then(
        () => true,
        (thrown: unknown) => (assert.equal(toConcordError(thrown).code, "NOT_OWNER"), false),
      ),
    ),
  );
  assert.ok(opened.includes(true));
  const appended = await Promise.allSettled(logs.map((log, at) => log.append(0, [message(`m${at}`)])));
  assert.equal(appended.filter(({ status }) => status === "fulfilled").length, 1);
});

test("[DDD3] shared log: another number of partitions, or a log of one process: refused", async () => {
  const disk = new MemoryDisk();
  await openOn(disk, SHARED);
  await assert.rejects(openOn(disk, { ...SHARED, partitions: 4 }), { code: "MALFORMED_REQUEST" });
  await assert.rejects(openOn(disk, { partitions: PARTITIONS }), { code: "MALFORMED_REQUEST" });
  await openOn(disk, SHARED);
  const sole = new MemoryDisk();
  await (await openOn(sole, { partitions: PARTITIONS })).close();
  await assert.rejects(openOn(sole, SHARED), { code: "MALFORMED_REQUEST" });
});

test("shared log: a publication with messages of another partition: refused, nothing written: its owner may be another process", async () => {
  const log = await openShared(new MemoryDisk());
  const session = await log.open(0, "owner");
  const rerouted = [{ partition: 1, message: message("r") }];
  await assert.rejects(session.publish(publication({ output: [message("a")], rerouted })), { code: "PARTITION_STOPPED" });
  assert.deepEqual([await valuesOf(log, "output"), await valuesOf(log, "input", 1)], [[], []]);
});

/** A disk whose calls, from a chosen one on, wait until they may go on. */
class PausingDisk {
  readonly disk: Disk;
  calls = 0;
  pauseAt = Number.POSITIVE_INFINITY;
  readonly paused = Promise.withResolvers<void>();
  readonly #gate = Promise.withResolvers<void>();

  constructor(memory: MemoryDisk) {
    this.disk = diskOver(memory.files, async <Answer>(_: DiskCall, act: () => Answer) => {
      this.calls += 1;
      if (this.calls >= this.pauseAt) {
        this.paused.resolve();
        await this.#gate.promise;
      }
      await Promise.resolve();
      return act();
    });
  }

  resume(): void {
    this.#gate.resolve();
  }
}

interface Work {
  readonly append: "yes" | "no" | "unknown";
  readonly publish: PublishOutcome["kind"];
}

/** What an owner does before it may be paused, and at last knows of it. */
async function work(log: MessageLog, session: LogSession): Promise<Work> {
  const append = await log.append(0, [message("in")]).then(
    () => "yes" as const,
    (thrown: unknown) => (toConcordError(thrown).applied === "no" ? ("no" as const) : ("unknown" as const)),
  );
  const outcome = await session
    .publish(publication({ output: [message("out")], deadLetters: [message("dead")], acknowledgedInput: 1n }))
    .catch((thrown: unknown) => ({ kind: "unknown", cause: thrown }) as const);
  return { append, publish: outcome.kind };
}

test("[DDD4] shared log: the owner pauses before each single call to the disk; another takes over and works; the first wakes: no reader sees more of it than was answered", async () => {
  const seen = new Set<string>();
  for (let pauseAt = 1; ; pauseAt += 1) {
    const memory = new MemoryDisk();
    const pausing = new PausingDisk(memory);
    const log = await openOn(pausing.disk, SHARED);
    const session = await log.open(0, "paused");
    await log.append(0, [message("first")]);
    pausing.pauseAt = pausing.calls + pauseAt;
    const working = work(log, session);
    await Promise.race([pausing.paused.promise, working]);
    const two = await openOn(memory, SHARED);
    const next = await two.open(0, "next");
    const found = { input: await valuesOf(two, "input"), output: await valuesOf(two, "output"), dead: await valuesOf(two, "dead-letters") };
    await two.append(0, [message("second")]);
    assert.equal(
      (await next.publish(publication({ output: [message("next")], acknowledgedInput: next.acknowledgedInput }))).kind,
      "published",
    );
    pausing.resume();
    const done = await working;
    // What was answered is there; what another one reads now it reads for ever, whatever the paused one still wrote.
    if (done.append === "yes") assert.ok(found.input.includes("in"), `call ${pauseAt}: the append was answered`);
    if (done.append === "no") assert.ok(!found.input.includes("in"));
    if (done.publish === "published")
      assert.deepEqual([found.output, found.dead], [["out"], ["dead"]], `call ${pauseAt}: the publish was answered`);
    if (done.publish === "fenced") assert.deepEqual(found.output, []);
    assert.deepEqual(found.dead.length, found.output.length, "all of a publication, or nothing");
    const three = await openOn(memory, SHARED);
    await three.open(0, "third");
    for (const reader of [two, three]) {
      if (reader === two) await assert.rejects(two.append(0, [message("zombie")]), notOwner);
      assert.deepEqual(await valuesOf(reader, "input"), [...found.input, "second"]);
      assert.deepEqual(await valuesOf(reader, "output"), [...found.output, "next"]);
      assert.deepEqual(await valuesOf(reader, "dead-letters"), found.dead);
    }
    seen.add(`${done.append}/${done.publish}`);
    for (const each of [log, two, three]) await each.close();
    if (pausing.calls < pausing.pauseAt) break;
  }
  assert.deepEqual([...seen].sort(), ["unknown/fenced", "yes/fenced", "yes/published", "yes/unknown"]);
});

test("[DDD4] shared log: one that takes over pauses before each single call to the disk; another takes over and works; the first wakes and is no owner", async () => {
  for (let pauseAt = 1; ; pauseAt += 1) {
    const memory = new MemoryDisk();
    const first = await openOn(memory, SHARED);
    const session = await first.open(0, "first");
    await first.append(0, [message("a")]);
    await session.publish(publication({ output: [message("A")], deadLetters: [message("D")], acknowledgedInput: 1n }));
    const pausing = new PausingDisk(memory);
    const errors: string[] = [];
    const late = await openOn(pausing.disk, { ...SHARED, log: { ...silentLog, error: (text) => errors.push(text) } });
    pausing.pauseAt = pausing.calls + pauseAt;
    const taking = late.open(0, "late").then(
      () => "open" as const,
      (thrown: unknown) => toConcordError(thrown).code,
    );
    await Promise.race([pausing.paused.promise, taking]);
    const isFirst = await first.append(0, [message("b")]).then(
      () => true,
      () => false,
    );
    const two = await openOn(memory, SHARED);
    const next = await two.open(0, "two");
    const input = await valuesOf(two, "input");
    assert.deepEqual(input, isFirst ? ["a", "b"] : input);
    await next.publish(publication({ output: [message("B")], acknowledgedInput: 1n }));
    const before = pausing.calls < pausing.pauseAt;
    pausing.resume();
    const outcome = await taking;
    assert.deepEqual(errors, [], `call ${pauseAt}: a folder that another owner renamed is no damage`);
    if (before) {
      assert.equal(outcome, "open");
      break;
    }
    // Paused before its rename it is a later owner, and sees everything; else it is none.
    const third = await openOn(memory, SHARED);
    await third.open(0, "third");
    assert.deepEqual([await valuesOf(third, "input"), await valuesOf(third, "output")], [input, ["A", "B"]]);
    assert.ok(outcome === "open" || outcome === "NOT_OWNER", outcome);
    await assert.rejects(
      late.append(0, [message("z")]),
      (thrown: unknown) => thrown instanceof ConcordError && thrown.code === "NOT_OWNER",
    );
    assert.deepEqual([await late.isHeld!(0), await third.isHeld!(0)], [false, true]);
    for (const each of [first, late, two, third]) await each.close();
  }
});

test("[DDD4] shared log: an owner opens its partition again and pauses before each single call to the disk; another takes over: OFFSET_OUT_OF_RANGE stopped the partition for good, it is no owner", async () => {
  for (let pauseAt = 1; ; pauseAt += 1) {
    const memory = new MemoryDisk();
    const pausing = new PausingDisk(memory);
    const one = await openOn(memory, SHARED);
    const session = await one.open(0, "one");
    await one.append(0, [message("a")]);
    await session.publish(publication({ output: [message("A")], deadLetters: [message("D")], acknowledgedInput: 1n }));
    // Each owner begins a segment; the files of old ones are closed.
    for (let owners = 0; owners < 40; owners += 1) await (await openOn(memory, SHARED)).open(0, "another");
    const late = await openOn(pausing.disk, SHARED);
    await (await late.open(0, "late")).close();
    pausing.pauseAt = pausing.calls + pauseAt;
    const again = late.open(0, "late").then(
      () => "open" as const,
      (thrown: unknown) => toConcordError(thrown).code,
    );
    await Promise.race([pausing.paused.promise, again]);
    const isOver = pausing.calls < pausing.pauseAt;
    const two = await openOn(memory, SHARED);
    await two.open(0, "two");
    pausing.resume();
    const outcome = await again;
    assert.ok(outcome === "open" || outcome === "NOT_OWNER", `call ${pauseAt}: ${outcome}`);
    for (const each of [late, two]) await each.close();
    if (isOver) break;
  }
});
