// Two partitions' real workers on the real log: copies, misrouted ids, messages without one, failed syncs, deaths, power cuts, retention and
// lost windows. What is visible stays; nothing acknowledged is lost; each id is there once within the window; results are true.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { openEmbeddedLog } from "@concord/adapter-embedded-log";
import {
  createPartitionWorker,
  ID_HEADER,
  partitionOfId,
  readOrigin,
  SourceFigures,
  type PartitionWorker,
  type InputResult,
} from "@concord/dedup";
import { MemoryWindowStores } from "@concord/dedup/testing";
import { diskOver, LOSE_UNSYNCED, MemoryDisk } from "@concord/port-contracts";
import type { LogTopic, MessageLog, NewMessage } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, type Clock, type Disk } from "@concord/runtime";

const PARTITIONS = 2;
const WINDOW = { idsPerSegment: 16, segmentsMax: 3, windowMs: 0 } as const;
const LIMITS = { segmentBytes: 900, inputBytes: 100_000 };
/** Output: more than the window needs (DDD10), and little enough that some goes. */
const RETENTION = { inputBytes: 3_000, outputBytes: 16_000 };
const TURNS_MAX = 10_000;
const SEEDS = Array.from({ length: 12 }, (_, at) => 20_261_121 + at);

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const IDS = Array.from({ length: 400 }, (_, at) => (at % 2 === 0 ? `id ${at}` : `0a0b0c0d-0000-4000-8000-${String(at).padStart(12, "0")}`));
const idHash = (key: Uint8Array, bytes: Uint8Array): Uint8Array => createHash("sha256").update(key).update(bytes).digest().subarray(0, 16);
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Numbers of one seed. */
function numbersOf(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >>> 8) % limit;
  };
}

/** One process: once it is dead nothing of it reaches disk or stores, and nothing answers it. */
class Life {
  isDead = false;
  readonly disk: Disk;
  readonly died: Promise<void>;
  #die: () => void = () => undefined;

  constructor(disk: MemoryDisk, stores: readonly MemoryWindowStores[], below: (limit: number) => number, points: number) {
    this.died = new Promise((resolve) => (this.#die = resolve));
    this.disk = diskOver(disk.files, async (_, act) => {
      await Promise.resolve();
      return this.isDead ? await new Promise(() => undefined) : act();
    });
    this.#left = points;
    this.opened = this.#open(stores, below);
    // A process whose log does not open ends, and is started again.
    this.opened.catch((thrown: unknown) => {
      if (thrown instanceof ConcordError && thrown.code === "STORE_FAILED") this.kill();
    });
  }

  readonly opened: Promise<{ readonly log: MessageLog; readonly workers: readonly PartitionWorker[] }>;
  #left: number;

  kill(): void {
    this.isDead = true;
    this.#die();
  }

  async #open(stores: readonly MemoryWindowStores[], below: (limit: number) => number) {
    const failpoint = (name: string): void => {
      this.#left -= 1;
      if (this.#left > 0 && !this.isDead) return;
      this.kill();
      throw new Error(`died at ${name}`);
    };
    let nowMs = 1_700_000_000_000;
    const clock: Clock = {
      nowMs: () => nowMs,
      nowUs: () => BigInt(nowMs) * 1000n,
      monotonicMs: () => nowMs,
      setTimer: (delayMs, action) => {
        const immediate = setImmediate(() => {
          nowMs += delayMs;
          action();
        });
        return { cancel: () => clearImmediate(immediate) };
      },
      defer: (action) => void setImmediate(action),
    };
    const random = { bytes: (length: number) => Uint8Array.from({ length }, () => below(256)), below, float: () => 0 };
    const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
    const environment = { clock, random, checksum, log: silentLog, metrics: silentMetrics, failpoint };
    const folder = { disk: this.disk, folder: "log", partitions: PARTITIONS, limits: LIMITS, retention: RETENTION };
    const log = await openEmbeddedLog({ ...environment, ...folder });
    const workers = stores.map((held, partition) => {
      const page = { messages: 1 + below(9), bytes: 1 << 20 };
      const idSources = [{ kind: "header", name: ID_HEADER }] as const;
      const options = { partition, owner: "worker", idSources, missingId: "dead-letter", page, window: WINDOW } as const;
      const guarded = { log: this.#guard(log), stores: this.#guard<typeof held>(held) };
      return createPartitionWorker(options, { ...guarded, hash: idHash, sources: new SourceFigures(silentMetrics, []), environment });
    });
    for (const worker of workers) worker.start().catch(() => undefined);
    return { log, workers };
  }

  #guard<Target extends object>(target: Target): Target {
    return new Proxy(target, {
      get: (object, name): unknown => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== "function") return value;
        return async (...given: unknown[]): Promise<unknown> => {
          if (this.isDead) return new Promise(() => undefined);
          const answer: unknown = await (value as (...all: unknown[]) => unknown).apply(object, given);
          if (this.isDead) return new Promise(() => undefined);
          return name === "open" ? this.#guard(answer as object) : answer;
        };
      },
    });
  }
}

