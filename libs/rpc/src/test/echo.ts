/** The service, clocks and recorders of this lib's own tests. */
import { EchoService, type EchoRequest, type EchoResponseInit } from "@concord/protos-test";
import { ConcordError, silentLog, type Clock, type Metrics, type Timer, type Tracer } from "@concord/runtime";
import { tokenAuthenticator, type RoleToken } from "../auth.ts";
import { defineService, type Handlers, type Service } from "../service.ts";
import type { HandlerContext, ServiceLimits } from "../service-core.ts";

export const ECHO = EchoService.name;
export const TOKENS: readonly RoleToken[] = [
  { role: "coordinator", token: "coordinator-secret" },
  { role: "peer", token: "peer-secret" },
];

export { EchoService, type EchoRequest };

export interface EchoOptions {
  readonly clock: Clock;
  readonly echo?: (request: EchoRequest, context: HandlerContext) => Promise<EchoResponseInit>;
  readonly metrics?: Metrics;
  readonly limits?: Partial<ServiceLimits>;
  readonly tokens?: readonly RoleToken[];
  readonly tracer?: Tracer;
}

/** Echo for clients, LogAppend for coordinators only; serving. */
export function echoService(options: EchoOptions): Service {
  const service = defineService(
    {
      contract: EchoService,
      unary: {
        // A test answers with the fields it is about.
        Echo: (options.echo ?? ((request) => Promise.resolve(request))) as Handlers<EchoService>["Echo"],
        LogAppend: (request) => Promise.resolve({ seq: request.seq }),
      },
      roles: { Echo: ["client", "coordinator", "peer"], LogAppend: ["coordinator"] },
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    },
    {
      clock: options.clock,
      log: silentLog,
      metrics: options.metrics ?? recordingMetrics(),
      authenticator: tokenAuthenticator(options.tokens ?? TOKENS),
      tracer: options.tracer,
    },
  );
  service.setState("serving");
  return service;
}

export interface RecordingMetrics extends Metrics {
  readonly counts: Map<string, number>;
}

/** Sums counters and keeps the last gauge under "name" or "name{a=b}". */
export function recordingMetrics(): RecordingMetrics {
  const counts = new Map<string, number>();
  const key = (name: string, labels: Readonly<Record<string, string>> = {}): string =>
    Object.keys(labels).length === 0
      ? name
      : `${name}{${Object.entries(labels)
          .map(([label, value]) => `${label}=${value}`)
          .join(",")}}`;
  const add = (name: string, value: number): void => void counts.set(name, (counts.get(name) ?? 0) + value);
  return {
    counts,
    count: (name, value = 1, labels) => add(key(name, labels), value),
    gauge: (name, value, labels) => void counts.set(key(name, labels), value),
    observe: (name, _value, labels) => add(key(name, labels), 1),
  };
}

/** The real clock, for tests with real sockets. */
export const realClock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1000n,
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, action): Timer => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (action) => void setImmediate(action),
};

/** Time that moves when the test says so; deferred work runs in `settle`. */
export class ManualClock implements Clock {
  #nowMs = 1_000_000;
  #timers: { readonly atMs: number; readonly action: () => void }[] = [];
  #deferred: (() => void)[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  get armedTimers(): number {
    return this.#timers.length;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    this.#deferred.push(action);
  }

  /** Runs deferred work and promise reactions until none is left. */
  async settle(): Promise<void> {
    do {
      for (const action of this.#deferred.splice(0)) action();
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    } while (this.#deferred.length > 0);
  }

  async advance(ms: number): Promise<void> {
    await this.settle();
    const endMs = this.#nowMs + ms;
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.action();
    }
    this.#nowMs = endMs;
    await this.settle();
  }
}

/** Asserts on a rejection without losing its type. */
export async function failureOf(promise: Promise<unknown>): Promise<ConcordError> {
  try {
    await promise;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return thrown;
    throw thrown;
  }
  throw new Error("expected a failure");
}
