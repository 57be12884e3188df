import assert from "node:assert/strict";
import { test } from "node:test";
import {
  failedCases,
  KEEP_UNSYNCED,
  MemoryDisk,
  OBJECT_DATA_CASES,
  objectDataContract,
  referenceCrc32c as checksum,
  type CrashChooser,
  type ObjectDataSubject,
} from "@concord/port-contracts";
import { oidOf, type Oid, type BlobDescription } from "@concord/ports";
import { ConcordError, toHex, type Disk } from "@concord/runtime";
import { FilesystemObjectData } from "./filesystem-object-data.ts";
import { BLOCK_BYTES, HEADER_BYTES_MAX } from "./limits.ts";
import { random } from "./test/drawn.ts";

const DESCRIPTION: BlobDescription = { bucket: "b", key: "k", part: undefined, guid: 7n };
const points: string[] = [];
const dataOn = (disk: Disk): FilesystemObjectData =>
  new FilesystemObjectData({ disk, checksum, random, failpoint: (name) => void points.push(name) });

async function findPath(disk: Disk, oid: Oid): Promise<string> {
  for (const folder of ["pieces"])
    for (const epoch of await disk.list(folder))
      for (const group of await disk.list(`${folder}/${epoch.name}`))
        for (const file of await disk.list(`${folder}/${epoch.name}/${group.name}`))
          if (file.name === oid) return `${folder}/${epoch.name}/${group.name}/${oid}`;
  throw new Error(`${oid} is nowhere`);
}

/** Flips a bit of byte `at` of the data, which begins behind the header. */
async function damage(disk: Disk, oid: Oid, at: number): Promise<void> {
  const file = (await disk.open(await findPath(disk, oid)))!;
  const prefix = await file.read(0, 9);
  const headerBytes = 9 + new DataView(prefix.buffer, prefix.byteOffset).getUint32(5) + 4;
  const byte = await file.read(headerBytes + at, 1);
  await file.write(headerBytes + at, [Uint8Array.of(byte[0]! ^ 1)]);
  await file.close();
}

function inMemory(chooser?: CrashChooser): () => Promise<ObjectDataSubject> {
  return async () => {
    const disk = new MemoryDisk();
    return {
      data: dataOn(disk),
      checksum,
      crash: async () => {
        disk.crash(chooser);
        return dataOn(disk);
      },
      damage: (oid, at) => damage(disk, oid, at),
    };
  };
}

objectDataContract((name, run) => test(`memory disk: ${name}`, run), inMemory());
objectDataContract((name, run) => test(`memory disk that keeps all: ${name}`, run), inMemory(KEEP_UNSYNCED));

/** A disk that answers as `change` says. */
const changed = (disk: Disk, change: Partial<Disk>): Disk => ({
  create: disk.create,
  open: disk.open,
  list: disk.list,
  makeFolder: disk.makeFolder,
  syncFolder: disk.syncFolder,
  rename: disk.rename,
  remove: disk.remove,
  freeBytes: disk.freeBytes,
  ...change,
});

async function withoutSync(disk: Disk, path: string): ReturnType<Disk["create"]> {
  const file = await disk.create(path);
  if (file !== "exists") file.sync = async () => undefined;
  return file;
}

const UNSYNCED: Readonly<Record<string, (memory: MemoryDisk) => Disk>> = {
  "folder syncs left out": (memory) => changed(memory, { syncFolder: async () => undefined }),
  "file syncs left out": (memory) => changed(memory, { create: (path) => withoutSync(memory, path) }),
};

for (const [name, seed] of Object.entries(UNSYNCED)) {
  test(`[OGD6] seeded fault: ${name}: the contract finds it`, async () => {
    const failed = await failedCases(OBJECT_DATA_CASES, async () => {
      const memory = new MemoryDisk();
      const crash = async (): Promise<FilesystemObjectData> => {
        memory.crash();
        return dataOn(memory);
      };
      return { data: dataOn(seed(memory)), checksum, crash, damage: (oid, at) => damage(memory, oid, at) };
    });
    assert.ok(failed.includes("crash: after seal: sealed, listed, every byte there"), failed.join("; "));
  });
}

async function store(data: FilesystemObjectData, oid: Oid, bytes: Uint8Array): Promise<void> {
  const writer = await data.create(oid, DESCRIPTION);
  await writer.write(bytes);
  await writer.seal();
}

async function readAll(data: FilesystemObjectData, oid: Oid, offset: number, length: number): Promise<number> {
  let bytes = 0;
  for await (const chunk of data.read(oid, offset, length)) bytes += chunk.length;
  return bytes;
}

const hasCode = (code: string) => (thrown: unknown) => thrown instanceof ConcordError && thrown.code === code;

