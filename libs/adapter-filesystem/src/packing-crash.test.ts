// An epoch's life with kills at named points and power cuts between: what was answered holds, nothing else appears.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryDisk, referenceCrc32c as checksum, type CrashChooser } from "@concord/port-contracts";
import { oidOf, parseOid, type Oid } from "@concord/ports";
import { ConcordError, type Disk, type DiskFile } from "@concord/runtime";
import { FilesystemObjectData } from "./filesystem-object-data.ts";
import { random } from "./test/drawn.ts";

const POINTS = [
  "segment:appended",
  "segment:synced",
  "segment:sealed",
  "segment:removal-appended",
  "segment:removal-synced",
  "segment:bounds-written",
  "segment:claimed",
  "segment:compacted-copy-written",
  "segment:compacted-copy-synced",
  "segment:dropped",
] as const;

const SEGMENT_BYTES = 4_000;
const bytesFor = (oid: Oid): Uint8Array => {
  const { epoch, sequence } = parseOid(oid);
  return Uint8Array.from({ length: 300 + ((sequence * 97) % 900) }, (_, at) => (at * 7 + sequence * 13 + epoch) & 255);
};

/** Reaches the disk until it dies. */
class Process {
  readonly data: FilesystemObjectData;
  readonly #seen = new Map<string, number>();
  #isDead = false;

