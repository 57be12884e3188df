import assert from "node:assert/strict";
import { test } from "node:test";
import type { Disk, DiskFile } from "./disk.ts";
import { ConcordError } from "./errors.ts";
import { lendingDisk } from "./lending-disk.ts";
import { silentLog } from "./observe.ts";
import { SpaceReserve } from "./space-reserve.ts";

const CLUSTER = 4096;
const RESERVE_BYTES = 4 * 1024 * 1024;

/** A file system on which another program takes whatever is free after each call that does not end at once. */
class FullFileSystem {
  readonly sizes = new Map<string, number>();
  freeBytes = 0;
  /** Calls that find no space whatever is free, since the other program was faster. */
  stolen = 0;
  /** Clusters that each write takes for the file system itself. */
  ownClusters = 0;
  readonly disk = {
    create: async (path: string) => this.#made(path),
    open: async (path: string) => (this.sizes.has(path) ? this.#file(path) : undefined),
    rename: async () => {
      this.#take(CLUSTER);
      return true;
    },
  } as unknown as Disk;

  async #made(path: string): Promise<DiskFile> {
    this.#take(CLUSTER);
    this.sizes.set(path, 0);
    return this.#file(path);
  }

  #file(path: string): DiskFile {
    const write = async (offset: number, parts: readonly Uint8Array[]): Promise<void> => {
      const [size, end] = [this.sizes.get(path)!, offset + parts.reduce((sum, { length }) => sum + length, 0)];
      const clusters = Math.ceil(end / CLUSTER) - Math.ceil(size / CLUSTER);
      if (clusters > 0) this.#take((clusters + this.ownClusters) * CLUSTER);
      this.sizes.set(path, Math.max(size, end));
    };
    const truncate = async (size: number): Promise<void> => {
      this.freeBytes += this.sizes.get(path)! - size;
      this.sizes.set(path, size);
    };
    return { size: this.sizes.get(path)!, write, writeSynced: write, truncate, close: async () => undefined } as unknown as DiskFile;
  }

  /** The other program takes what is left then. */
  #take(bytes: number): void {
    const isThere = this.stolen === 0 && bytes <= this.freeBytes;
    this.stolen = Math.max(0, this.stolen - 1);
    this.freeBytes = 0;
    if (!isThere) throw new ConcordError("STORAGE_FULL", "no space", { applied: "no" });
  }
}

class Fixture {
  readonly files = new FullFileSystem();
  readonly reserve = new SpaceReserve(this.files.disk, RESERVE_BYTES);
  readonly said: string[] = [];
  readonly disk = lendingDisk({
    disk: this.files.disk,
    reserve: this.reserve,
    log: { ...silentLog, error: (message, fields) => void this.said.push(`${message}: ${String(fields?.["reason"])}`) },
  });

  static async with(heldBytes: number): Promise<Fixture> {
    const fixture = new Fixture();
    fixture.files.sizes.set("reserve", heldBytes);
    fixture.files.sizes.set("journal", 0);
    await fixture.reserve.find();
    return fixture;
  }

  async append(bytes: number): Promise<void> {
    const file = (await this.disk.open("journal"))!;
    await file.writeSynced(this.files.sizes.get("journal")!, [new Uint8Array(bytes)]);
  }
}

test("[OPS11] lending: a full disk: writes, new files and names take their space from the reserve, and no more than that goes", async () => {
  const fixture = await Fixture.with(RESERVE_BYTES);
  await fixture.append(10 * CLUSTER);
  const made = await fixture.disk.create("checkpoint.new");
  assert.notEqual(made, "exists");
  if (made !== "exists") await made.write(0, [new Uint8Array(100)]);
  await fixture.disk.rename("checkpoint.new", "checkpoint");
  assert.deepEqual([fixture.files.sizes.get("journal"), fixture.files.sizes.get("checkpoint.new")], [10 * CLUSTER, 100]);
  const lentBytes = RESERVE_BYTES - fixture.reserve.heldBytes;
  assert.equal(fixture.files.sizes.get("reserve"), fixture.reserve.heldBytes);
  assert.ok(lentBytes <= 20 * CLUSTER, `${lentBytes} bytes went`);
});

test("[OPS11] lending: writes at the same time: each has its space", async () => {
  const fixture = await Fixture.with(RESERVE_BYTES);
  const files = await Promise.all(["a", "b", "c"].map((name) => fixture.disk.create(name)));
  await Promise.all(files.map((file) => (file as DiskFile).write(0, [new Uint8Array(3 * CLUSTER)])));
  assert.deepEqual(
    ["a", "b", "c"].map((name) => fixture.files.sizes.get(name)),
    [3 * CLUSTER, 3 * CLUSTER, 3 * CLUSTER],
  );
});

test("[OPS11] lending: another program takes what is given, or the file system some for itself: lent again, more each time", async () => {
  const fixture = await Fixture.with(RESERVE_BYTES);
  fixture.files.stolen = 9;
  fixture.files.ownClusters = 5;
  await fixture.append(CLUSTER);
  assert.equal(fixture.files.sizes.get("journal"), CLUSTER);
  const lostBytes = RESERVE_BYTES - fixture.reserve.heldBytes;
  assert.ok(lostBytes < RESERVE_BYTES / 8, `${lostBytes} bytes of the reserve went`);
  fixture.files.stolen = Number.POSITIVE_INFINITY;
  await assert.rejects(fixture.append(CLUSTER), { code: "STORAGE_FULL" });
  assert.match(fixture.said[0]!, /another program takes what the reserve gives/u);
});

test("[OPS11] lending: the reserve has less than is needed: STORAGE_FULL, the reserve is kept, and the log has one line about it", async () => {
  const fixture = await Fixture.with(CLUSTER);
  for (let times = 0; times < 3; times += 1) await assert.rejects(fixture.append(CLUSTER), { code: "STORAGE_FULL" });
  assert.deepEqual([fixture.reserve.heldBytes, fixture.said.length], [CLUSTER, 1]);
  assert.match(fixture.said[0]!, /larger reserveBytes lasts longer: the reserve is used up/u);
});

test("[OPS11] lending: a large write that is not synced, data of an upload: STORAGE_FULL, nothing is lent", async () => {
  const fixture = await Fixture.with(RESERVE_BYTES);
  const file = (await fixture.disk.open("journal"))!;
  await assert.rejects(file.write(0, [new Uint8Array(RESERVE_BYTES / 4)]), { code: "STORAGE_FULL" });
  assert.equal(fixture.reserve.heldBytes, RESERVE_BYTES);
});

test("[OPS11] lending: a write that fails for another reason: rejected as it is, nothing is lent", async () => {
  const fixture = await Fixture.with(RESERVE_BYTES);
  fixture.files.disk.rename = () => Promise.reject(new ConcordError("STORE_FAILED", "EIO"));
  await assert.rejects(fixture.disk.rename("a", "b"), { code: "STORE_FAILED" });
  assert.equal(fixture.reserve.heldBytes, RESERVE_BYTES);
});
