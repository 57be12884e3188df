import { MemoryKeyValue } from "@concord/port-contracts";
import type { KeyRange, Mutation, RowImage, StepRunner, StoreStep } from "@concord/ports";
import { applyRowsStep, openRow, ROWS_NAMESPACE, storedRowKey } from "@concord/quorum";
import { HintDelivery, HintStore, type HintedPeer } from "@concord/repair";
import { decodeImage, encodeImage, encodeRowKey } from "@concord/rows";
import {
  assert,
  ConcordError,
  newTimeId,
  plusUs,
  silentLog,
  silentMetrics,
  TIMESTAMP_ZERO,
  timestampUsOf,
  toHex,
  type Checksum,
  type Clock,
  type Log,
  type Metrics,
  type TimeId,
  type Timer,
  type TimestampUs,
} from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { ENTRY_RANGE, idOfKey } from "../batch-entry.ts";
import { BatchExecutor } from "../batch-executor.ts";
import { PENDING_LIMITS, type BatchLog } from "../batch-log.ts";
import type { BatchLogWrite, BatchLogWritten, BatchNode, BatchRing } from "../batch-node.ts";
import { GC_GRACE_MS } from "../limits.ts";
import { DecidedRows, type DecidedRowsOptions } from "../decided-rows.ts";
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
  readonly hints: HintStore;
  readonly deliverTo: (peer: string) => Promise<boolean>;
  readonly runner: StepRunner;
  readonly rows: DecidedRows<never, never>;
}

export interface StepEvent {
  readonly node: string;
  readonly what: "put" | "decide" | "remove" | "apply";
}

/** One node: what survives a crash, and its process while it runs. */
export class MemoryNode {
  readonly name: string;
  /** What its disk takes of entries and rows, one write behind the other; it is busy until then. */
  diskBytesPerMs = Number.POSITIVE_INFINITY;
  busyUntilMs = 0;
  /** Wall clock of this node ahead of the others'. */
  aheadMs = 0;
  /** Deletions up to this one, which the test says. */
  readonly forgotten = { newestUs: TIMESTAMP_ZERO };
  store = new MemoryKeyValue();
  process: Process | undefined;

  constructor(name: string) {
    this.name = name;
  }

  /** Images of the stored rows by row key, those of undecided batches not among them. */
  get rows(): Map<string, RowImage> {
    const stored = this.store.contents().filter(({ key }) => key[0] === ROWS_NAMESPACE);
    return new Map(stored.map(({ key, value }) => [toHex(key.subarray(1)), decodeImage(openRow(value, checksum).image)]));
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
  gcGraceMs = GC_GRACE_MS;
  /** Without comparisons nothing replaces a hint that is too old. */
  hintGraceMs = GC_GRACE_MS;
  hintBytesMax = 1024 * 1024;
  pendingMax = PENDING_LIMITS;
  checkSizes: NonNullable<BatchRing["checkSizes"]> = () => undefined;
  /** Where its nodes say and count. */
  observed: { readonly log: Log; readonly metrics: Metrics } = { log: silentLog, metrics: silentMetrics };
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

  /** A byte of an entry on the disk of a node that is down is another one now. Answers its batch; undefined: it has none. */
  async damageEntry(node: MemoryNode): Promise<TimeId | undefined> {
    assert(node.process === undefined, "what a running node has read is in its memory");
    const [entry] = await node.store.range({ ...ENTRY_RANGE, limit: 1 });
    if (entry === undefined) return undefined;
    const value = entry.value.map((byte, at) => (at === entry.value.length - 1 ? byte ^ 1 : byte));
    await node.store.batch([{ kind: "put", key: entry.key, value }], { sync: true });
    return idOfKey(entry.key);
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
    const clock = this.#clockOf(node);
    const batchLog = await openBatchLog(node.store, checksum, clock, node.forgotten, {
      limits: this.pendingMax,
      onSuperseded: (coordinator) => void (coordinator === node.name && this.observed.metrics.count("batch_superseded_total", 1)),
    });
    const { observed } = this;
    const reader = { range: async (range: KeyRange) => (await runner.submit({ load: [], run: () => NOTHING }), node.store.range(range)) };
    const hints = await HintStore.open(node.store, { runner, reader, checksum, ...observed, bytesMax: this.hintBytesMax });
    const ring = this.#ringOf(node, life, localBatchLog(batchLog, runner), hints);
    const executor = new BatchExecutor({
      ...observed,
      ring,
      batchLog,
      checksum,
      drawTimestampUs: () => this.#draw(clock),
      forgotten: node.forgotten,
    });
    const options = { ring, batchLog, runner, checksum, graceMs: GRACE_MS, intervalMs: INTERVAL_MS, gcGraceMs: this.gcGraceMs };
    const replay = new BatchReplay(options);
    const rows = new DecidedRows({ rows: storedRows(node, runner), batchLog, whenDecided: (held) => replay.whenDecided(held) });
    const peers = ring.nodes.filter(({ name }) => name !== node.name).map(hintedPeer);
    const delivery = new HintDelivery({
      hints,
      peers,
      clock,
      timeoutMs: WRITE_TIMEOUT_MS,
      gcGraceMs: this.hintGraceMs,
      ...observed,
    });
    const deliverTo = (peer: string): Promise<boolean> => delivery.deliver(peers.find(({ name }) => name === peer)!);
    node.process = Object.assign(life, { batchLog, executor, replay, hints, deliverTo, runner, rows });
  }

  /** What a reader finds in a partition's row at a node: "none", "waits" for a batch to be decided, or the value. */
  read(at: number, partition: string): Promise<string> {
    return this.readAs(at, partition, (image) => valueOf(image) ?? "none");
  }

  /** The same of the row as `shown`. */
  async readAs(at: number, partition: string, shown: (image: RowImage | undefined) => string): Promise<string> {
    let found = "waits";
    const key = encodeRowKey({ table: "photos", partition: [text(partition)], clustering: [] });
    void this.process(at)
      .rows.readRows([key], 1000, [])
      .then(
        ([image]) => (found = shown(image!.length === 0 ? undefined : decodeImage(image!))),
        (thrown: unknown) => (found = thrown instanceof ConcordError ? thrown.code : String(thrown)),
      );
    await settle();
    return found;
  }

  /** Every node that runs hands over what it can. */
  async deliverHints(): Promise<void> {
    const delivered = this.nodes.map(async ({ name, process }) => {
      for (const peer of this.nodes) if (process !== undefined && peer.name !== name) await process.deliverTo(peer.name);
    });
    const done = Promise.all(delivered);
    await this.clock.advance(WRITE_TIMEOUT_MS);
    await done;
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

  #clockOf(node: MemoryNode): Clock {
    const { clock } = this;
    return {
      nowMs: () => clock.nowMs() + node.aheadMs,
      nowUs: () => clock.nowUs() + 1000n * BigInt(node.aheadMs),
      monotonicMs: () => clock.monotonicMs(),
      setTimer: (delayMs, action) => clock.setTimer(delayMs, action),
      defer: (action) => clock.defer(action),
    };
  }

  #draw(clock: Clock): TimestampUs {
    const nowUs = clock.nowUs();
    this.#lastUs = nowUs > this.#lastUs ? timestampUsOf(nowUs) : plusUs(this.#lastUs, 2n);
    return this.#lastUs;
  }