interface Sent {
  readonly value: string;
  readonly id: string | undefined;
  readonly partition: number;
}

/** A message as a reader saw it. */
interface Seen {
  readonly value: string;
  readonly id: string;
}

class History {
  readonly #below: (limit: number) => number;
  readonly #disk = new MemoryDisk();
  #stores = Array.from({ length: PARTITIONS }, () => new MemoryWindowStores());
  #life: Life;
  #count = 0;
  readonly #appended: Sent[] = [];
  readonly #results: (Sent & { readonly result: InputResult })[] = [];
  /** By topic and partition: what was read, by offset, and where to read on. */
  readonly #seen = new Map<string, { readonly messages: Map<bigint, Seen>; next: bigint }>();
  /** Retention was faster than the reader: what it missed cannot be judged. */
  #isMissing = false;

  constructor(seed: number) {
    this.#below = numbersOf(seed);
    this.#life = this.#live(Infinity);
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step += 1) {
      await this.#step(this.#below(20));
      if (this.#life.isDead) this.#restart(this.#below(2) === 0, Infinity);
    }
    for (const _ of ["as it is", "after a power cut"]) {
      await this.#idle();
      await this.#consume();
      this.#restart(true, Infinity);
    }
    await this.#idle();
    await this.#consume();
    assert.ok(!this.#life.isDead, "nothing fails any more");
    this.#life.kill();
    this.#judge();
  }

  async #step(kind: number): Promise<void> {
    if (kind < 10) await this.#send();
    else if (kind < 12) for (let turns = this.#below(20); turns > 0; turns -= 1) await turn();
    else if (kind < 14) await this.#consume();
    else if (kind < 15) this.#disk.files.failNextSync();
    else if (kind < 17) this.#restart(this.#below(2) === 0, 1 + this.#below(60));
    else if (kind < 19) await this.#idle().then(() => this.#consume());
    else if (this.#below(6) === 0) {
      this.#life.kill();
      this.#stores = this.#stores.map(() => new MemoryWindowStores());
      this.#restart(false, Infinity);
    }
  }

  #live(points: number): Life {
    return new Life(this.#disk, this.#stores, this.#below, points);
  }

  #restart(isPowerCut: boolean, points: number): void {
    this.#life.kill();
    this.#disk.files.clearFaults();
    const share = ({ length }: { readonly length: number }): number =>
      Math.round(Math.max(0, Math.min(1, this.#below(150) / 100 - 0.25)) * length);
    if (isPowerCut) this.#disk.crash(this.#below(3) === 0 ? LOSE_UNSYNCED : share);
    this.#stores = this.#stores.map((stores) => stores.restart(isPowerCut ? "power" : "process"));
    this.#life = this.#live(points);
  }

  /** Undefined: it died first. */
  async #alive<Answer>(act: (life: Awaited<Life["opened"]>) => Promise<Answer>): Promise<Answer | undefined> {
    const life = this.#life;
    const answer = life.opened.then(act).catch((thrown: unknown) => {
      if (!life.isDead) throw thrown;
      return undefined;
    });
    return await Promise.race([answer, life.died.then(() => undefined)]);
  }

  async #send(): Promise<void> {
    const partition = this.#below(PARTITIONS);
    const sent = Array.from({ length: 1 + this.#below(20) }, (): Sent => ({
      value: `${(this.#count += 1)}`,
      id: this.#idFor(partition),
      partition,
    }));
    const life = this.#life;
    await this.#alive(async ({ log, workers }) => {
      const appended = log.append(partition, sent.map(messageOf)).then(({ from }) => {
        if (life.isDead) return;
        this.#appended.push(...sent);
        for (const [at, one] of sent.entries()) {
          const settled = workers[partition]!.whenProcessed(from + BigInt(at));
          settled.then((result) => (life.isDead ? 0 : this.#results.push({ ...one, result }))).catch(() => undefined);
        }
      });
      appended.catch(() => undefined);
    });
  }

