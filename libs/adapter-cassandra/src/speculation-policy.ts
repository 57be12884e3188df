import type { policies } from "cassandra-driver";
import { assert } from "@concord/runtime";
import { SPECULATION_DELAY_MAX_MS, SPECULATION_DELAY_MS, SPECULATIONS_MAX } from "./limits.ts";

/** The delay in what such requests take. */
const DELAY_FACTOR = 3;
/** Weight of the newest request in what they take. */
const NEWEST_SHARE = 1 / 16;

/** What the driver says about an answer. */
export interface AnsweredBy {
  readonly queriedHost: string;
  /** By address, in the order in which they were asked. */
  readonly triedHosts: Readonly<Record<string, unknown>>;
}

/**
 * When a second coordinator is asked for what may be repeated: after a fixed time, or after three times what such requests take where that is
 * longer. A fixed time alone doubles the work of nodes that are busy, just when every request takes longer than it. Only requests that
 * the first coordinator answered count: one that is paused must not make the others wait.
 */
export class SpeculationPolicy implements policies.speculativeExecution.SpeculativeExecutionPolicy {
  /** Milliseconds of a single statement and of a batch. */
  readonly #tookMs = { single: 0, batch: 0 };

  init(): void {
    // Needs no client.
  }

  shutdown(): void {
    // It holds nothing.
  }

  getOptions(): Map<string, object> {
    return new Map();
  }

  newPlan(_: string, query: string | readonly object[]): { nextExecution: () => number } {
    const delayMs = this.delayMs(Array.isArray(query) ? query.length : 1);
    let left = SPECULATIONS_MAX;
    return { nextExecution: () => (left-- > 0 ? delayMs : -1) };
  }

  delayMs(statements: number): number {
    return Math.min(SPECULATION_DELAY_MAX_MS, Math.max(SPECULATION_DELAY_MS, DELAY_FACTOR * this.#tookMs[kindOf(statements)]));
  }

  answered(statements: number, ms: number, { queriedHost, triedHosts }: AnsweredBy): void {
    assert(ms >= 0, "time does not go back");
    const [first] = Object.keys(triedHosts);
    if (first !== queriedHost) return;
    const kind = kindOf(statements);
    this.#tookMs[kind] += (ms - this.#tookMs[kind]) * NEWEST_SHARE;
  }
}

function kindOf(statements: number): "single" | "batch" {
  assert(statements >= 1, "a request has a statement");
  return statements === 1 ? "single" : "batch";
}
