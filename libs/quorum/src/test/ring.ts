// Replicas over memory stores whose answers a test can hold, drop, lose or spoil; time by hand.
import { crc32 } from "node:zlib";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { LogPosition, StepRunner, StoreStep } from "@concord/ports";
import { ConcordError, SEQ_NONE, silentLog, type Clock, type Seq, type Timer, type TimestampUs } from "@concord/runtime";
import {
  Forgotten,
  LocalRowReplica,
  QuorumRowStore,
  type ExchangeTime,
  type OnRow,
  type ReplicaPage,
  type ReplicaRange,
  type RowReplica,
} from "../index.ts";

export const checksum = (bytes: Uint8Array): number => crc32(bytes);

export class ManualClock implements Clock {
  ms = 1_000_000;
  readonly #timers = new Set<{ atMs: number; action: () => void }>();

  nowMs(): number {
    return this.ms;
  }

  nowUs(): bigint {
    return BigInt(this.ms) * 1000n;
  }

  monotonicMs(): number {
    return this.ms;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.ms + delayMs, action };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  defer(action: () => void): void {
    void Promise.resolve().then(action);
  }

  get timers(): number {
    return this.#timers.size;
  }

  async pass(durationMs: number): Promise<void> {
    this.ms += durationMs;
    for (const timer of [...this.#timers].sort((left, right) => left.atMs - right.atMs)) {
      if (timer.atMs <= this.ms && this.#timers.delete(timer)) timer.action();
    }
    await turn();
  }
}

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Steps one after another, each one durable before the next: the contract of StepRunner in its simplest form. */
export class PlainRunner implements StepRunner {
  readonly #store: MemoryKeyValue;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: MemoryKeyValue) {
    this.#store = store;
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const reply = this.#last.then(async () => {
      const effects = step.run(await this.#store.getMany(step.load));
      await this.#store.batch(effects.persist, { sync: true });
      return effects.reply;
    });
    this.#last = reply.catch(() => undefined);
    return reply;
  }
}

export type Behaviour =
  | "normal"
  /** Acts and answers when the test releases it. */
  | "held"
  /** Acts, but the answer is lost: the caller hears nothing. */
  | "mute"
  /** Does not act; the call fails at once and nothing was sent. */
  | "refusing"
  /** Acts, then the connection breaks. */
  | "breaking";

/** A link to a replica. */
export class TestReplica implements RowReplica {
  readonly name: string;
  readonly store = new MemoryKeyValue();
  readonly forgotten = new Forgotten(this.store.incarnation, checksum);
  reachable = true;
  behaviour: Behaviour = "normal";
  readonly calls: string[] = [];
  onRow: OnRow = () => undefined;
  /** What the test's log does when this replica is to catch up. */
  onCatchUp: (group: string, seq: bigint) => Promise<void> = () => Promise.resolve();
  #held: (() => void)[] = [];
  readonly #applied = new Map<string, Seq>();
  readonly #local: LocalRowReplica;

  constructor(name: string) {
    this.name = name;
    this.#local = new LocalRowReplica({
      name,
      runner: new PlainRunner(this.store),
      reader: {
        getMany: (keys) => this.store.getMany(keys),
        range: (range) => this.store.range(range),
        rangeAtOnce: (range) => this.store.range(range),
      },
      hasAllRows: true,
      catchUp: async (group, seq) => {
        await this.onCatchUp(group, seq);
        if (seq > this.#appliedSeq(group)) this.#applied.set(group, seq);
      },
      appliedSeq: (group) => this.#appliedSeq(group),
      forgotten: this.forgotten,
      checksum,
      log: silentLog,
      onRow: (...row) => this.onRow(...row),
    });
  }

  get collection(): string {
    return this.forgotten.collection;
  }

  applyRows(mutations: readonly Uint8Array[]): Promise<TimestampUs> {
    return this.#call(`apply ${mutations.length}`, () => this.#local.applyRows(mutations));
  }

  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined, _timeoutMs?: number): Promise<boolean> {
    return this.#call(`apply ${mutations.length}`, () => this.#local.applyCopies(mutations, collection));
  }

  readRows(
    keys: readonly Uint8Array[],
    timeoutMs: number,
    after: readonly LogPosition[],
    _time?: ExchangeTime,
  ): Promise<readonly Uint8Array[]> {
    return this.#call(`read ${keys.length}`, () => this.#local.readRows(keys, timeoutMs, after));
  }

  readRowRange(range: ReplicaRange, timeoutMs: number, after: readonly LogPosition[], _time?: ExchangeTime): Promise<ReplicaPage> {
    return this.#call(`range ${range.limit}`, () => this.#local.readRowRange(range, timeoutMs, after));
  }

  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    return this.#call(`catch up ${group} ${seq}`, () => this.#local.catchUp(group, seq, timeoutMs));
  }

  #appliedSeq(group: string): Seq {
    return this.#applied.get(group) ?? SEQ_NONE;
  }

  /** Lets held calls go. */
  async release(): Promise<void> {
    this.behaviour = "normal";
    for (const go of this.#held.splice(0)) go();
    await turn();
  }

  async #call<Answer>(name: string, act: () => Promise<Answer>): Promise<Answer> {
    this.calls.push(name);
    switch (this.behaviour) {
      case "normal":
        return act();
      case "held":
        await new Promise<void>((resolve) => this.#held.push(resolve));
        return act();
      case "mute":
        await act();
        return new Promise<never>(() => undefined);
      case "refusing":
        throw new ConcordError("CONNECTION_LOST", "nothing was sent", { applied: "no" });
      case "breaking":
        await act();
        throw new ConcordError("CONNECTION_LOST", "the answer is lost");
    }
  }
}

export interface TestRing {
  readonly clock: ManualClock;
  readonly replicas: readonly TestReplica[];
  readonly rows: QuorumRowStore;
}

export function testRing(size: 1 | 3): TestRing {
  const clock = new ManualClock();
  const replicas = Array.from({ length: size }, (_, at) => new TestReplica(`r${at + 1}`));
  return { clock, replicas, rows: new QuorumRowStore({ replicas, clock, checksum }) };
}
