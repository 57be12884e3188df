// Crashes, failed syncs and full disks: what was answered holds, a publication is whole or absent.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { KEEP_UNSYNCED, LOSE_UNSYNCED, MemoryDisk } from "@concord/port-contracts";
import type { MessageLog, PublishOutcome } from "@concord/ports";
import { message, openOn, processOn, publication, settle, valuesOf } from "./test/memory-log.ts";

/** A publication that touches everything: output, dead letters, and the other partition's input. */
const full = (name: string, acknowledgedInput: bigint) =>
  publication({
    output: [message(`${name}.1`), message(`${name}.2`)],
    deadLetters: [message(`${name}.dead`)],
    rerouted: [
      { partition: 1, message: message(`${name}.there`) },
      { partition: 0, message: message(`${name}.here`) },
    ],
    acknowledgedInput,
  });

/** Which publications are there; fails when one is there in part, twice, or out of order. */
async function publicationsIn(log: MessageLog): Promise<string[]> {
  const names = (values: readonly string[], part: string): string[] =>
    values.filter((value) => value.endsWith(`.${part}`)).map((value) => value.slice(0, -part.length - 1));
  const output = await valuesOf(log, "output");
  const found = names(output, "1");
  assert.deepEqual(names(output, "2"), found);
  assert.deepEqual(names(await valuesOf(log, "dead-letters"), "dead"), found);
  assert.deepEqual(names(await valuesOf(log, "input", 1), "there"), found);
  assert.deepEqual(names(await valuesOf(log, "input", 0), "here"), found);
  return found;
}

const POINTS = [
  "journal:group-writing",
  "journal:group-synced",
  "log:output-written",
  "log:dead-letters-written",
  "log:rerouted-written",
  "log:input-appended",
  "log:published",
];

for (const point of POINTS) {
  test(`[DD16] [DDD1] crash at ${point}: every pass of it: the publication is whole or absent, and acknowledged if and only if it is there`, async () => {
    let isPassed = false;
    for (const chooser of [LOSE_UNSYNCED, KEEP_UNSYNCED]) {
      for (let pass = 1; pass <= 8; pass += 1) {
        const disk = new MemoryDisk();
        const own = processOn(disk);
        let passes = 0;
        let armed = false;
        const failpoint = (name: string): void => {
          if (armed && name === point && (passes += 1) === pass) own.die();
        };
        const log = await openOn(own.disk, { failpoint });
        const { from } = await log.append(0, [message("x"), message("y")]);
        const session = await log.open(0, "owner");
        await session.publish(full("a", from + 1n));
        armed = true;
        let outcome: PublishOutcome | undefined;
        void session.publish(full("b", from + 2n)).then((answer) => (outcome = answer));
        await settle();
        disk.crash(chooser);
        isPassed ||= passes >= pass;
        const again = await openOn(disk);
        const found = await publicationsIn(again);
        const next = await again.open(0, "next");
        assert.equal(next.acknowledgedInput, from + BigInt(found.length));
        if (outcome?.kind === "published") assert.deepEqual(found, ["a", "b"]);
        assert.equal((await next.publish(full("c", from + 2n))).kind, "published");
        assert.deepEqual(await publicationsIn(again), [...found, "c"]);
      }
    }
    assert.ok(isPassed, "the point was passed");
  });
}

test("crash while recovering: every pass of every point: nothing is written twice", async () => {
  for (let pass = 1; pass <= 6; pass += 1) {
    const disk = new MemoryDisk();
    const own = processOn(disk);
    const log = await openOn(own.disk, { failpoint: (name) => name === "log:output-written" && own.die() });
    const session = await log.open(0, "owner");
    void session.publish(full("a", 0n));
    await settle();
    disk.crash();
    const second = processOn(disk);
    let passes = 0;
    const counting = (name: string): void => {
      if (name.startsWith("log:") && (passes += 1) === pass) second.die();
    };
    void openOn(second.disk, { failpoint: counting });
    await settle();
    disk.crash(KEEP_UNSYNCED);
    assert.deepEqual(await publicationsIn(await openOn(disk)), ["a"]);
  }
});

for (const [what, syncs] of [
  ["the output", 0],
  ["the dead letters", 1],
  ["the other input", 2],
] as const) {
  test(`[DDD5] failed sync of ${what}: unknown, further publishes too; the next session finds it whole or absent`, async () => {
    for (const chooser of [undefined, LOSE_UNSYNCED]) {
      const disk = new MemoryDisk();
      const own = processOn(disk);
      let seen = 0;
      let armed = false;
      const log = await openOn(own.disk, {
        failpoint: (name) => {
          if (armed && name === "journal:group-writing" && (seen += 1) === syncs + 1) disk.files.failNextSync();
        },
      });
      const session = await log.open(0, "owner");
      await session.publish(full("a", 0n));
      armed = true;
      assert.equal((await session.publish(full("b", 0n))).kind, "unknown");
      assert.equal((await session.publish(publication({ output: [message("late")] }))).kind, "unknown");
      // Nothing of it is visible before all of it is in place (I3).
      assert.deepEqual(await valuesOf(log, "output"), ["a.1", "a.2"]);
      if (chooser !== undefined) {
        own.die();
        disk.crash(chooser);
      }
      const next = chooser === undefined ? log : await openOn(disk);
      const fresh = await next.open(0, "next");
      const found = await publicationsIn(next);
      assert.ok(found[0] === "a" && found.length <= 2);
      if (syncs > 0) assert.deepEqual(found, ["a", "b"]);
      assert.equal((await fresh.publish(full("c", 0n))).kind, "published");
      assert.deepEqual(await publicationsIn(next), [...found, "c"]);
      disk.crash();
      assert.deepEqual(await publicationsIn(await openOn(disk)), [...found, "c"]);
    }
  });
}

