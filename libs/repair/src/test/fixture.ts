// Stores and peers in memory, time by hand.
import { crc32 } from "node:zlib";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { Mutation, StepRunner, StoreStep } from "@concord/ports";
import { encodeMutation } from "@concord/rows";
import { timestampUsOf, type Clock, type Metrics, type Timer } from "@concord/runtime";

export const checksum = (bytes: Uint8Array): number => crc32(bytes);

export class ManualClock implements Clock {
  ms = 1_700_000_000_000;
  readonly #timers = new Set<{ readonly atMs: number; readonly action: () => void }>();

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
    return { cancel: () => void this.#timers.delete(timer) };
  }

  defer(action: () => void): void {
    this.setTimer(0, action);
  }

  /** Moves time on, timer by timer; between two of them everything that awaits runs to its end. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.ms + ms;
    for (;;) {
      await turn();
      const [next] = [...this.#timers].sort((left, right) => left.atMs - right.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#timers.delete(next);
      this.ms = Math.max(this.ms, next.atMs);
      next.action();
    }
    this.ms = untilMs;
  }
}

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** One step after the other, each durable before the next. */
export class PlainRunner implements StepRunner {
  readonly #store: MemoryKeyValue;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: MemoryKeyValue) {
    this.#store = store;
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const reply = this.#last.then(async () => {
      const effects = step.run(await this.#store.getMany(step.load));
      if (effects.persist.length > 0) await this.#store.batch(effects.persist, { sync: true });
      return effects.reply;
    });
    this.#last = reply.catch(() => undefined);
    return reply;
  }
}

/** Counts by name and labels. */
export class CountingMetrics implements Metrics {
  readonly counts: Record<string, number> = {};

  count(name: string, value = 1, labels: Readonly<Record<string, string>> = {}): void {
    const key = [name, ...Object.values(labels)].join(" ");
    this.counts[key] = (this.counts[key] ?? 0) + value;
  }

  gauge(): void {}

  observe(): void {}
}

export const rowKey = (row: string): Mutation["key"] => ({ table: "notes", partition: [{ kind: "text", value: row }], clustering: [] });

export function insert(row: string, value: string, timestampUs: number): Uint8Array {
  const columns = [{ column: "v", value: { kind: "text", value } as const }];
  return encodeMutation({ kind: "insert", key: rowKey(row), columns, timestampUs: timestampUsOf(BigInt(timestampUs)) });
}

export function removal(row: string, timestampUs: number): Uint8Array {
  return encodeMutation({ kind: "delete", key: rowKey(row), timestampUs: timestampUsOf(BigInt(timestampUs)) });
}