test("format 1: a blob with a part: exactly these bytes", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const writer = await data.create(oidOf(0x2a, 0xf), { bucket: "photos", key: "a/b", part: { uploadId: 5n, number: 3 }, guid: 9n });
  await writer.write(Uint8Array.of(1, 2, 3));
  await writer.seal();
  const files = disk.files.contents();
  assert.deepEqual([...files.keys()], ["pieces/0000002a/000000000/0000002a-00000000000f"]);
  assert.equal(
    toHex(files.get("pieces/0000002a/000000000/0000002a-00000000000f")!),
    "43504945010000002c0000002a000000000000000f0670686f746f7303612f62010000000000000005000000030000000000000009f0c5f14b" +
      "010203" +
      "f130f21e" +
      "43504945010000002c0000002a000000000000000f0670686f746f7303612f62010000000000000005000000030000000000000009f0c5f14b" +
      "43504954010000002a000000000000000f00000039000400000000000000000003f130f21e1c7a3257ee824ecf",
  );
});

test("format: a newer version, also of an unsealed blob: CORRUPT_DATA, not taken for an unfinished one", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  await store(data, oidOf(1, 1), Uint8Array.of(1));
  const path = await findPath(disk, oidOf(1, 1));
  const file = (await disk.open(path))!;
  const header = (await file.read(0, file.size)).subarray(0, 9 + 4 + new DataView((await file.read(5, 4)).buffer).getUint32(0));
  header[4] = 2;
  new DataView(header.buffer, header.byteOffset).setUint32(header.length - 4, checksum(header.subarray(0, -4)));
  await file.write(0, [header]);
  assert.equal((await data.inspect(oidOf(1, 1))).kind, "sealed");
  await file.truncate(header.length);
  await assert.rejects(data.inspect(oidOf(1, 1)), hasCode("CORRUPT_DATA"));
});

/** Any page may be missing after a power cut, also the first one of a blob whose last one is there. */
test("[OGD6] power cut: pages of an unsealed blob in any combination: never without a description while it looks sealed", async () => {
  for (let lost = 0; lost < 64; lost += 1) {
    const disk = new MemoryDisk();
    const writer = await dataOn(disk).create(oidOf(1, 1), DESCRIPTION);
    await writer.write(new Uint8Array(9_000).fill(7));
    // Everything is written, the sync fails: the machine goes down with it.
    disk.files.failNextSync();
    await assert.rejects(writer.seal());
    let page = 0;
    disk.crash(({ kind, length }) => (kind === "bytes" && (lost & (1 << page++)) !== 0 ? 0 : length));
    const data = dataOn(disk);
    const state = await data.inspect(oidOf(1, 1));
    if (state.kind === "sealed") assert.deepEqual(state.description, DESCRIPTION);
    if (lost === 0) assert.equal(state.kind, "sealed");
    const read = await readAll(data, oidOf(1, 1), 0, 9_000).catch((thrown: unknown) => (thrown as ConcordError).code);
    assert.ok(read === "CORRUPT_DATA" || (lost & 0b11110) === 0, `${lost}: ${read}`);
    assert.equal(await data.remove(oidOf(1, 1)), state.kind !== "absent");
  }
});

test("[SEC6] damage: every bit of a small file: never sealed with other bytes", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const oid = oidOf(1, 1);
  await store(data, oid, Uint8Array.of(1, 2, 3));
  const file = (await disk.open(await findPath(disk, oid)))!;
  const headerBytes = 9 + 4 + new DataView((await file.read(5, 4)).buffer).getUint32(0);
  const trailerBytes = headerBytes + 45;
  for (let at = 0; at < file.size; at += 1) {
    const [byte] = await file.read(at, 1);
    await file.write(at, [Uint8Array.of(byte! ^ 0x10)]);
    const outcome = await readAll(data, oid, 0, 3).then(
      () => "read",
      (thrown: unknown) => (thrown as ConcordError).code,
    );
    const state = await data.inspect(oid).then(
      (found) => found.kind,
      (thrown: unknown) => (thrown as ConcordError).code,
    );
    // The header is stored twice: one damaged copy does no harm.
    assert.ok(outcome === "CORRUPT_DATA" || (outcome === "read" && at < headerBytes), `byte ${at}: ${outcome}`);
    assert.equal(state === "sealed", at < file.size - trailerBytes, `byte ${at}: ${state}`);
    await file.write(at, [Uint8Array.of(byte!)]);
  }
  assert.equal(await readAll(data, oid, 0, 3), 3);
});