test("failed sync of an append: unknown; decided at once, appends and readers go on", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  await log.append(0, [message("a")]);
  disk.files.failNextSync();
  await assert.rejects(log.append(0, [message("b")]), { code: "STORE_FAILED", applied: "unknown" });
  const { end } = await log.bounds("input", 0);
  assert.deepEqual(await log.append(0, [message("c")]), { from: end });
  const values = await valuesOf(log, "input");
  assert.ok(values.join() === "a,b,c" || values.join() === "a,c");
  disk.crash();
  assert.deepEqual(await valuesOf(await openOn(disk), "input"), values);
});

test("failed sync of an append, and of opening its journal again: unknown; the next append tries again", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  disk.files.failNextSync();
  disk.files.failNextSync();
  await assert.rejects(log.append(0, [message("a")]), { code: "STORE_FAILED", applied: "unknown" });
  await log.append(0, [message("b")]);
  assert.equal((await valuesOf(log, "input")).at(-1), "b");
});

test("full disk: append refused with applied no; publish unknown, nothing of it there; both go on with room again", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  await log.append(0, [message("a")]);
  const session = await log.open(0, "owner");
  disk.files.capacityBytes = disk.files.usedBytes + 20;
  await assert.rejects(log.append(0, [message("b")]), { code: "STORAGE_FULL", applied: "no" });
  assert.equal((await session.publish(full("lost", 1n))).kind, "unknown");
  disk.files.clearFaults();
  const next = await log.open(0, "owner");
  assert.equal(next.acknowledgedInput, 0n);
  assert.equal((await next.publish(full("p", 1n))).kind, "published");
  await log.append(0, [message("c")]);
  assert.deepEqual(await publicationsIn(log), ["p"]);
  disk.crash();
  assert.deepEqual(await publicationsIn(await openOn(disk)), ["p"]);
});

test("corrupt journal: its partition is refused at each opening, loudly; the bytes are kept", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  for (const name of ["a", "b", "c"]) await log.append(0, [message(name)]);
  const path = "log/partition-0000/input/0000000000000001.journal";
  const file = await disk.open(path);
  assert.ok(file !== undefined);
  await file.write(80, [Uint8Array.of(255)]);
  await file.sync();
  const bytes = disk.files.contents().get(path);
  for (const _ of [1, 2]) await assert.rejects((await openOn(disk)).open(0, "owner"), { code: "CORRUPT_DATA" });
  assert.deepEqual(disk.files.contents().get(path), bytes);
});

interface Step {
  readonly kind: "append" | "publish" | "reopen" | "crash" | "kill" | "fail-sync";
  readonly turns: number;
  readonly percents: readonly number[];
}

const steps = fc.array(
  fc.record<Step>({
    kind: fc.constantFrom("append", "append", "publish", "publish", "publish", "reopen", "crash", "kill", "fail-sync"),
    turns: fc.nat({ max: 150 }),
    percents: fc.array(fc.nat({ max: 100 }), { minLength: 1, maxLength: 9 }),
  }),
  { maxLength: 25, size: "max" },
);

test("random appends, publications, owners, failed syncs and crashes: answers hold, publications are whole, once, in order", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const disk = new MemoryDisk();
      let own = processOn(disk);
      const limits = { segmentBytes: 600, inputBytes: 100_000 };
      const open = (): Promise<MessageLog> => openOn(own.disk, { limits, retention: { inputBytes: 10_000 } });
      let log = await open();
      let session = await log.open(0, "owner");
      const [appended, published] = [new Set<string>(), new Set<string>()];
      let number = 0;
      for (const { kind, turns, percents } of script) {
        const name = String((number += 1)).padStart(4, "0");
        if (kind === "append")
          void log.append(0, [message(`in${name}`)]).then(
            () => appended.add(`in${name}`),
            () => undefined,
          );
        if (kind === "publish") {
          const { end } = await log.bounds("input", 0);
          const offset = end > session.acknowledgedInput ? end : session.acknowledgedInput;
          void session.publish(full(name, offset)).then(
            (outcome) => outcome.kind === "published" && published.add(name),
            () => undefined,
          );
        }
        if (kind === "fail-sync") disk.files.failNextSync();
        for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
        if (kind === "crash" || kind === "kill") {
          own.die();
          let drawn = 0;
          const draw = (): number => percents[(drawn += 1) % percents.length]! / 100;
          if (kind === "crash") disk.crash(({ length }) => Math.round(Math.max(0, Math.min(1, draw() * 1.5 - 0.25)) * length));
          disk.files.clearFaults();
          own = processOn(disk);
          log = await open();
        }
        if (kind !== "append" && kind !== "publish") {
          disk.files.clearFaults();
          session = await log.open(0, "owner");
          const found = await publicationsIn(log);
          assert.deepEqual(found, [...found].sort());
          assert.equal(new Set(found).size, found.length);
          for (const each of published) assert.ok(found.includes(each), `published ${each} is absent`);
          const inputs = await valuesOf(log, "input");
          for (const each of appended) assert.ok(inputs.includes(each), `appended ${each} is absent`);
        }
      }
    }),
    { numRuns: 100 },
  );
});
