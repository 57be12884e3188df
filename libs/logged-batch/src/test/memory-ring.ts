import { MemoryKeyValue } from "@concord/port-contracts";
import type { Mutation, RowImage, StepRunner } from "@concord/ports";
import { decodeMutation, encodeImage, encodeRowKey, imageOf, mergeImages } from "@concord/rows";
import {
  assert,
  ConcordError,
  newTimeId,
  plusUs,
  TIMESTAMP_ZERO,
  timestampUsOf,
  toHex,
  type Checksum,
  type Clock,
  type TimeId,
  type Timer,
  type TimestampUs,
} from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { BatchExecutor } from "../batch-executor.ts";
import type { BatchLog } from "../batch-log.ts";
import type { BatchNode, BatchRing } from "../batch-node.ts";
import { localBatchLog, openBatchLog } from "../open-batch-log.ts";
import { BatchReplay } from "../replay.ts";

export const WRITE_TIMEOUT_MS = 1000;
export const GRACE_MS = 2 * WRITE_TIMEOUT_MS;
export const INTERVAL_MS = 10_000;

export const checksum: Checksum = (bytes) => {
  let sum = 2166136261;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 16777619);
  return sum >>> 0;
};

export class ManualClock implements Clock {
  #nowMs = 1_700_000_000_000;
  #timers: { readonly atMs: number; readonly action: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((other) => other !== timer)) };
  }

  defer(action: () => void): void {
    this.setTimer(0, action);
  }

  /** Moves time on, timer by timer; between two of them everything that awaits runs to its end. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const [next] = this.#timers.toSorted((left, right) => left.atMs - right.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.action();
    }
    this.#nowMs = untilMs;
  }
}

/** Lets everything that awaits run to its end. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** What a call between nodes meets. `mute`: it takes effect, the answer is lost. */
export type Link = "up" | "down" | "mute" | "stuck";

/** One running process of a node; after a crash nothing it does has an effect. */
interface Process {
  alive: boolean;
  readonly batchLog: BatchLog;
  readonly executor: BatchExecutor;
  readonly replay: BatchReplay;
}

export interface StepEvent {
  readonly node: string;
  readonly what: "put" | "remove" | "apply";
}

/** One node: what survives a crash, and its process while it runs. */
export class MemoryNode {
  readonly name: string;
  store = new MemoryKeyValue();
  readonly rows = new Map<string, RowImage>();
  process: Process | undefined;

  constructor(name: string) {
    this.name = name;
  }

  apply(mutations: readonly Uint8Array[]): void {
    for (const mutation of mutations.map(decodeMutation)) {
      const name = toHex(encodeRowKey(mutation.key));
      const before = this.rows.get(name);
      this.rows.set(name, before === undefined ? imageOf(mutation) : mergeImages(before, imageOf(mutation)));
    }
  }

  /** All rows as bytes, to compare replicas. */
  contents(): string {
    return [...this.rows]
      .map(([name, image]) => `${name}=${toHex(encodeImage(image))}`)
      .sort()
      .join("\n");
  }
}

/** A ring in memory whose links, crashes and failpoints a test controls. */
export class MemoryRing {
  readonly clock = new ManualClock();
  readonly nodes: MemoryNode[];
  /** "from>to" -> what its calls meet; up when absent. */
  readonly links = new Map<string, Link>();
  /** Every durable step, before it happens: a test may crash a node here. */
  onStep: (event: StepEvent) => void = () => undefined;
  onFailpoint: (node: string, name: string) => void = () => undefined;
  readonly steps: StepEvent[] = [];
  gcGraceMs = 10 * 24 * 3600 * 1000;
  #lastUs = TIMESTAMP_ZERO;

  constructor(size: 1 | 3) {
    this.nodes = Array.from({ length: size }, (_, at) => new MemoryNode(`node-${at}`));
  }

  static async open(size: 1 | 3): Promise<MemoryRing> {
    const ring = new MemoryRing(size);
    for (const node of ring.nodes) await ring.start(node);
    return ring;
  }

  node(at: number): MemoryNode {
    return this.nodes[at]!;
  }

  process(at: number): Process {
    const { process } = this.node(at);
    assert(process !== undefined, "the node runs");
    return process;
  }

  crash(node: MemoryNode): void {
    if (node.process === undefined) return;
    node.process.alive = false;
    node.process = undefined;
    node.store = new MemoryKeyValue(node.store.crash());
  }