  constructor(disk: Disk, kill: { readonly point: string; readonly at: number } | undefined) {
    const failpoint = (name: string): void => {
      const count = (this.#seen.get(name) ?? 0) + 1;
      this.#seen.set(name, count);
      if (kill?.point === name && kill.at === count) this.#isDead = true;
      if (this.#isDead) throw new Error("killed");
    };
    this.data = new FilesystemObjectData({
      disk: this.#mortal(disk),
      checksum,
      random,
      failpoint,
      packBytesMax: 1_000,
      segmentBytes: SEGMENT_BYTES,
      indexedNeedlesMin: 1,
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  kill(): void {
    this.#isDead = true;
  }

  #alive(): void {
    if (this.#isDead) throw new ConcordError("STORE_FAILED", "killed");
  }

  #file<Found>(found: Found): Found {
    const file = found as unknown as DiskFile | "exists" | undefined;
    if (file === undefined || file === "exists") return found;
    for (const name of ["write", "read", "sync", "truncate"] as const) {
      const act = file[name].bind(file) as (...given: unknown[]) => Promise<never>;
      Object.assign(file, { [name]: async (...given: unknown[]) => (this.#alive(), await act(...given)) });
    }
    return found;
  }

  #mortal(disk: Disk): Disk {
    return {
      create: async (path) => (this.#alive(), this.#file(await disk.create(path))),
      open: async (path) => (this.#alive(), this.#file(await disk.open(path))),
      list: async (folder) => (this.#alive(), await disk.list(folder)),
      makeFolder: async (folder) => (this.#alive(), await disk.makeFolder(folder)),
      syncFolder: async (folder) => (this.#alive(), await disk.syncFolder(folder)),
      rename: async (from, to) => (this.#alive(), await disk.rename(from, to)),
      remove: async (path) => (this.#alive(), await disk.remove(path)),
      freeBytes: () => disk.freeBytes(),
    };
  }
}

type Step =
  | { readonly kind: "put"; readonly count: number }
  | { readonly kind: "remove"; readonly which: readonly number[] }
  | { readonly kind: "compact" }
  | { readonly kind: "check" };

interface Life {
  readonly kill: { readonly point: string; readonly at: number } | undefined;
  readonly steps: readonly Step[];
  readonly power: boolean;
  readonly survive: readonly number[];
}

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("put" as const), count: fc.integer({ min: 1, max: 9 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("remove" as const), which: fc.array(fc.nat(60), { minLength: 1, maxLength: 9 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "compact" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "check" as const }) },
);
const life: fc.Arbitrary<Life> = fc.record({
  kill: fc.option(fc.record({ point: fc.constantFrom(...POINTS), at: fc.integer({ min: 1, max: 4 }) }), { nil: undefined }),
  steps: fc.array(step, { minLength: 2, maxLength: 12 }),
  power: fc.boolean(),
  survive: fc.array(fc.nat(3), { minLength: 5, maxLength: 40, size: "max" }),
});

/** What the answers so far say of a blob. Doubt: an answer is missing. */
type Known = "sealed" | "removed" | "put-unresolved" | "remove-unresolved";

class Model {
  readonly blobs = new Map<Oid, Known>();
  readonly reached = new Set<string>();
  #sequence = 0;

  async act(data: FilesystemObjectData, epoch: number, { ...step }: Step): Promise<void> {
    switch (step.kind) {
      case "put":
        await Promise.allSettled(Array.from({ length: step.count }, () => this.#put(data, oidOf(epoch, (this.#sequence += 1)))));
        return;
      case "remove": {
        const oids = [...this.blobs.keys()];
        const chosen = new Set(step.which.flatMap((at) => (oids.length === 0 ? [] : [oids[at % oids.length]!])));
        await Promise.allSettled([...chosen].map((oid) => this.#remove(data, oid)));
        return;
      }
      case "compact":
        for (const each of await data.epochs()) await data.compact(each);
        return;
      case "check":
        return await this.check(data);
    }
  }

  async #put(data: FilesystemObjectData, oid: Oid): Promise<void> {
    this.blobs.set(oid, "put-unresolved");
    const writer = await data.create(oid, { bucket: "b", key: `k${oid}`, part: undefined, guid: 7n });
    await writer.write(bytesFor(oid));
    await writer.seal();
    this.blobs.set(oid, "sealed");
  }

  async #remove(data: FilesystemObjectData, oid: Oid): Promise<void> {
    if (this.blobs.get(oid) !== "removed") this.blobs.set(oid, "remove-unresolved");
    await data.remove(oid);
    this.blobs.set(oid, "removed");
  }

  async check(data: FilesystemObjectData): Promise<void> {
    const listed = new Set<Oid>();
    for (const epoch of await data.epochs()) for (const oid of await data.list({ epoch, fromSequence: 0, limit: 10_000 })) listed.add(oid);
    for (const oid of listed) assert.ok(this.blobs.has(oid), `${oid} appeared`);
    for (const [oid, known] of this.blobs) {
      const state = await data.inspect(oid);
      assert.equal(state.kind !== "absent", listed.has(oid), `${oid}: listed as inspected`);
      if (known === "sealed") assert.equal(state.kind, "sealed", `${oid} is lost`);
      if (known === "removed") assert.equal(state.kind, "absent", `${oid} came back`);
      if (known === "sealed") assert.deepEqual(await readAll(data, oid), bytesFor(oid));
      // Indeterminate: these bytes or none.
      if (known !== "sealed" && state.kind === "sealed")
        assert.deepEqual(await readAll(data, oid).catch((thrown: unknown) => refused(thrown, oid)), bytesFor(oid));
    }
  }

  /** Resolves what is indeterminate as a recovery does: removes it. */
  async settle(data: FilesystemObjectData): Promise<void> {
    for (const [oid, known] of this.blobs) if (known.endsWith("unresolved")) await this.#remove(data, oid);
  }
}

const refused = (thrown: unknown, oid: Oid): Uint8Array => {
  if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return bytesFor(oid);
  throw thrown;
};

async function readAll(data: FilesystemObjectData, oid: Oid): Promise<Uint8Array> {
  const whole = new Uint8Array(bytesFor(oid).length);
  let at = 0;
  for await (const chunk of data.read(oid, 0, whole.length)) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

const quiet = async (act: Promise<unknown>, process: Process): Promise<void> => {
  await act.catch((thrown: unknown) => {
    if (!process.isDead) throw thrown;
  });
};

async function run(lives: readonly Life[]): Promise<void> {
  const disk = new MemoryDisk();
  const model = new Model();
  for (const [at, { kill, steps, power, survive }] of lives.entries()) {
    const process = new Process(disk, kill);
    const epoch = at + 1;
    await quiet(recover(process.data, model, epoch), process);
    for (const step of steps) if (!process.isDead) await quiet(model.act(process.data, epoch, step), process);
    process.kill();
    let next = 0;
    const chooser: CrashChooser = ({ length }) => Math.floor((length * survive[(next += 1) % survive.length]!) / 3);
    if (power) disk.crash(chooser);
  }
  const last = new Process(disk, undefined);
  await recover(last.data, model, lives.length + 1);
  await last.data.closeEpoch(lives.length + 1);
  for (const epoch of await last.data.epochs()) await last.data.compact(epoch);
  await model.check(last.data);
  await model.check(new Process(disk, undefined).data);
}

async function recover(data: FilesystemObjectData, model: Model, epoch: number): Promise<void> {
  for (let earlier = 1; earlier < epoch; earlier += 1) await data.closeEpoch(earlier);
  await model.check(data);
  await model.settle(data);
  await model.check(data);
}

const RUNS = 150;

test("[OGD14] packed blobs: kills and power cuts at every point: sealed is readable, removed stays removed, nothing else appears", async () => {
  await fc.assert(fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 4 }), run), {
    numRuns: RUNS,
    interruptAfterTimeLimit: 60_000,
  });
});

for (const point of POINTS) {
  for (const power of [false, true]) {
    test(`[OGD14] kill at ${point}${power ? ", power cut" : ""}: what was answered holds`, async () => {
      const remove = (from: number): Step => ({ kind: "remove", which: Array.from({ length: 16 }, (_, at) => from + at * 2) });
      const steps: Step[] = [
        { kind: "put", count: 9 },
        { kind: "put", count: 9 },
        { kind: "put", count: 9 },
        remove(0),
        { kind: "compact" },
      ];
      for (let at = 1; at <= 3; at += 1) {
        const first: Life = { kill: { point, at }, steps, power, survive: [0, 3, 1] };
        await run([first, { ...first, steps: [remove(1), { kind: "compact" }, remove(4), { kind: "compact" }] }]);
      }
    });
  }
}