  /** One step after the other, as the engine runs them. */
  #runner(node: MemoryNode, life: { alive: boolean }): StepRunner {
    const { store } = node;
    let last: Promise<unknown> = Promise.resolve();
    const run = async <Reply>(step: StoreStep<Reply>): Promise<Reply> => {
      if (!life.alive) return new Promise(() => undefined);
      try {
        const { persist, reply } = step.run(await store.getMany(step.load));
        if (persist.length > 0) await store.batch(persist, { sync: true });
        if (life.alive) return reply;
      } catch (thrown) {
        if (life.alive) throw thrown;
      }
      return new Promise(() => undefined);
    };
    return {
      submit: (step) => {
        const result = last.then(() => run(step));
        last = result.catch(() => undefined);
        return result;
      },
    };
  }

  #ringOf(self: MemoryNode, life: { alive: boolean }, own: BatchNode["batchLog"], hints: HintStore): BatchRing {
    const { links } = this;
    const nodes = this.nodes.map((node): BatchNode => {
      const call = <Result>(
        what: readonly StepEvent["what"][],
        act: () => Promise<Result>,
        { bytes = 0, timeoutMs = WRITE_TIMEOUT_MS }: { readonly bytes?: number; readonly timeoutMs?: number } = {},
      ): Promise<Result> => {
        return new Promise((resolve, reject) => {
          const error = new ConcordError("DEADLINE_EXCEEDED", `${node.name} does not answer`);
          const timer = this.clock.setTimer(timeoutMs, () => reject(error));
          const settled = (done: () => void): void => {
            timer.cancel();
            done();
          };
          const slowly = async (): Promise<Result> => {
            await this.#written(node, bytes);
            return act();
          };
          this.#call(self, life, node, what, slowly).then(
            (result) => settled(() => resolve(result)),
            (thrown: Error) => settled(() => reject(thrown)),
          );
        });
      };
      const target = (): Process => node.process ?? fail(node);
      const remote = (request: BatchLogWrite): Promise<BatchLogWritten> => {
        const { batchLog, runner } = target();
        return runner.submit(batchLog.write(request));
      };
      const write = (request: BatchLogWrite, timeoutMs: number): Promise<BatchLogWritten> =>
        call(whatOf(request), () => (node === self ? own.write(request, timeoutMs) : remote(request)), {
          bytes: request.entries.reduce((sum, entry) => sum + entry.length, 0),
          timeoutMs,
        });
      const applyRows = (mutations: readonly Uint8Array[], timeoutMs: number): Promise<void> =>
        call(["apply"], async () => void (await target().runner.submit(applyRowsStep(mutations, checksum))), {
          bytes: mutations.reduce((sum, mutation) => sum + mutation.length, 0),
          timeoutMs,
        });
      const isUp = (): boolean => (links.get(`${self.name}>${node.name}`) ?? "up") !== "down" && node.process !== undefined;
      const rows = {
        get reachable(): boolean {
          return node === self || isUp();
        },
        applyRows,
      };
      const want = (): void => void call([], async () => target().executor.want()).catch(() => undefined);
      return { name: node.name, batchLog: { write }, rows, want };
    });
    const failpoint = (name: string): void => {
      if (life.alive) this.onFailpoint(self.name, name);
    };
    const hint: BatchRing["hint"] = (node, createdMs, mutations) => hints.add(node, createdMs, mutations);
    const { checkSizes } = this;
    return { self: self.name, nodes, clock: this.#clockOf(self), writeTimeoutMs: WRITE_TIMEOUT_MS, failpoint, checkSizes, hint };
  }

  /** Resolves when the node's disk has taken so much, behind what came before. */
  async #written(node: MemoryNode, bytes: number): Promise<void> {
    if (bytes === 0 || node.diskBytesPerMs === Number.POSITIVE_INFINITY) return;
    const nowMs = this.clock.monotonicMs();
    node.busyUntilMs = Math.max(node.busyUntilMs, nowMs) + bytes / node.diskBytesPerMs;
    await new Promise<void>((resolve) => void this.clock.setTimer(node.busyUntilMs - nowMs, resolve));
  }

  async #call<Result>(
    self: MemoryNode,
    life: { alive: boolean },
    node: MemoryNode,
    what: readonly StepEvent["what"][],
    act: () => Promise<Result>,
  ): Promise<Result> {
    await Promise.resolve();
    const link = self === node ? "up" : (this.links.get(`${self.name}>${node.name}`) ?? "up");
    if (!life.alive || link === "stuck") return new Promise(() => undefined);
    if (link === "down") throw new ConcordError("REPLICAS_UNAVAILABLE", `${node.name} is not reachable`);
    for (const event of what.map((one) => ({ node: node.name, what: one }))) {
      this.steps.push(event);
      this.onStep(event);
    }
    if (!life.alive) return new Promise(() => undefined);
    if (node.process === undefined) throw new ConcordError("CONNECTION_LOST", `${node.name} is gone`);
    const result = await act();
    if (!life.alive || link === "mute") return new Promise(() => undefined);
    return result;
  }
}