test("damage: a blob cut short at any place: CORRUPT_DATA, found as unfinished", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const oid = oidOf(1, 1);
  await store(data, oid, Uint8Array.of(1, 2, 3));
  const file = (await disk.open(await findPath(disk, oid)))!;
  for (let size = file.size - 1; size >= 0; size -= 1) {
    await file.truncate(size);
    await assert.rejects(readAll(data, oid, 0, 1), hasCode("CORRUPT_DATA"));
    assert.equal((await data.inspect(oid)).kind, "open");
  }
});

test("damage: a blob under another's name: CORRUPT_DATA", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  await store(data, oidOf(1, 1), Uint8Array.of(1));
  await disk.rename(await findPath(disk, oidOf(1, 1)), "pieces/00000001/000000000/00000001-000000000002");
  await assert.rejects(readAll(data, oidOf(1, 2), 0, 1), hasCode("CORRUPT_DATA"));
  await assert.rejects(data.inspect(oidOf(1, 2)), hasCode("CORRUPT_DATA"));
});

test("limits: a key that makes the header longer than its limit: LIMIT_EXCEEDED", async () => {
  const data = dataOn(new MemoryDisk());
  const fixture = HEADER_BYTES_MAX - 60;
  await (await data.create(oidOf(1, 1), { ...DESCRIPTION, key: "k".repeat(fixture) })).abandon();
  await assert.rejects(data.create(oidOf(1, 2), { ...DESCRIPTION, key: "k".repeat(HEADER_BYTES_MAX) }), hasCode("LIMIT_EXCEEDED"));
});

test("calls: a short blob: one write, one sync; a range reads its blocks only", async () => {
  const memory = new MemoryDisk();
  const calls: string[] = [];
  const disk = changed(memory, {
    create: async (path) => {
      const file = await memory.create(path);
      if (file === "exists") return file;
      const [write, sync] = [file.write.bind(file), file.sync.bind(file)];
      file.write = (offset, parts) => (calls.push("write"), write(offset, parts));
      file.sync = () => (calls.push("sync"), sync());
      return file;
    },
    open: async (path) => {
      const file = await memory.open(path);
      const read = file?.read.bind(file);
      if (file !== undefined) file.read = (offset, length) => (calls.push(`read ${length}`), read!(offset, length));
      return file;
    },
  });
  const data = dataOn(disk);
  await store(data, oidOf(1, 1), new Uint8Array(20_000));
  assert.deepEqual(calls, ["write", "sync"]);
  await store(data, oidOf(1, 2), new Uint8Array(10 * BLOCK_BYTES));
  calls.length = 0;
  assert.equal(await readAll(data, oidOf(1, 2), 5 * BLOCK_BYTES + 1, 10), 10);
  assert.deepEqual(calls, ["read 8192", `read ${BLOCK_BYTES}`]);
  calls.length = 0;
  assert.equal(await readAll(data, oidOf(1, 1), 5, 10), 10);
  assert.equal(calls.length, 1);
});

test("seals at once: they share syncs of their folder", async () => {
  const memory = new MemoryDisk();
  let syncs = 0;
  const data = dataOn(changed(memory, { syncFolder: (folder) => ((syncs += 1), memory.syncFolder(folder)) }));
  const writers = await Promise.all(Array.from({ length: 50 }, (_, at) => data.create(oidOf(1, at), DESCRIPTION)));
  await Promise.all(writers.map((writer) => writer.seal()));
  assert.ok(syncs <= 3, `${syncs} syncs`);
});

test("[OGD8] seal: no folder can be synced: refused, and the process must end", async () => {
  const memory = new MemoryDisk();
  await store(dataOn(memory), oidOf(1, 1), Uint8Array.of(1));
  const failures: ConcordError[] = [];
  const data = new FilesystemObjectData({
    disk: changed(memory, { syncFolder: () => Promise.reject(new ConcordError("STORE_FAILED", "EIO")) }),
    checksum,
    random,
    failpoint: () => undefined,
    onFailed: (cause) => failures.push(cause),
  });
  await assert.rejects(store(data, oidOf(1, 2), Uint8Array.of(1)), hasCode("STORE_FAILED"));
  assert.ok(failures.length > 0);
});

test("[OGD8] seal: the file's sync fails: refused, the blob cannot be sealed again", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const writer = await data.create(oidOf(1, 1), DESCRIPTION);
  disk.files.failNextSync();
  await assert.rejects(writer.seal(), hasCode("STORE_FAILED"));
  await assert.rejects(writer.seal());
});

