import assert from "node:assert/strict";
import { test } from "node:test";
import {
  KEEP_UNSYNCED,
  MemoryDisk,
  objectDataContract,
  referenceCrc32c as checksum,
  type CrashChooser,
  type ObjectDataSubject,
} from "@concord/port-contracts";
import { oidOf, parseOid, type Oid, type BlobDescription } from "@concord/ports";
import { ConcordError, silentLog, toHex, type Disk } from "@concord/runtime";
import { FilesystemObjectData, type FilesystemOptions } from "./filesystem-object-data.ts";
import { BLOBS_PER_FOLDER, PACK_BYTES_MAX } from "./limits.ts";
import { NEEDLE_PREFIX_BYTES } from "./needle-format.ts";
import { random } from "./test/drawn.ts";

const DESCRIPTION: BlobDescription = { bucket: "b", key: "k", part: undefined, guid: 7n };
const points: string[] = [];
const packing = (disk: Disk, options: Partial<FilesystemOptions> = {}): FilesystemObjectData =>
  new FilesystemObjectData({
    disk,
    checksum,
    random,
    failpoint: (name) => void points.push(name),
    packBytesMax: PACK_BYTES_MAX,
    ...options,
  });

/** The segment that holds a needle of the blob, and where its data begins. */
async function findData(disk: MemoryDisk, oid: Oid): Promise<{ path: string; at: number }> {
  const { epoch, sequence } = parseOid(oid);
  for (const [path, bytes] of disk.files.contents()) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (path.endsWith(oid)) return { path, at: 13 + view.getUint32(5) };
    if (!path.includes("/seg-")) continue;
    for (let at = 0; at + NEEDLE_PREFIX_BYTES < bytes.length; at += NEEDLE_PREFIX_BYTES + view.getUint32(at + 25))
      if (view.getUint32(at + 5) === epoch && Number(view.getBigUint64(at + 9)) === sequence)
        return { path, at: at + NEEDLE_PREFIX_BYTES + 13 + view.getUint32(at + NEEDLE_PREFIX_BYTES + 5) };
  }
  throw new Error(`${oid} is nowhere`);
}

async function flip(disk: Disk, path: string, at: number): Promise<void> {
  const file = (await disk.open(path))!;
  const byte = await file.read(at, 1);
  await file.write(at, [Uint8Array.of(byte[0]! ^ 1)]);
  await file.close();
}

async function damage(disk: MemoryDisk, oid: Oid, at: number): Promise<void> {
  const found = await findData(disk, oid);
  await flip(disk, found.path, found.at + at);
}

function inMemory(options: Partial<FilesystemOptions>, chooser?: CrashChooser): () => Promise<ObjectDataSubject> {
  return async () => {
    const disk = new MemoryDisk();
    return {
      data: packing(disk, options),
      checksum,
      crash: async () => {
        disk.crash(chooser);
        return packing(disk, options);
      },
      damage: (oid, at) => damage(disk, oid, at),
    };
  };
}

const VARIANTS: Readonly<Record<string, Partial<FilesystemOptions>>> = {
  packed: {},
  "packed up to 250 000 bytes": { packBytesMax: 250_000 },
  "packed, small segments": { segmentBytes: 100_000 },
  "packed while there is room": { packBufferBytesMax: 25_000 },
};
for (const [name, options] of Object.entries(VARIANTS)) {
  objectDataContract((title, run) => test(`${name}: ${title}`, run), inMemory(options));
  objectDataContract((title, run) => test(`${name}, disk that keeps all: ${title}`, run), inMemory(options, KEEP_UNSYNCED));
}

async function store(data: FilesystemObjectData, oid: Oid, bytes: Uint8Array): Promise<void> {
  const writer = await data.create(oid, DESCRIPTION);
  await writer.write(bytes);
  await writer.seal();
}

