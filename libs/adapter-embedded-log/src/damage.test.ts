// One damaged byte costs what it hit: processed input is passed over, any other journal stops its partition alone (I9).
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk } from "@concord/port-contracts";
import type { LogMessage, LogTopic, MessageLog } from "@concord/ports";
import { message, openOn, publication, valuesOf } from "./test/memory-log.ts";

const HEADER_BYTES = 64;
const MESSAGES = ["a", "b", "c", "d"];

/** A record a message; each of the first `processed` is published by a record of its own. */
async function logWith(processed: number): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  for (const partition of [0, 1]) {
    const session = await log.open(partition, "owner");
    for (const name of MESSAGES) await log.append(partition, [message(name)]);
    for (let at = 0; at < processed; at += 1)
      await session.publish(publication({ output: [message(`${MESSAGES[at]!}!`)], acknowledgedInput: BigInt(at + 1) }));
  }
  await log.close();
  return disk;
}

function pathOf(disk: MemoryDisk, topic: LogTopic): string {
  return [...disk.files.contents().keys()].find((name) => name.includes(`partition-0000/${topic}/`))!;
}

async function flip(disk: MemoryDisk, path: string, at: number): Promise<void> {
  const file = (await disk.open(path))!;
  await file.write(at, [Uint8Array.of((await file.read(at, 1))[0]! ^ 4)]);
  await file.sync();
  await file.close();
}

/** Nothing else may come of damage. */
function isCorrupt(thrown: unknown): undefined {
  assert.equal((thrown as { readonly code?: string }).code, "CORRUPT_DATA");
}

/** A place in the record that holds the value. */
function placeOf(disk: MemoryDisk, topic: LogTopic, value: string): number {
  return Buffer.from(disk.files.contents().get(pathOf(disk, topic))!).indexOf(value, HEADER_BYTES);
}

async function inputBehind(log: MessageLog, from: bigint): Promise<readonly (readonly [bigint, string])[]> {
  const { messages } = await log.read("input", 0, from, { messages: 100, bytes: 10_000 });
  return messages.map(({ offset, value }: LogMessage) => [offset, new TextDecoder().decode(value)]);
}

test("damage: any byte of input that is processed flips: all partitions serve, nothing processed comes again, new input goes behind it", async () => {
  const { length } = (await logWith(4)).files.contents().get(pathOf(await logWith(4), "input"))!;
  for (let at = HEADER_BYTES; at < length; at += 1) {
    const disk = await logWith(4);
    await flip(disk, pathOf(disk, "input"), at);
    const reports: string[] = [];
    const note = (text: string): void => void reports.push(text);
    const log = await openOn(disk, { log: { debug: () => undefined, info: () => undefined, warn: note, error: note } });
    assert.ok(reports.includes("journal damaged in records that are processed: passed over"), `byte ${at}: ${reports.join("; ")}`);
    for (const partition of [0, 1]) assert.equal((await log.open(partition, "owner")).acknowledgedInput, 4n, `byte ${at}`);
    assert.deepEqual(await log.append(0, [message("e")]), { from: 4n });
    await log.close();
    const again = await openOn(disk);
    await again.open(0, "owner");
    assert.deepEqual(await again.append(0, [message("f")]), { from: 5n });
    assert.deepEqual(await inputBehind(again, 4n), [
      [4n, "e"],
      [5n, "f"],
    ]);
    assert.deepEqual(await valuesOf(again, "output"), ["a!", "b!", "c!", "d!"]);
    await again.close();
  }
});

test("damage: processed input flips and more waits behind it, in the same segment or the next: what waits is processed", async () => {
  for (const limits of [{}, { segmentBytes: 150 }]) {
    const disk = await logWith(0);
    const log = await openOn(disk, { limits });
    for (const name of ["e", "f"]) await log.append(0, [message(name)]);
    await (await log.open(0, "owner")).publish(publication({ output: [message("!")], acknowledgedInput: 2n }));
    await log.close();
    await flip(disk, pathOf(disk, "input"), placeOf(disk, "input", "b"));
    const again = await openOn(disk, { limits });
    const { acknowledgedInput } = await again.open(0, "owner");
    assert.deepEqual(
      (await inputBehind(again, acknowledgedInput)).map(([, value]) => value),
      ["c", "d", "e", "f"],
    );
  }
});

