// A process with a low limit of open files and a store: takes all descriptors in the named situation and prints what the store answers.
import { closeSync, openSync, readdirSync, rmSync } from "node:fs";
import { devNull } from "node:os";
import { join } from "node:path";
import type { BackingStore } from "@concord/ports";
import { DescriptorReserve, type Clock } from "@concord/runtime";
import { openLevel } from "../index.ts";
import { copyAtOneMoment } from "./copy-at-one-moment.ts";

const [situation, root] = process.argv.slice(2) as [string, string];
const folder = join(root, "store");
const ALL = { from: Uint8Array.of(1), to: Uint8Array.of(255), limit: 100_000 };
const VALUE_BYTES = 64 * 1024;
/** Values of that size after which the next write replaces the log. */
const FULL_LOG = (16 * 1024 * 1024) / VALUE_BYTES;
/** Waits of 50 ms. */
const TEN_MINUTES_WAITS = 12_000;
/** Writes that do not fill a log. */
const TRIES = FULL_LOG / 2;

/** Descriptors that strangers hold. */
const taken: number[] = [];
/** Waits after which they release them; the store's clock counts its waits. */
let releaseAfter = Infinity;
let waits = 0;
/** Called when the store is about to be closed and opened again. */
let beforeReopening = (): void => undefined;

/** Strangers take what the reserve releases before the store does. */
let areFaster = false;

function takeAllBut(count: number): void {
  areFaster = true;
  try {
    for (;;) taken.push(openSync(devNull, "r"));
  } catch {
    for (const one of taken.splice(0, count)) closeSync(one);
  }
}

function releaseAll(): void {
  areFaster = false;
  for (const one of taken.splice(0)) closeSync(one);
}

const clock = {
  monotonicMs: () => 50 * waits,
  setTimer: (_ms: number, action: () => void) => {
    waits += 1;
    if (waits >= releaseAfter) releaseAll();
    setImmediate(action);
    return { cancel: () => undefined };
  },
} as unknown as Clock;

const reserve = new DescriptorReserve({
  clock,
  open: () => {
    const descriptor = openSync(devNull, "r");
    beforeReopening();
    return descriptor;
  },
  close: (descriptor) => {
    closeSync(descriptor);
    if (areFaster) taken.push(openSync(devNull, "r"));
  },
});
reserve.fill();

const put = (number: number, bytes = 10) => ({
  kind: "put" as const,
  key: Buffer.from(`k${String(number).padStart(6, "0")}`),
  value: new Uint8Array(bytes).fill(number),
});

async function outcome(answer: Promise<unknown>): Promise<string> {
  return answer.then(
    () => "resolved",
    ({ code, applied }: { code: string; applied: string }) => `${code}/${applied}`,
  );
}

/** Rows of a copy without logs, which is what a power cut may leave. */
async function rowsOnDisk(): Promise<number> {
  const copy = join(root, "copy");
  await copyAtOneMoment(folder, copy, (path) => !path.endsWith(".log"));
  const store = await openLevel(copy, reserve);
  const rows = await store.range(ALL);
  await store.close();
  return rows.length;
}

/** A store of several tables that has read none of them. */
async function coldStore(): Promise<BackingStore> {
  const store = await openLevel(folder, reserve);
  for (const rows of [
    [1, 4],
    [2, 5],
    [3, 6],
  ]) {
    await store.batch(rows.map((number) => put(number)));
    await store.flush();
  }
  await store.close();
  return openLevel(folder, reserve);
}