function whatOf({ entries, decided, removed }: BatchLogWrite): StepEvent["what"][] {
  const lists = { put: entries, decide: decided, remove: removed };
  return (["put", "decide", "remove"] as const).filter((what) => lists[what].length > 0);
}

function storedRows(node: MemoryNode, runner: StepRunner): DecidedRowsOptions<never, never>["rows"] {
  return {
    name: node.name,
    reachable: true,
    collection: "none",
    applyRows: async (mutations) => {
      await runner.submit(applyRowsStep(mutations, checksum));
      return TIMESTAMP_ZERO;
    },
    applyCopies: () => Promise.reject(new Error("no test repairs a row")),
    readRows: (keys) =>
      runner.submit({
        load: keys.map(storedRowKey),
        run: (loaded) => ({
          persist: [],
          reply: loaded.map((stored) => (stored === undefined ? new Uint8Array() : openRow(stored, checksum).image)),
        }),
      }),
    readRowRange: () => Promise.reject(new Error("no test reads a range")),
    catchUp: () => Promise.reject(new Error("no batch is of a group")),
  };
}

function fail(node: MemoryNode): never {
  throw new ConcordError("CONNECTION_LOST", `${node.name} is gone`);
}

const NOTHING = { persist: [], reply: undefined };

function hintedPeer({ name, rows }: BatchNode): HintedPeer {
  return {
    name,
    get reachable() {
      return rows.reachable;
    },
    applyRows: (mutations, timeoutMs) => rows.applyRows(mutations, timeoutMs),
  };
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
  return valueIn(node.rows, partition);
}

export function valueIn(rows: ReadonlyMap<string, RowImage>, partition: string): string | undefined {
  const key = { table: "photos", partition: [text(partition)], clustering: [] };
  return valueOf(rows.get(toHex(encodeRowKey(key))));
}

function valueOf(image: RowImage | undefined): string | undefined {
  const cell = image?.cells.get("v")?.value;
  return cell?.kind === "text" ? cell.value : undefined;
}