async function bytesOf(data: FilesystemObjectData, oid: Oid, length: number): Promise<Uint8Array> {
  const whole = new Uint8Array(length);
  let at = 0;
  for await (const chunk of data.read(oid, 0, length)) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

const hasCode = (code: string) => (thrown: unknown) => thrown instanceof ConcordError && thrown.code === code;
const segments = (disk: MemoryDisk): string[] => [...disk.files.contents().keys()].filter((path) => path.includes("/seg-"));
const filled = (length: number, seed: number): Uint8Array => Uint8Array.from({ length }, (_, at) => (at * 7 + (at >> 8) + seed * 13) & 255);

test("[OGD14] medium blobs: many uploads at once: one write and one sync of one segment, longer ones files of their own", async () => {
  const memory = new MemoryDisk();
  const calls: string[] = [];
  const disk: Disk = {
    ...stepped(memory, (act) => act()),
    create: async (path) => {
      const file = await memory.create(path);
      if (file === "exists") return file;
      const [write, sync] = [file.write.bind(file), file.sync.bind(file)];
      file.write = (offset, parts) => (calls.push(`write ${path}`), write(offset, parts));
      file.sync = () => (calls.push(`sync ${path}`), sync());
      return file;
    },
  };
  const data = packing(disk);
  const writers = await Promise.all(Array.from({ length: 50 }, (_, at) => data.create(oidOf(1, at), DESCRIPTION)));
  await Promise.all(writers.map((writer, at) => writer.write(filled(20_000, at))));
  assert.deepEqual(calls, []);
  await Promise.all(writers.map((writer) => writer.seal()));
  const segment = "pieces/00000001/packed/seg-00000000";
  assert.deepEqual(calls, [`write ${segment}`, `sync ${segment}`]);
  for (let at = 0; at < 50; at += 1) assert.deepEqual(await bytesOf(data, oidOf(1, at), 20_000), filled(20_000, at));
  await store(data, oidOf(1, 50), filled(PACK_BYTES_MAX, 1));
  assert.equal((await findData(memory, oidOf(1, 50))).path, segment);
  await store(data, oidOf(1, 51), filled(PACK_BYTES_MAX + 1, 1));
  assert.equal((await findData(memory, oidOf(1, 51))).path, "pieces/00000001/000000000/00000001-000000000033");
});

test("format 1: a needle, a removal, the bounds: exactly these bytes", async () => {
  const disk = new MemoryDisk();
  const data = packing(disk);
  const writer = await data.create(oidOf(0x2a, 0xf), { bucket: "photos", key: "a/b", part: { uploadId: 5n, number: 3 }, guid: 9n });
  await writer.write(Uint8Array.of(1, 2, 3));
  await writer.seal();
  await store(data, oidOf(0x2a, 0x10), new Uint8Array());
  await data.remove(oidOf(0x2a, 0x10));
  await data.closeEpoch(0x2a);
  const folder = "pieces/0000002a.closed";
  const files = disk.files.contents();
  const header = "43504945010000002c0000002a000000000000000f0670686f746f7303612f62010000000000000005000000030000000000000009f0c5f14b";
  assert.equal(
    toHex(files.get(`${folder}/packed/seg-00000000`)!).slice(0, 2 * (NEEDLE_PREFIX_BYTES + 166)),
    "434e444c010000002a000000000000000f0000000000000000000000a6" +
      "e591e277" +
      header +
      "010203" +
      "f130f21e" +
      header +
      "43504954010000002a000000000000000f00000039000400000000000000000003f130f21e1c7a3257ee824ecf",
  );
  assert.equal(toHex(files.get(`${folder}/packed/removed-0`)!), "434e524d010000002a0000000000000010367613b5");
  assert.equal(toHex(files.get(`${folder}/bounds/sizes`)!), "434e424401000000010000000000000179ec08eece");
});

/** As for files (OGD3): the close may come between any two calls of a gateway that was paused there. */
for (const first of [true, false])
  test(`[OGD3] close between any two calls of a zombie that packs, ${first ? "a new" : "its"} segment: nothing appears afterwards, nothing is sealed unseen`, () =>
    closeAnywhere(first));

async function closeAnywhere(isNew: boolean): Promise<void> {
  const before = isNew ? [] : [oidOf(3, 0)];
  const oid = oidOf(3, 1);
  for (let pauseAt = 0; ; pauseAt += 1) {
    const memory = new MemoryDisk();
    const adopter = packing(memory);
    let calls = Number.NaN;
    let found: string | undefined;
    const step = async <Answer>(act: () => Promise<Answer>): Promise<Answer> => {
      if (calls === pauseAt && found === undefined) {
        found = "";
        await adopter.closeEpoch(3);
        const listed = await adopter.list({ epoch: 3, fromSequence: 0, limit: 10 });
        const state = await adopter.inspect(oid);
        found = listed.length === before.length ? "none" : state.kind === "open" && state.description === undefined ? "bare" : "described";
      }
      calls += 1;
      return await act();
    };
    const zombie = packing(stepped(memory, step));
    for (const earlier of before) await store(zombie, earlier, Uint8Array.of(1, 2));
    calls = 0;
    const answer = await store(zombie, oid, Uint8Array.of(1, 2)).then(
      () => "sealed",
      (thrown: unknown) => (thrown as ConcordError).code,
    );
    if (found === undefined) {
      assert.ok(pauseAt >= 4, `${pauseAt} calls`);
      assert.equal(answer, "sealed");
      return;
    }
    for (const observer of [adopter, packing(memory)]) {
      const listed = await observer.list({ epoch: 3, fromSequence: 0, limit: 10 });
      assert.deepEqual(listed, found === "none" ? before : [...before, oid], `pause ${pauseAt}: seen as ${found}, then ${listed.length}`);
    }
    if (found !== "described") assert.equal(answer, "EPOCH_FENCED", `pause ${pauseAt}: sealed, and seen as ${found}`);
    assert.ok(answer === "sealed" || answer === "EPOCH_FENCED", `pause ${pauseAt}: ${answer}`);
    assert.deepEqual(
      await zombie.list({ epoch: 3, fromSequence: 0, limit: 10 }),
      found === "none" ? before : [...before, oid],
      `pause ${pauseAt}: the zombie's own view`,
    );
  }
}

type Step = <Answer>(act: () => Promise<Answer>) => Promise<Answer>;

/** Every call of the disk and of its files goes through `step`. */
function stepped(disk: Disk, step: Step): Disk {
  const file = <Found>(found: Found): Found => {
    if (typeof found !== "object" || found === null) return found;
    const handle = found as unknown as {
      write: (...given: unknown[]) => Promise<void>;
      sync: () => Promise<void>;
      read: (...given: unknown[]) => Promise<Uint8Array>;
    };
    const [write, sync, read] = [handle.write.bind(handle), handle.sync.bind(handle), handle.read.bind(handle)];
    handle.write = (...given) => step(() => write(...given));
    handle.sync = () => step(sync);
    handle.read = (...given) => step(() => read(...given));
    return found;
  };
  return {
    create: async (path) => file(await step(() => disk.create(path))),
    open: async (path) => file(await step(() => disk.open(path))),
    list: (folder) => step(() => disk.list(folder)),
    makeFolder: (folder) => step(() => disk.makeFolder(folder)),
    syncFolder: (folder) => step(() => disk.syncFolder(folder)),
    rename: (from, to) => step(() => disk.rename(from, to)),
    remove: (path) => step(() => disk.remove(path)),
    freeBytes: () => disk.freeBytes(),
  };
}

test("[OGD8] a group's sync fails: all its waiters fail, the segment gets nothing more, the next needles go to a new one", async () => {
  const disk = new MemoryDisk();
  const data = packing(disk);
  await store(data, oidOf(1, 0), filled(100, 0));
  const writers = await Promise.all([1, 2, 3].map((at) => data.create(oidOf(1, at), DESCRIPTION)));
  disk.files.failNextSync();
  const sealed = await Promise.allSettled(writers.map((writer) => writer.seal()));
  for (const outcome of sealed) assert.ok(outcome.status === "rejected" && hasCode("STORE_FAILED")(outcome.reason));
  const size = disk.files.contents().get(segments(disk)[0]!)!.length;
  await store(data, oidOf(1, 4), filled(100, 4));
  assert.equal(segments(disk).length, 2);
  assert.equal(disk.files.contents().get(segments(disk)[0]!)!.length, size);
  assert.equal((await data.inspect(oidOf(1, 1))).kind, "open");
  assert.equal(await data.remove(oidOf(1, 1)), true);
  disk.crash(KEEP_UNSYNCED);
  const left = packing(disk);
  assert.equal((await left.inspect(oidOf(1, 1))).kind, "absent");
  for (const at of [0, 4]) assert.deepEqual(await bytesOf(left, oidOf(1, at), 100), filled(100, at));
});

test("full disk: STORAGE_FULL, what is sealed stays; with room again the segment goes on", async () => {
  const disk = new MemoryDisk();
  const data = packing(disk);
  await store(data, oidOf(1, 0), filled(100, 0));
  disk.files.capacityBytes = disk.files.usedBytes + 200;
  await assert.rejects(store(data, oidOf(1, 1), filled(5_000, 1)), hasCode("STORAGE_FULL"));
  disk.files.clearFaults();
  await store(data, oidOf(1, 2), filled(100, 2));
  assert.equal(segments(disk).length, 1);
  assert.deepEqual([await packing(disk).list({ epoch: 1, fromSequence: 0, limit: 10 })], [[oidOf(1, 0), oidOf(1, 2)]]);
});

test("[SEC6] damage: every bit of a segment: no wrong byte is ever given out, nothing is taken for another blob", async () => {
  const disk = new MemoryDisk();
  for (const at of [0, 1, 2]) await store(packing(disk), oidOf(1, at), filled(10, at)).catch(() => undefined);
  const one = packing(disk);
  for (const at of [4, 5, 6]) await store(one, oidOf(1, at), filled(10, at));
  const path = segments(disk).at(-1)!;
  const size = disk.files.contents().get(path)!.length;
  let readable = 0;
  for (let at = 0; at < size; at += 1) {
    await flip(disk, path, at);
    const data = packing(disk);
    assert.deepEqual(
      (await data.list({ epoch: 1, fromSequence: 0, limit: 10 })).filter((oid) => parseOid(oid).sequence > 6),
      [],
    );
    for (const sequence of [0, 1, 2, 4, 5, 6]) {
      const outcome = await bytesOf(data, oidOf(1, sequence), 10).catch((thrown: unknown) => (thrown as ConcordError).code);
      if (outcome !== "CORRUPT_DATA") assert.deepEqual(outcome, filled(10, sequence), `byte ${at}, blob ${sequence}`);
      else assert.ok(sequence > 3, `byte ${at}: a blob of another segment`);
      if (outcome !== "CORRUPT_DATA") readable += 1;
    }
    await flip(disk, path, at);
  }
  assert.ok(readable >= size * 5, `${readable} reads of ${size * 6}: at most one blob is hurt by one bit`);
});

test("damage: a prefix in the middle: reported, its blob is found by its end, the segment is never taken away", async () => {
  const disk = new MemoryDisk();
  const writer = packing(disk);
  for (const at of [0, 1, 2]) await store(writer, oidOf(1, at), filled(10, at));
  const { path } = await findData(disk, oidOf(1, 1));
  await flip(disk, path, (await prefixOf(disk, oidOf(1, 1))) + 30);
  const errors: string[] = [];
  const data = packing(disk, { log: { ...silentLog, error: (message) => void errors.push(message) } });
  await data.closeEpoch(1);
  assert.deepEqual(await bytesOf(data, oidOf(1, 1), 10), filled(10, 1));
  assert.equal(errors.length, 1);
  for (const sequence of [0, 1, 2]) assert.equal(await data.remove(oidOf(1, sequence)), true);
  await data.compact(1);
  assert.equal(segments(disk).length, 1);
});

async function prefixOf(disk: MemoryDisk, oid: Oid): Promise<number> {
  const { path, at } = await findData(disk, oid);
  const bytes = disk.files.contents().get(path)!;
  for (let start = at - NEEDLE_PREFIX_BYTES; ; start -= 1) if (bytes[start] === 0x43 && bytes[start + 1] === 0x4e) return start;
}

test("torn: a segment cut anywhere in its last needle: open or absent, never sealed, the others whole; it can be removed", async () => {
  const disk = new MemoryDisk();
  const one = packing(disk);
  for (const at of [0, 1]) await store(one, oidOf(1, at), filled(10, at));
  const path = segments(disk)[0]!;
  const file = (await disk.open(path))!;
  const begin = await prefixOf(disk, oidOf(1, 1));
  const whole = await file.read(begin, file.size);
  for (let size = file.size - 1; size >= begin; size -= 1) {
    await file.truncate(size);
    const data = packing(disk);
    const state = await data.inspect(oidOf(1, 1));
    assert.equal(state.kind, size >= begin + NEEDLE_PREFIX_BYTES ? "open" : "absent", `${size - begin} bytes`);
    await assert.rejects(bytesOf(data, oidOf(1, 1), 1), hasCode("CORRUPT_DATA"));
    assert.deepEqual(await bytesOf(data, oidOf(1, 0), 10), filled(10, 0));
  }
  await file.write(begin, [whole.subarray(0, NEEDLE_PREFIX_BYTES + 1)]);
  const data = packing(disk);
  assert.equal(await data.remove(oidOf(1, 1)), true);
  assert.deepEqual(await packing(disk).list({ epoch: 1, fromSequence: 0, limit: 10 }), [oidOf(1, 0)]);
});

test("remove: recorded by a process that was killed before its sync: the next remove makes it durable", async () => {
  const disk = new MemoryDisk();
  await store(packing(disk), oidOf(1, 1), filled(10, 1));
  const killed = packing(
    stepped(disk, (act) => act()),
    {
      failpoint: (name) => {
        if (name === "segment:removal-appended") throw new Error("killed");
      },
    },
  );
  await assert.rejects(killed.remove(oidOf(1, 1)), /killed/);
  assert.equal(await packing(disk).remove(oidOf(1, 1)), false);
  disk.crash();
  assert.equal((await packing(disk).inspect(oidOf(1, 1))).kind, "absent");
});

test("two gateways: what one seals and removes, the other one sees", async () => {
  const disk = new MemoryDisk();
  const [owner, other] = [packing(disk), packing(disk)];
  for (let at = 0; at < 5; at += 1) {
    await store(owner, oidOf(1, at), filled(10, at));
    assert.deepEqual(await bytesOf(other, oidOf(1, at), 10), filled(10, at));
  }
  assert.equal(await other.remove(oidOf(1, 2)), true);
  assert.equal(await owner.remove(oidOf(1, 3)), true);
  for (const data of [owner, other]) {
    assert.deepEqual(
      await data.list({ epoch: 1, fromSequence: 0, limit: 10 }),
      [0, 1, 4].map((at) => oidOf(1, at)),
    );
    for (const at of [2, 3]) assert.equal((await data.inspect(oidOf(1, at))).kind, "absent");
  }
});

test("close: no file stays open; the store goes on in new files", async () => {
  const memory = new MemoryDisk();
  let open = 0;
  const counted = (file: Awaited<ReturnType<Disk["create"]>>): typeof file => {
    if (file === "exists") return file;
    open += 1;
    const close = file.close.bind(file);
    file.close = () => ((open -= 1), close());
    return file;
  };
  const data = packing({ ...stepped(memory, (act) => act()), create: async (path) => counted(await memory.create(path)) });
  for (let turn = 0; turn < 2; turn += 1) {
    for (const at of [1, 2]) await store(data, oidOf(1, 2 * turn + at), filled(10, at));
    await data.remove(oidOf(1, 2 * turn + 1));
    assert.equal(open, 2);
    await data.close();
    assert.equal(open, 0);
  }
  assert.deepEqual(await packing(memory).list({ epoch: 1, fromSequence: 0, limit: 10 }), [oidOf(1, 2), oidOf(1, 4)]);
});

test("limits: the buffer is full: the next bytes go to a file; what was sealed or abandoned makes fixture", async () => {
  const disk = new MemoryDisk();
  const data = packing(disk, { packBufferBytesMax: 1_000 });
  const [first, second] = [await data.create(oidOf(1, 1), DESCRIPTION), await data.create(oidOf(1, 2), DESCRIPTION)];
  await first.write(filled(900, 1));
  await second.write(filled(101, 2));
  await second.seal();
  assert.ok((await findData(disk, oidOf(1, 2))).path.endsWith(oidOf(1, 2)));
  await first.abandon();
  await store(data, oidOf(1, 3), filled(1_000, 3));
  await store(data, oidOf(1, 4), filled(1_000, 4));
  for (const at of [3, 4]) assert.ok((await findData(disk, oidOf(1, at))).path.endsWith("seg-00000000"));
  assert.deepEqual(await bytesOf(data, oidOf(1, 2), 101), filled(101, 2));
  assert.throws(() => packing(disk, { packBytesMax: PACK_BYTES_MAX + 1 }));
});

test("create: a file's name is looked at only where there may be one: in folders of before, and in those that got a file", async () => {
  const disk = new MemoryDisk();
  const opened: string[] = [];
  const open: Disk["open"] = (path) => (/\/00000001-[0-9a-f]{12}$/.test(path) && opened.push(path), disk.open(path));
  const watched = Object.assign(Object.create(disk) as MemoryDisk, { open });
  const [data, far] = [packing(watched, { packBytesMax: 1_000 }), BLOBS_PER_FOLDER];
  for (const at of [1, 2, 3]) await store(data, oidOf(1, at), filled(100, at));
  assert.deepEqual(opened, []);
  await store(data, oidOf(1, far), filled(2_000, 4));
  await store(data, oidOf(1, 4), filled(100, 4));
  assert.deepEqual(opened, []);
  await assert.rejects(data.create(oidOf(1, far), DESCRIPTION), hasCode("PIECE_EXISTS"));
  const next = packing(watched, { packBytesMax: 1_000 });
  await assert.rejects(next.create(oidOf(1, far), DESCRIPTION), hasCode("PIECE_EXISTS"));
  await store(next, oidOf(1, far + 1), filled(100, 5));
  assert.equal(opened.length, 3);
});

test("packing is switched off and on: what is there is read, listed and removed as before", async () => {
  const disk = new MemoryDisk();
  await store(packing(disk), oidOf(1, 1), filled(100, 1));
  const off = packing(disk, { packBytesMax: 0 });
  await store(off, oidOf(1, 2), filled(100, 2));
  await assert.rejects(off.create(oidOf(1, 1), DESCRIPTION), hasCode("PIECE_EXISTS"));
  const on = packing(disk);
  await assert.rejects(on.create(oidOf(1, 2), DESCRIPTION), hasCode("PIECE_EXISTS"));
  for (const data of [off, on]) for (const at of [1, 2]) assert.deepEqual(await bytesOf(data, oidOf(1, at), 100), filled(100, at));
  assert.equal(await off.remove(oidOf(1, 1)), true);
  assert.deepEqual(await on.list({ epoch: 1, fromSequence: 0, limit: 10 }), [oidOf(1, 2)]);
});