  async start(node: MemoryNode): Promise<void> {
    if (node.process !== undefined) return;
    const life = { alive: true };
    const runner = this.#runner(node, life);
    const batchLog = await openBatchLog(node.store, checksum, this.clock);
    const ring = this.#ringOf(node, life, batchLog, runner);
    const executor = new BatchExecutor({ ring, checksum, drawTimestampUs: () => this.#draw() });
    const options = { ring, batchLog, runner, checksum, graceMs: GRACE_MS, intervalMs: INTERVAL_MS, gcGraceMs: this.gcGraceMs };
    node.process = Object.assign(life, { batchLog, executor, replay: new BatchReplay(options) });
  }

  newId(): TimeId {
    const random = {
      bytes: (length: number) => Uint8Array.from({ length }, () => (this.#seed = (this.#seed * 48271) % 0x7fffffff) & 0xff),
      below: () => 0,
      float: () => 0,
    };
    return newTimeId(this.clock, random);
  }

  #seed = 42;

  #draw(): TimestampUs {
    const nowUs = this.clock.nowUs();
    this.#lastUs = nowUs > this.#lastUs ? timestampUsOf(nowUs) : plusUs(this.#lastUs, 2n);
    return this.#lastUs;
  }

  #runner(node: MemoryNode, life: { alive: boolean }): StepRunner {
    return {
      submit: async (step) => {
        if (!life.alive) return new Promise(() => undefined);
        const { store } = node;
        try {
          const loaded = await store.getMany(step.load);
          const { persist, reply } = step.run(loaded);
          await store.batch(persist, { sync: true });
          if (life.alive) return reply;
        } catch (thrown) {
          if (life.alive) throw thrown;
        }
        return new Promise(() => undefined);
      },
    };
  }

  #ringOf(self: MemoryNode, life: { alive: boolean }, ownLog: BatchLog, runner: StepRunner): BatchRing {
    const own = localBatchLog(ownLog, runner);
    const nodes = this.nodes.map((node): BatchNode => {
      const call = (what: StepEvent["what"], act: () => Promise<void>): Promise<void> => {
        return new Promise((resolve, reject) => {
          const error = new ConcordError("DEADLINE_EXCEEDED", `${node.name} does not answer`);
          const timer = this.clock.setTimer(WRITE_TIMEOUT_MS, () => reject(error));
          const settled = (done: () => void): void => {
            timer.cancel();
            done();
          };
          this.#call(self, life, node, what, act).then(
            () => settled(resolve),
            (thrown: Error) => settled(() => reject(thrown)),
          );
        });
      };
      const target = (): Process => node.process ?? fail(node);
      const remote = (make: (log: BatchLog) => Parameters<StepRunner["submit"]>[0]): Promise<void> => {
        const { batchLog } = target();
        return this.#runner(node, target()).submit(make(batchLog)) as Promise<void>;
      };
      return {
        name: node.name,
        batchLog: {
          put: (entries, timeoutMs) => call("put", () => (node === self ? own.put(entries, timeoutMs) : remote((log) => log.put(entries)))),
          remove: (ids, timeoutMs) => call("remove", () => (node === self ? own.remove(ids, timeoutMs) : remote((log) => log.remove(ids)))),
        },
        rows: {
          get reachable() {
            return node.name === self.name || linkIsUp();
          },
          applyRows: (mutations) =>
            call("apply", async () => {
              target();
              node.apply(mutations);
            }),
        },
      };
      function linkIsUp(): boolean {
        return (links.get(`${self.name}>${node.name}`) ?? "up") !== "down" && node.process !== undefined;
      }
    });
    const { links } = this;
    const failpoint = (name: string): void => {
      if (life.alive) this.onFailpoint(self.name, name);
    };
    return { self: self.name, nodes, clock: this.clock, writeTimeoutMs: WRITE_TIMEOUT_MS, failpoint };
  }

  async #call(
    self: MemoryNode,
    life: { alive: boolean },
    node: MemoryNode,
    what: StepEvent["what"],
    act: () => Promise<void>,
  ): Promise<void> {
    await Promise.resolve();
    const link = self === node ? "up" : (this.links.get(`${self.name}>${node.name}`) ?? "up");
    if (!life.alive || link === "stuck") return new Promise(() => undefined);
    if (link === "down") throw new ConcordError("REPLICAS_UNAVAILABLE", `${node.name} is not reachable`);
    const event = { node: node.name, what };
    this.steps.push(event);
    this.onStep(event);
    if (!life.alive) return new Promise(() => undefined);
    if (node.process === undefined) throw new ConcordError("CONNECTION_LOST", `${node.name} is gone`);
    await act();
    if (!life.alive || link === "mute") return new Promise(() => undefined);
  }
}

function fail(node: MemoryNode): never {
  throw new ConcordError("CONNECTION_LOST", `${node.name} is gone`);
}

const text = (value: string): CellValue => ({ kind: "text", value });

/** An insert of one row; each partition has a row of its own unless `clustering` says otherwise. */
export function insert(partition: string, value: string, timestampUs: TimestampUs, clustering?: string): Mutation {
  const key = { table: "photos", partition: [text(partition)], clustering: clustering === undefined ? [] : [text(clustering)] };
  return { kind: "insert", key, columns: [{ column: "v", value: text(value) }], timestampUs };
}

/** Inserts `value` into each partition. */
export function inserts(partitions: readonly string[], value: string): (timestampUs: TimestampUs) => Mutation[] {
  return (timestampUs) => partitions.map((partition) => insert(partition, value, timestampUs));
}

/** The value a node's replica has in a partition's row. */
export function valueAt(node: MemoryNode, partition: string): string | undefined {
  const key = { table: "photos", partition: [text(partition)], clustering: [] };
  const cell = node.rows.get(toHex(encodeRowKey(key)))?.cells.get("v")?.value;
  return cell?.kind === "text" ? cell.value : undefined;
}
