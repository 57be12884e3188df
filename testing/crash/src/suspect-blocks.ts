// A store on real files whose tables lose blocks of rows, after and before any history: older values, deleted rows and crashes among it. A read is answered
// with what was written last, or refused.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLevel, reportFiltersTo } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom, overlayDisk } from "@concord/adapter-node-runtime";
import type { KeyValueOperation, Store } from "@concord/ports";
import { ConcordError, silentLog } from "@concord/runtime";
import { admitSuspects, openStore, suspectAmong, verifyStore, type StoreOptions } from "@concord/store";

const FOLDER = "store";
const ROWS_NAMESPACE = Uint8Array.of(0x72);
const KEYS = 2_000;
const VALUE_BYTES = 90;
const POINTS = ["store:suspects-counted", "store:suspects-noted"];
const ALL = { from: new Uint8Array(), to: Uint8Array.of(0xff), limit: 10_000 };

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value);
/** Few keys of another namespace, which is never suspect. */
const keyOf = (n: number): string => (n % 500 === 0 ? `g:${n}` : `r:${String(n).padStart(5, "0")}`);
const allKeys = Array.from({ length: KEYS }, (_, n) => keyOf(n));

class Killed extends Error {}

/** The end of a trial. */
export interface Outcome {
  readonly kind: "refused" | "served";
  /** Keys whose reads were refused when the damaged store was opened. */
  readonly suspect: number;
  readonly isHealed: boolean;
}

