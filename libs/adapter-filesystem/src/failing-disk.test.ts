// Every single call to the disk fails once: no handle stays open, no half-written segment stays behind, and what was sealed can be read.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk, referenceCrc32c as checksum } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, toConcordError, type Disk, type DiskFile } from "@concord/runtime";
import { FilesystemObjectData, type FilesystemOptions } from "./filesystem-object-data.ts";
import { random } from "./test/drawn.ts";

const LENGTH = 1_000;
const SEGMENT_BYTES = 4_000;
const CALLS_MAX = 2_000;

type Fails = (call: string, number: number) => boolean;

/** Counts calls and open handles; fails the calls that `fails` names. */
class FailingDisk {
  readonly memory = new MemoryDisk();
  fails: Fails = () => false;
  calls = 0;
  open = 0;

  readonly disk: Disk = {
    create: (path) => this.#run(`create ${path}`, async () => this.#opened(path, await this.memory.create(path))),
    open: (path) => this.#run(`open ${path}`, async () => this.#opened(path, await this.memory.open(path))),
    list: (folder) => this.#run(`list ${folder}`, () => this.memory.list(folder)),
    makeFolder: (folder) => this.#run(`make ${folder}`, () => this.memory.makeFolder(folder)),
    syncFolder: (folder) => this.#run(`syncFolder ${folder}`, () => this.memory.syncFolder(folder)),
    rename: (from, to) => this.#run(`rename ${from}`, () => this.memory.rename(from, to)),
    remove: (path) => this.#run(`remove ${path}`, () => this.memory.remove(path)),
    freeBytes: () => this.memory.freeBytes(),
  };

  /** After a failed sync what it covered may be lost, whatever is synced later. */
  async #run<Answer>(call: string, act: () => Promise<Answer>): Promise<Answer> {
    this.calls += 1;
    if (!this.fails(call, this.calls)) return await act();
    if (!/^(sync|make)/.test(call)) throw new ConcordError("STORE_FAILED", `${call}: EIO`);
    this.memory.files.failNextSync();
    const answer = act();
    await answer.catch(() => undefined);
    this.memory.files.clearFaults();
    return await answer;
  }

  #opened<Other>(path: string, file: DiskFile | Other): DiskFile | Other {
    if (typeof file !== "object" || file === null || !("truncate" in file)) return file;
    this.open += 1;
    let isOpen = true;
    const write = (offset: number, parts: readonly Uint8Array[]): Promise<void> =>
      this.#run(`write ${path}`, () => file.write(offset, parts));
    const sync = (): Promise<void> => this.#run(`sync ${path}`, () => file.sync());
    return {
      get size() {
        return file.size;
      },
      write,
      sync,
      writeSynced: (offset, parts) => write(offset, parts).then(sync),
      read: (offset, length) => this.#run(`read ${path}`, () => file.read(offset, length)),
      truncate: (size) => this.#run(`truncate ${path}`, () => file.truncate(size)),
      close: async () => {
        if (isOpen) this.open -= 1;
        isOpen = false;
        await file.close();
      },
    };
  }
}

function dataOn({ disk }: FailingDisk, options: Partial<FilesystemOptions> = {}): FilesystemObjectData {
  return new FilesystemObjectData({
    disk,
    checksum,
    random,
    failpoint: () => undefined,
    packBytesMax: LENGTH,
    segmentBytes: SEGMENT_BYTES,
    ...options,
  });
}

async function store(data: FilesystemObjectData, oid: Oid, lengthBytes = LENGTH): Promise<void> {
  const writer = await data.create(oid, { bucket: "b", key: "k", part: undefined, guid: 7n });
  try {
    await writer.write(new Uint8Array(lengthBytes).fill(Number.parseInt(oid.slice(-2), 16)));
    await writer.seal();
  } catch (thrown) {
    await writer.abandon();
    throw thrown;
  }
}

async function isThere(data: FilesystemObjectData, oid: Oid): Promise<boolean> {
  for await (const bytes of data.read(oid, 0, LENGTH)) assert.equal(bytes[0], Number.parseInt(oid.slice(-2), 16));
  return true;
}

const segmentsOf = ({ memory }: FailingDisk): string[] => [...memory.files.contents().keys()].filter((path) => /\/(seg|copy)-/.test(path));

interface Life {
  /** Sealed and not removed since. */
  readonly there: Set<Oid>;
  readonly removed: Set<Oid>;
  readonly fenced: number;
  /** The process had to end. */
  readonly stopped: boolean;
}