test("full disk: STORAGE_FULL, the blob is not sealed and can be removed", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const writer = await data.create(oidOf(1, 1), DESCRIPTION);
  disk.files.capacityBytes = 1000;
  await assert.rejects(writer.write(new Uint8Array(2_000_000)), hasCode("STORAGE_FULL"));
  await assert.rejects(writer.seal(), hasCode("STORE_FAILED"));
  await writer.abandon();
  assert.equal((await data.inspect(oidOf(1, 1))).kind, "open");
  assert.equal(await data.remove(oidOf(1, 1)), true);
});

test("failpoints: a blob's life: in order", async () => {
  points.length = 0;
  const data = dataOn(new MemoryDisk());
  await store(data, oidOf(1, 1), Uint8Array.of(1));
  await data.remove(oidOf(1, 1));
  assert.deepEqual(points, ["piece:created", "piece:written", "piece:synced", "piece:sealed", "piece:removed"]);
});

test("remove: done by a process that was killed before its sync: the next remove makes it durable", async () => {
  const disk = new MemoryDisk();
  await store(dataOn(disk), oidOf(1, 1), Uint8Array.of(1));
  await disk.remove(await findPath(disk, oidOf(1, 1)));
  assert.equal(await dataOn(disk).remove(oidOf(1, 1)), false);
  disk.crash();
  assert.equal((await dataOn(disk).inspect(oidOf(1, 1))).kind, "absent");
});

/** The rename can come between any two calls of a gateway that was paused there (OGD3): after each, one pause is tried. */
test("[OGD3] close between any two calls of a zombie: no blob appears afterwards, none is sealed unseen", async () => {
  const oid = oidOf(3, 1);
  for (let pauseAt = 0; ; pauseAt += 1) {
    const memory = new MemoryDisk();
    const adopter = dataOn(memory);
    let calls = 0;
    let found: string | undefined;
    const step = async <Answer>(act: () => Promise<Answer>): Promise<Answer> => {
      if (calls === pauseAt && found === undefined) {
        await adopter.closeEpoch(3);
        const listed = await adopter.list({ epoch: 3, fromSequence: 0, limit: 10 });
        const state = await adopter.inspect(oid);
        found =
          listed.length === 0
            ? "none"
            : state.kind === "absent" || (state.kind === "open" && state.description === undefined)
              ? "bare"
              : "described";
      }
      calls += 1;
      return await act();
    };
    const zombie = dataOn({
      create: (path) =>
        step(async () => {
          const file = await memory.create(path);
          if (file === "exists") return file;
          const [write, sync] = [file.write.bind(file), file.sync.bind(file)];
          file.write = (offset, parts) => step(() => write(offset, parts));
          file.sync = () => step(sync);
          return file;
        }),
      open: (path) => step(() => memory.open(path)),
      list: (folder) => step(() => memory.list(folder)),
      makeFolder: (folder) => step(() => memory.makeFolder(folder)),
      syncFolder: (folder) => step(() => memory.syncFolder(folder)),
      rename: (from, to) => step(() => memory.rename(from, to)),
      remove: (path) => step(() => memory.remove(path)),
      freeBytes: memory.freeBytes,
    });
    const answer = await store(zombie, oid, Uint8Array.of(1, 2)).then(
      () => "sealed",
      (thrown: unknown) => (thrown as ConcordError).code,
    );
    if (found === undefined) {
      assert.ok(pauseAt > 5, `${pauseAt} calls`);
      assert.equal(answer, "sealed");
      return;
    }
    const listed = await adopter.list({ epoch: 3, fromSequence: 0, limit: 10 });
    if (found === "none") assert.deepEqual(listed, [], `pause ${pauseAt}: a blob appeared after the close`);
    if (found !== "described") assert.equal(answer, "EPOCH_FENCED", `pause ${pauseAt}: sealed, and seen as ${found}`);
    assert.ok(answer === "sealed" || answer === "EPOCH_FENCED", `pause ${pauseAt}: ${answer}`);
    await assert.rejects(dataOn(memory).create(oidOf(3, 2), DESCRIPTION), hasCode("EPOCH_FENCED"));
  }
});

test("[OGD3] two closers and a creator at once: one closed folder, the creator refused or found", async () => {
  const disk = new MemoryDisk();
  const [first, second, creator] = [dataOn(disk), dataOn(disk), dataOn(disk)];
  const created = creator.create(oidOf(3, 1), DESCRIPTION).then(
    () => true,
    (thrown: unknown) => (hasCode("EPOCH_FENCED")(thrown) ? false : Promise.reject(thrown as Error)),
  );
  await Promise.all([first.closeEpoch(3), second.closeEpoch(3)]);
  const made = await created;
  assert.equal((await first.list({ epoch: 3, fromSequence: 0, limit: 10 })).length, made ? 1 : 0);
  await assert.rejects(creator.create(oidOf(3, 2), DESCRIPTION), hasCode("EPOCH_FENCED"));
});