export async function suspectTrial(seed: number): Promise<Outcome> {
  const root = await mkdtemp(join(tmpdir(), "concord-suspects-"));
  try {
    return await new Trial(root, seed).run();
  } catch (thrown) {
    throw new Error(`the trial with seed ${seed} failed`, { cause: thrown });
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

class Trial {
  readonly #written = new Map<string, string>();
  #folder: string;
  #drawn: number;
  #writes = 0;
  #copies = 0;

  constructor(root: string, seed: number) {
    this.#folder = join(root, "0");
    this.#drawn = (seed * 7_919 + 12_345) % 2_147_483_647;
  }

  async run(): Promise<Outcome> {
    for (let rounds = 4 + this.#draw(8); rounds > 0; rounds -= 1) await this.#round("any");
    let suspect = 0;
    for (let times = 1 + this.#draw(2); times > 0; times -= 1) {
      await this.#damage();
      const store = await this.#openAfterCrashes();
      if (store === undefined) return { kind: "refused", suspect: 0, isHealed: false };
      suspect = await this.#isExact(store);
      await store.close();
      for (let rounds = this.#draw(6); rounds > 0; rounds -= 1) await this.#round(this.#draw(2) === 0 ? "any" : "unsuspected");
    }
    const isHealed = this.#draw(2) === 0;
    if (isHealed) await this.#heal();
    for (let rounds = this.#draw(4); rounds > 0; rounds -= 1) await this.#round("any");
    const last = await this.#open();
    const refused = await this.#isExact(last);
    if (isHealed) assert.equal(refused, 0);
    await last.close();
    await this.#verify();
    return { kind: "served", suspect, isHealed };
  }

  #draw(below: number): number {
    return (this.#drawn = (this.#drawn * 48_271) % 2_147_483_647) % below;
  }

  #oneOf<Item>(items: readonly Item[]): Item {
    const [item] = items.slice(this.#draw(items.length));
    assert.ok(item !== undefined);
    return item;
  }

  /** The store is opened, written and closed, or killed. */
  async #round(keys: "any" | "unsuspected"): Promise<void> {
    const store = await this.#open();
    for (let batches = 1 + this.#draw(6); batches > 0; batches -= 1) {
      const from = this.#draw(KEYS);
      const to = from + 1 + this.#draw(400);
      const operations: KeyValueOperation[] = [];
      for (let n = from; n < Math.min(KEYS, to); n += 1) {
        const key = keyOf(n);
        if (keys === "unsuspected" && suspectAmong(store.suspects.ranges, [bytes(key)]) !== undefined) continue;
        const value = `${(this.#writes += 1)} ${"v".repeat(VALUE_BYTES)}`;
        const isDeleted = this.#draw(4) === 0;
        operations.push(isDeleted ? { kind: "delete", key: bytes(key) } : { kind: "put", key: bytes(key), value: bytes(value) });
        if (isDeleted) this.#written.delete(key);
        else this.#written.set(key, value);
      }
      if (operations.length > 0) await store.batch(operations, { sync: true });
    }
    const isKilled = this.#draw(3) === 0;
    if (isKilled) await this.#copyTo(`${this.#folder}-${(this.#copies += 1)}`, () => store.close());
    else await store.close();
  }

  /** The files as a kill leaves them now. */
  async #copyTo(to: string, end: () => Promise<void>): Promise<void> {
    // LevelDB compacts in the background: copied again when a file came, went or grew meanwhile.
    for (let before = ""; ; await rm(to, { recursive: true, force: true })) {
      before = await this.#filesNow();
      const isWhole = await cp(this.#folder, to, { recursive: true }).then(
        () => true,
        () => false,
      );
      if (isWhole && (await this.#filesNow()) === before) break;
    }
    await end();
    await rm(this.#folder, { recursive: true });
    this.#folder = to;
  }

  async #filesNow(): Promise<string> {
    const names = (await readdir(this.#folder, { recursive: true })).sort();
    const sizeOf = (name: string): Promise<string> =>
      stat(join(this.#folder, name)).then(
        ({ size }) => `${name} ${size}`,
        () => `${name} gone`,
      );
    return (await Promise.all(names.map(sizeOf))).join();
  }

  /** One or two bits, or runs of 700 bytes, of tables; of a large one more likely. */
  async #damage(): Promise<void> {
    const folder = join(this.#folder, FOLDER);
    const paths = (await readdir(folder))
      .filter((name) => name.endsWith(".ldb"))
      .sort()
      .map((name) => join(folder, name));
    const tables = await Promise.all(paths.map(async (path) => ({ path, content: await readFile(path) })));
    for (let times = 1 + this.#draw(2); times > 0; times -= 1) {
      const places = tables.flatMap((table) => Array.from({ length: Math.ceil(table.content.length / 64) }, () => table));
      const { path, content } = this.#oneOf(places);
      const at = this.#draw(content.length);
      if (this.#draw(2) === 0) content.writeUInt8(content.readUInt8(at) ^ (1 << this.#draw(8)), at);
      else content.fill(0, at, Math.min(content.length, at + 700));
      await writeFile(path, content);
    }
  }

  /** Undefined: the store is refused as a whole, again at the next opening. */
  async #openAfterCrashes(): Promise<Store | undefined> {
    while (this.#draw(2) === 0) {
      const point = this.#oneOf(POINTS);
      const store = await this.#open(point).catch((thrown: unknown) => thrown);
      if (!(store instanceof Error)) return store as Store;
      if (store instanceof ConcordError && store.code === "CORRUPT_DATA") break;
    }
    try {
      return await this.#open();
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA", String(thrown));
      await assert.rejects(this.#open(), { code: "CORRUPT_DATA" });
      return undefined;
    }
  }

  /** Every key by itself and in the listing of all: what was written last, or refused because it is suspect. Returns how many are. */
  async #isExact(store: Store): Promise<number> {
    let refused = 0;
    for (const key of allKeys) {
      const isSuspect = suspectAmong(store.suspects.ranges, [bytes(key)]) !== undefined;
      if (isSuspect) {
        refused += 1;
        await assert.rejects(store.get(bytes(key)), { code: "CORRUPT_DATA" });
      } else assert.equal(textOf(await store.get(bytes(key))), this.#written.get(key), key);
    }
    if (store.suspects.ranges.length > 0) {
      await assert.rejects(store.range(ALL), { code: "CORRUPT_DATA" });
      return refused;
    }
    const listed = (await store.range(ALL)).map(({ key, value }) => [textOf(key), textOf(value)]);
    assert.deepEqual(
      listed,
      [...this.#written].sort(([left], [right]) => (left < right ? -1 : 1)),
    );
    return refused;
  }

  /** Rows of the ranges are copied from nodes that have them, as in a ring. Killed halfway it begins again. */
  async #heal(): Promise<void> {
    for (let isEnded = false; !isEnded;) {
      const store = await this.#open();
      const { ranges } = store.suspects;
      await store.suspects.clear();
      const copied = [...this.#written].filter(([key]) => suspectAmong(ranges, [bytes(key)]) !== undefined);
      const operations = copied.map(([key, value]) => ({ kind: "put" as const, key: bytes(key), value: bytes(value) }));
      isEnded = this.#draw(2) === 0;
      if (operations.length > 0) await store.batch(isEnded ? operations : operations.slice(0, 3), { sync: true });
      if (isEnded) await store.suspects.drop();
      await store.close();
    }
  }

  async #verify(): Promise<void> {
    const backing = await openLevel(join(this.#folder, FOLDER), nodeDescriptors());
    const disk = overlayDisk(nodeDisk(this.#folder));
    try {
      await verifyStore({ ...this.#options(), disk, backing });
    } finally {
      await disk.close();
      await backing.close();
    }
  }

  #options(point?: string): Omit<StoreOptions, "backing"> {
    const failpoint = (name: string): void => {
      if (name === point) throw new Killed(name);
    };
    const environment = { clock: nodeClock, random: nodeRandom, checksum: nodeChecksum, log: silentLog, failpoint };
    // Checkpoints are made when the store is closed: none begins while its files are copied.
    return { ...environment, disk: nodeDisk(this.#folder), folder: FOLDER, limits: { checkpointAgeMs: 3_600_000 } };
  }

  async #open(point?: string): Promise<Store> {
    const options = this.#options(point);
    const backing = await openLevel(join(this.#folder, FOLDER), nodeDescriptors(), {
      ...reportFiltersTo(silentLog),
      admitSuspects: async (copy, found) => {
        const disk = overlayDisk(options.disk);
        try {
          await admitSuspects({ ...options, disk, backing: copy }, options.disk, found, ROWS_NAMESPACE);
        } finally {
          await disk.close();
        }
      },
    });
    return openStore({ ...options, backing });
  }
}