const SITUATIONS: Readonly<Record<string, () => Promise<unknown>>> = {
  async reads() {
    const store = await coldStore();
    takeAllBut(0);
    const keys = Array.from({ length: 40 }, (_, number) => put(number).key);
    const refused = await Promise.all([
      outcome(store.getMany([put(1).key])),
      outcome(store.getMany(keys)),
      outcome(store.range(ALL)),
      outcome(store.range({ ...ALL, bytesMax: 30 })),
      outcome(store.evidence()),
    ]);
    const waited = waits;
    releaseAfter = waits + 3;
    const rows = await store.range(ALL);
    await store.close();
    return [...new Set(refused), waited > 0, rows.length];
  },

  async reserve() {
    const store = await coldStore();
    takeAllBut(0);
    areFaster = false;
    const answers = [
      await outcome(store.getMany([put(1).key])),
      await outcome(store.batch([put(7)])),
      await outcome(store.flush()),
      await outcome(store.evidence()),
    ];
    const rows = await store.range(ALL);
    await store.close();
    return [...new Set(answers), waits, rows.length];
  },

  async flush() {
    const store = await openLevel(folder, reserve);
    await store.batch([put(1), put(2)]);
    takeAllBut(0);
    releaseAfter = waits + 3;
    const flushed = await outcome(store.flush());
    releaseAll();
    const found = [flushed, await rowsOnDisk(), (await store.range(ALL)).length];
    await store.batch([put(3)]);
    await store.close();
    return found;
  },

  async fullLog() {
    const store = await openLevel(folder, reserve);
    takeAllBut(0);
    releaseAfter = waits + 3;
    for (let number = 0; number < 2 * FULL_LOG; number += 1) await store.batch([put(number, VALUE_BYTES)]);
    const waited = waits > 0;
    releaseAll();
    const rows = await store.range(ALL);
    await store.flush();
    await store.close();
    return [waited, rows.length === 2 * FULL_LOG, (await rowsOnDisk()) === 2 * FULL_LOG];
  },

  /**
   * The log is replaced, and then its table cannot be written: LevelDB refuses every later write. One thread writes the tables of all stores: it
   * is at that of the other while the descriptors are taken.
   */
  async background() {
    const store = await openLevel(folder, reserve);
    let written = 0;
    while (waits === 0 && written < 20 * FULL_LOG) {
      const other = await openLevel(join(root, `other-${written}`), reserve);
      for (let number = 0; number < FULL_LOG; number += 1) {
        await store.batch([put((written += 1), VALUE_BYTES)]);
        await other.batch([put(number, VALUE_BYTES)]);
      }
      await other.batch([put(0)]);
      await store.batch([put((written += 1), VALUE_BYTES)]);
      takeAllBut(0);
      releaseAfter = waits + 3;
      for (let tries = 0; waits === 0 && tries < TRIES; tries += 1) {
        await store.batch([put(written, VALUE_BYTES)]);
        // The file of the other's table is closed.
        if (waits === 0) takeAllBut(0);
      }
      releaseAll();
      await store.flush();
      await other.close();
    }
    const rows = await store.range(ALL);
    await store.close();
    return [waits > 0, rows.length === written, (await rowsOnDisk()) === written];
  },

  /** LevelDB ignores that it cannot open a log, and removes it. */
  async lostLog() {
    const store = await openLevel(folder, reserve);
    await store.batch([put(1), put(2)]);
    await store.evidence();
    await store.batch([put(2, 20), { kind: "delete", key: put(1).key }, put(3)]);
    takeAllBut(0);
    releaseAfter = waits + 3;
    beforeReopening = () => {
      for (const name of readdirSync(folder)) if (name.endsWith(".log")) rmSync(join(folder, name));
    };
    const flushed = await outcome(store.flush());
    beforeReopening = () => undefined;
    releaseAll();
    const rows = (await store.range(ALL)).map(({ key, value }) => `${Buffer.from(key).toString()}: ${value.length}`);
    const evidence = await store.evidence();
    await store.close();
    const later = await openLevel(folder, reserve);
    const holds = later.holds(evidence);
    await later.close();
    return [flushed, rows, await rowsOnDisk(), holds];
  },

  /** Far beyond any wait of one call. */
  async tenMinutes() {
    const store = await openLevel(folder, reserve);
    await store.batch([put(1)]);
    takeAllBut(0);
    const fromMs = clock.monotonicMs();
    releaseAfter = waits + TEN_MINUTES_WAITS;
    const written = [outcome(store.flush()), outcome(store.batch([put(2)]))];
    const outcomes = await Promise.all(written);
    const waitedMs = clock.monotonicMs() - fromMs;
    await store.flush();
    const rows = (await store.range(ALL)).length;
    await store.close();
    return [...outcomes, waitedMs >= 600_000, rows, await rowsOnDisk()];
  },

  async leaving() {
    const store = await openLevel(folder, reserve);
    await store.batch([put(1)]);
    takeAllBut(0);
    const flushed = outcome(store.flush());
    while (waits < 200) await new Promise((resolve) => setImmediate(resolve));
    store.refuseWaiting!();
    const outcomes = [await flushed, await outcome(store.batch([put(2)]))];
    releaseAll();
    await store.close();
    const later = await openLevel(folder, reserve);
    const rows = await later.range(ALL);
    await later.close();
    return [...outcomes, rows.length];
  },

  async opening() {
    const store = await openLevel(folder, reserve);
    await store.batch([put(1)]);
    await store.close();
    takeAllBut(0);
    const refused = [await outcome(openLevel(folder, reserve)), await outcome(openLevel(join(root, "other"), reserve))];
    releaseAfter = waits + 3;
    const later = await openLevel(folder, reserve);
    const rows = await later.range(ALL);
    await later.close();
    return [...refused, rows.length];
  },
};

console.log(JSON.stringify(await SITUATIONS[situation]!()));