test("damage: input that waits to be processed: its partition alone is refused, its output is read, no byte changes", async () => {
  const disk = await logWith(1);
  await flip(disk, pathOf(disk, "input"), placeOf(disk, "input", "c"));
  const before = disk.files.contents();
  for (const _ of [1, 2]) {
    const log = await openOn(disk);
    await assert.rejects(log.open(0, "owner"), { code: "CORRUPT_DATA", applied: "no", message: /partition 0 [^]*concord repair/ });
    await assert.rejects(log.append(0, [message("x")]), { code: "CORRUPT_DATA", applied: "no" });
    assert.deepEqual(await valuesOf(log, "output"), ["a!"]);
    assert.equal((await log.open(1, "owner")).acknowledgedInput, 1n);
    await log.close();
  }
  const ofFirst = (files: ReturnType<typeof disk.files.contents>) => [...files].filter(([path]) => path.includes("partition-0000/input"));
  assert.deepEqual(ofFirst(disk.files.contents()), ofFirst(before));
});

test("[SEC6] damage: a record of the output: its partition alone is refused; offsets around the hole are read, those in it are answered with where to go on", async () => {
  const disk = await logWith(4);
  await flip(disk, pathOf(disk, "output"), placeOf(disk, "output", "b!"));
  const log = await openOn(disk);
  await assert.rejects(log.open(0, "owner"), { code: "CORRUPT_DATA" });
  await log.open(1, "owner");
  await log.append(1, [message("e")]);
  const limits = { messages: 100, bytes: 10_000 };
  const before = await log.read("output", 0, 0n, limits);
  assert.deepEqual([before.messages.length, before.next], [1, 1n]);
  await assert.rejects(log.read("output", 0, 1n, limits), { code: "CORRUPT_DATA", metadata: { from: "1", soundFrom: "2" } });
  assert.equal((await log.read("output", 0, 2n, limits)).messages.length, 2);
});

test("[SEC6] damage: every byte of input and output, changed in turn: a message is read as it was written, or CORRUPT_DATA is the answer", async () => {
  const [sound, written] = [await logWith(2), { input: MESSAGES, output: ["a!", "b!"] }];
  for (const topic of ["input", "output"] as const) {
    const bytes = Buffer.from(sound.files.contents().get(pathOf(sound, topic))!).findLastIndex((byte) => byte !== 0) + 1;
    let refusals = 0;
    for (let at = 0; at < bytes; at += 1) {
      const disk = await logWith(2);
      await flip(disk, pathOf(disk, topic), at);
      const log = await openOn(disk);
      await log.open(0, "owner").catch(isCorrupt);
      for (let offset = 0; offset < written[topic].length; offset += 1) {
        const page = await log.read(topic, 0, BigInt(offset), { messages: 1, bytes: 1_000 }).catch(isCorrupt);
        if (page === undefined) refusals += 1;
        // Input that was processed is passed over: the next one is found then.
        for (const { offset: found, value } of page?.messages ?? [])
          assert.equal(new TextDecoder().decode(value), written[topic][Number(found)], `byte ${at} of ${topic}`);
      }
      await log.close();
    }
    assert.ok(refusals > 0, topic);
  }
});

test("damage: the header of a partition's only segment: that partition alone is refused, and opened once it is whole again", async () => {
  const disk = await logWith(4);
  const path = pathOf(disk, "output");
  await flip(disk, path, 3);
  const log = await openOn(disk);
  await assert.rejects(log.open(0, "owner"), { code: "CORRUPT_DATA", message: /partition 0 is not served/ });
  for (const act of [log.append(0, [message("x")]), log.bounds("output", 0), log.read("output", 0, 0n, { messages: 1, bytes: 1 })])
    await assert.rejects(act, { code: "CORRUPT_DATA", applied: "no" });
  assert.deepEqual(await valuesOf(log, "output", 1), ["a!", "b!", "c!", "d!"]);
  await flip(disk, path, 3);
  assert.equal((await log.open(0, "owner")).acknowledgedInput, 4n);
  assert.deepEqual(await valuesOf(log, "output"), ["a!", "b!", "c!", "d!"]);
});