/** Packed and own files, removals, compactions in the open and in the closed epoch. After EPOCH_FENCED the next epoch is taken. */
async function life(disk: FailingDisk): Promise<Life> {
  const [there, removed] = [new Set<Oid>(), new Set<Oid>()];
  let [stopped, epoch, fenced] = [false, 1, 0];
  const data = dataOn(disk, { onFailed: () => (stopped = true) });
  const maybe = async (act: () => Promise<unknown>): Promise<boolean> => {
    if (stopped) return false;
    try {
      await act();
      return true;
    } catch (thrown) {
      if (toConcordError(thrown).code === "EPOCH_FENCED") [epoch, fenced] = [epoch + 1, fenced + 1];
      return false;
    }
  };
  const put = async (sequence: number, lengthBytes: number): Promise<void> => {
    const oid = oidOf(epoch, sequence);
    if (await maybe(() => store(data, oid, lengthBytes))) there.add(oid);
  };
  const remove = async (oid: Oid): Promise<void> => {
    there.delete(oid);
    if (await maybe(() => data.remove(oid))) removed.add(oid);
    await data.compact(1);
  };
  for (let at = 0; at < 9; at += 1) await put(at, LENGTH);
  for (let at = 9; at < 12; at += 1) await put(at, LENGTH * 3);
  for (const at of [0, 1, 2, 9]) await remove(oidOf(1, at));
  await maybe(() => data.closeEpoch(1));
  for (const at of [4, 5, 6, 10]) await remove(oidOf(1, at));
  await maybe(() => data.epochs());
  await data.close();
  return { there, removed, fenced, stopped };
}

test("any call to the disk fails once: no handle stays open; after a power cut the sealed are read, the removed stay removed", async () => {
  const quiet = new FailingDisk();
  await life(quiet);
  assert.ok(quiet.calls < CALLS_MAX, `${quiet.calls} calls`);
  const seen = { fenced: 0, stopped: 0 };
  for (let failing = 1; failing <= quiet.calls; failing += 1) {
    const disk = new FailingDisk();
    let failed = "";
    disk.fails = (call, number) => {
      if (number === failing) failed = `${call} (call ${failing}) failed`;
      return number === failing;
    };
    const { there, removed, fenced, stopped } = await life(disk);
    seen.fenced += fenced;
    if (stopped) seen.stopped += 1;
    assert.equal(disk.open, 0, `handles are open: ${failed}`);
    disk.memory.crash();
    const again = dataOn(disk);
    for (const oid of there) assert.ok(await isThere(again, oid), `${oid}: ${failed}`);
    for (const oid of removed) assert.equal((await again.inspect(oid)).kind, "absent", `${oid}: ${failed}`);
    await again.close();
    assert.equal(disk.open, 0);
  }
  assert.ok(seen.fenced > 0 && seen.stopped > 0);
});

test("[OGD8] seal: one sync of the folder failed: its epoch is closed, uploads go on in the next one, nothing stops", async () => {
  for (const lengthBytes of [LENGTH, LENGTH * 3]) {
    const disk = new FailingDisk();
    const failures: ConcordError[] = [];
    const data = dataOn(disk, { onFailed: (cause) => failures.push(cause) });
    await store(data, oidOf(1, 0));
    let failing = true;
    disk.fails = (call) => failing && call.startsWith("syncFolder pieces/00000001/") && !(failing = false);
    await data.close();
    await assert.rejects(store(data, oidOf(1, 5000), lengthBytes), { code: "EPOCH_FENCED" });
    await assert.rejects(store(data, oidOf(1, 5001), lengthBytes), { code: "EPOCH_FENCED" });
    await store(data, oidOf(2, 0), lengthBytes);
    assert.ok(await isThere(data, oidOf(1, 0)));
    assert.deepEqual(failures, []);
    await data.close();
  }
});

test("compaction: every copy fails, the disk is full: one segment stays one segment, also after many removals", async () => {
  const disk = new FailingDisk();
  const data = dataOn(disk);
  for (let at = 0; at < 40; at += 1) await store(data, oidOf(1, at));
  const before = segmentsOf(disk).length;
  disk.fails = (call) => /^write .*copy-/.test(call);
  for (let at = 0; at < 40; at += 1) {
    if (at % 4 === 3) continue;
    await data.remove(oidOf(1, at));
    await data.compact(1);
    assert.ok(segmentsOf(disk).length <= before, `${segmentsOf(disk).length} segments after ${at + 1} removals`);
  }
  disk.fails = () => false;
  await data.remove(oidOf(1, 39));
  await data.compact(1);
  for (let at = 3; at < 39; at += 4) assert.ok(await isThere(data, oidOf(1, at)));
  await data.close();
  assert.equal(disk.open, 0);
});
