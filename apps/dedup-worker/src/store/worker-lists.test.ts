// Where versions of the list of workers are kept: one contract for a shared folder and for a topic.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import type { KafkaRecords } from "@concord/adapter-kafka";
import { MemoryDisk } from "@concord/port-contracts";
import { ConcordError, type Random } from "@concord/runtime";
import { FolderLists } from "./folder-lists.ts";
import { KafkaLists } from "./kafka-lists.ts";
import { foundingWorkers, type WorkerList, type WorkerLists } from "./worker-list.ts";

const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
const FOUNDING = foundingWorkers(
  ["a", "b"].map((name) => ({ name, datacenter: "d", address: `${name}:1` })),
  2,
  undefined,
);
const versionOf = (version: number, address = "a:1"): WorkerList => {
  const [first, second] = FOUNDING.members;
  return { ...FOUNDING, version, members: [{ ...first!, address }, second!] };
};

/** Records in one order, as a topic has them. */
class Topic {
  readonly records: Uint8Array[] = [];
  /** The next record gets there, its answer does not. */
  isLossy = false;

  reader(): KafkaRecords {
    let next = 0;
    return {
      readOn: async (take) => {
        const end = this.records.length;
        for (; next < end; next += 1) take(this.records[next]!);
      },
      append: async (record) => {
        this.records.push(record);
        if (this.isLossy) throw new ConcordError("CONNECTION_LOST", "no answer");
      },
      close: async () => {},
    };
  }
}

interface Subject {
  /** As one worker has it. */
  open(): WorkerLists;
  cutPower(): void;
}

function folder(): Subject {
  const disk = new MemoryDisk();
  let drawn = 0;
  const random: Random = { bytes: (length) => new Uint8Array(length).fill((drawn += 1)), below: () => 0, float: () => 0 };
  return { open: () => new FolderLists({ disk, checksum, random }), cutPower: () => disk.crash() };
}

function topic(): Subject {
  const records = new Topic();
  return { open: () => new KafkaLists(records.reader(), checksum), cutPower: () => undefined };
}

for (const [where, subject] of Object.entries({ folder, topic })) {
  test(`[TX32] stored lists, ${where}: none; the newest that was written, also for who opens it later, after a power cut`, async () => {
    const { open, cutPower } = subject();
    const [one, other] = [open(), open()];
    assert.equal(await one.read(), undefined);
    assert.equal(await one.write(versionOf(1)), true);
    assert.equal(await other.write(versionOf(2)), true);
    assert.deepEqual([await one.read(), await other.read()], [versionOf(2), versionOf(2)]);
    cutPower();
    assert.deepEqual(await open().read(), versionOf(2));
  });

  test(`[TX32] stored lists, ${where}: two workers write one version: the first one's counts everywhere, the second is refused`, async () => {
    const { open } = subject();
    const [one, other, third] = [open(), open(), open()];
    const written = await Promise.all([one.write(versionOf(1, "x:1")), other.write(versionOf(1, "y:1"))]);
    assert.notEqual(written[0], written[1]);
    const list = versionOf(1, written[0] ? "x:1" : "y:1");
    for (const worker of [one, other, third]) assert.deepEqual(await worker.read(), list);
    assert.equal(await third.write(versionOf(1, "z:1")), false);
    assert.deepEqual(await third.read(), list);
  });
}

test("[TX32] stored lists, topic: the record is there though its answer was lost: its writer does not know, all read it", async () => {
  const records = new Topic();
  const [one, other] = [0, 1].map(() => new KafkaLists(records.reader(), checksum));
  records.isLossy = true;
  await assert.rejects(one!.write(versionOf(1)), { code: "CONNECTION_LOST" });
  assert.deepEqual([await one!.read(), await other!.read()], [versionOf(1), versionOf(1)]);
});

test("[TX32] stored lists, topic: a version that leaves one out counts for nothing", async () => {
  const records = new Topic();
  const lists = new KafkaLists(records.reader(), checksum);
  assert.equal(await lists.write(versionOf(2)), false);
  assert.equal(await lists.read(), undefined);
});

test("[TX32] stored lists, folder: a draft that never got its name, or one without content", async () => {
  const disk = new MemoryDisk();
  const random: Random = { bytes: (length) => new Uint8Array(length), below: () => 0, float: () => 0 };
  const lists = new FolderLists({ disk, checksum, random });
  await disk.makeFolder("workers/draft-0000000000000000");
  assert.equal(await lists.read(), undefined);
  const named = { code: "CORRUPT_DATA", message: /^workers\/list-00000001 .*remove that folder/ };
  await disk.makeFolder("workers/list-00000001");
  await assert.rejects(lists.read(), named);
  const file = await disk.create("workers/list-00000001/list");
  assert.ok(file !== "exists");
  await file.write(0, [Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)]);
  await file.close();
  await assert.rejects(lists.read(), named);
});
