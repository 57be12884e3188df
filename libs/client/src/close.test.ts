// `close` over a real connection, with timers that the test moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputService } from "@concord/protos-dedup";
import { fakeService, grpcTransport, tokenAuthenticator } from "@concord/rpc";
import { silentLog, silentMetrics, type Clock, type Random } from "@concord/runtime";
import { connectThrough } from "./connect-through.ts";
import { ConcordClientError } from "./errors.ts";

/** Own deadline of the call, and the end of a test that waits in vain. */
const DEADLINE_MS = 60_000;

/** The real time, but timers fire when the test moves them. */
class HeldTimers implements Clock {
  readonly #timers = new Set<{ readonly delayMs: number; readonly action: () => void }>();

  nowMs = (): number => Date.now();
  nowUs = (): bigint => BigInt(Date.now()) * 1000n;
  monotonicMs = (): number => performance.now();
  defer = (action: () => void): void => void setImmediate(action);
  setTimer = (delayMs: number, action: () => void): { cancel(): void } => {
    const timer = { delayMs, action };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  };

  /** Fires what is due within that time. */
  pass(ms: number): void {
    const due = [...this.#timers].filter(({ delayMs }) => delayMs <= ms);
    for (const timer of due) {
      this.#timers.delete(timer);
      timer.action();
    }
  }
}

test("close: a call that its server does not answer: ends within a second, not at its deadline, and is not repeated", async (t) => {
  const begun = Promise.withResolvers<void>();
  let calls = 0;
  const hang = (): Promise<never> => {
    calls += 1;
    begun.resolve();
    return new Promise(() => undefined);
  };
  const clock = new HeldTimers();
  const transport = grpcTransport({ clock, log: silentLog, metrics: silentMetrics });
  const environment = { clock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };
  const service = fakeService({
    contract: OutputService,
    answers: { GetBounds: hang },
    intercept: (call) => call.answer(),
    role: "client",
    streams: { Consume: () => Promise.resolve() },
    environment,
  });
  const listener = await transport.serve("127.0.0.1:0", service.methods);
  t.after(() => listener.drain(0));
  const random = { bytes: (count: number) => new Uint8Array(count), int: () => 0, float: () => 0 } as unknown as Random;
  const db = await connectThrough({ dedupWorker: listener.address }, { clock, random, transport });
  const call = db.messages.bounds(0, { timeoutMs: DEADLINE_MS }).then(
    () => undefined,
    (error: unknown) => error,
  );
  await begun.promise;
  db.close();
  clock.pass(1_000);
  const error = await call;
  assert.ok(error instanceof ConcordClientError, String(error));
  assert.notEqual(error.code, "DEADLINE_EXCEEDED", "not its own deadline");
  assert.equal(calls, 1);
});