  #idFor(partition: number): string | undefined {
    if (this.#below(12) === 0) return undefined;
    const isMisrouted = this.#below(15) === 0;
    for (;;) {
      const id = IDS[this.#below(IDS.length)]!;
      if (isMisrouted || partitionOfId(utf8(id), PARTITIONS) === partition)
        return this.#below(2) === 0 && id.startsWith("0a") ? id.toUpperCase() : id;
    }
  }

  /** Until all input is processed. */
  async #idle(): Promise<void> {
    await this.#alive(async ({ workers }) => {
      for (let turns = 0; turns < TURNS_MAX; turns += 1) {
        const all = await Promise.all(workers.map((worker) => worker.statistics()));
        for (const { state } of all) if (state.kind === "stopped") throw state.reason;
        if (all.every(({ state, lag }) => state.kind === "running" && lag === 0n)) return;
        await turn();
      }
      assert.fail("input is left");
    });
  }

  async #consume(): Promise<void> {
    await this.#alive(async ({ log }) => {
      for (const topic of ["output", "dead-letters"] as const) {
        for (let partition = 0; partition < PARTITIONS; partition += 1) await this.#readOn(log, topic, partition);
      }
    });
  }

  async #readOn(log: MessageLog, topic: LogTopic, partition: number): Promise<void> {
    const seen = this.#placeOf(topic, partition);
    const { start, end } = await log.bounds(topic, partition);
    assert.ok(seen.next <= end, `${topic} ${partition}: what was read up to ${seen.next} ends at ${end}`);
    this.#isMissing ||= seen.next < start;
    if (seen.next < start) seen.next = start;
    while (seen.next < end) {
      const page = await log.read(topic, partition, seen.next, { messages: 7, bytes: 1_000 });
      for (const { offset, value, ...rest } of page.messages) {
        const id = readOrigin({ ...rest, value })?.id ?? new Uint8Array();
        seen.messages.set(offset, { value: new TextDecoder().decode(value), id: new TextDecoder().decode(id).toLowerCase() });
      }
      seen.next = page.next;
    }
  }

  #placeOf(topic: LogTopic, partition: number): { readonly messages: Map<bigint, Seen>; next: bigint } {
    const place = `${topic} ${partition}`;
    const held = this.#seen.get(place) ?? { messages: new Map<bigint, Seen>(), next: 0n };
    this.#seen.set(place, held);
    return held;
  }

  #judge(): void {
    const published = new Set<string>();
    const ids = new Set<string>();
    const dead = new Set<string>();
    for (let partition = 0; partition < PARTITIONS; partition += 1) {
      const last = new Map<string, bigint>();
      for (const [offset, { id, value }] of this.#placeOf("output", partition).messages) {
        assert.ok(!published.has(value), `${value} is there twice`);
        const before = last.get(id);
        const isApart = before === undefined || offset - before > BigInt(WINDOW.idsPerSegment * WINDOW.segmentsMax);
        assert.ok(isApart, `${id} at ${before} and at ${offset}`);
        assert.equal(partitionOfId(utf8(id), PARTITIONS), partition);
        last.set(id, offset);
        published.add(value);
        ids.add(id);
      }
      for (const { value } of this.#placeOf("dead-letters", partition).messages.values()) {
        assert.ok(!dead.has(value), `${value} is a dead letter twice`);
        dead.add(value);
      }
    }
    for (const sent of this.#results) this.#judgeResult(sent);
    if (this.#isMissing) return;
    for (const { id, value } of this.#appended) {
      assert.ok(id === undefined ? dead.has(value) : published.has(value) || ids.has(id.toLowerCase()), `${value} with ${id} is lost`);
    }
  }

  #judgeResult({ partition, value, result }: Sent & { readonly result: InputResult }): void {
    if (result.kind !== "accepted" && result.kind !== "dead-lettered") return;
    const { messages } = this.#placeOf(result.kind === "accepted" ? "output" : "dead-letters", partition);
    if (this.#isMissing && !messages.has(result.offset)) return;
    assert.equal(messages.get(result.offset)?.value, value, `${result.kind} at ${result.offset}`);
  }
}

function messageOf({ value, id }: Sent): NewMessage {
  const headers = id === undefined ? [] : [{ name: ID_HEADER, value: utf8(id) }];
  return { key: new Uint8Array(), value: utf8(value), headers, timestampMs: 7 };
}

for (const seed of SEEDS) {
  test(`[DD10] [DD15] random crashes: seed ${seed}: nothing lost, nothing twice, results true`, () => new History(seed).run(60));
}
