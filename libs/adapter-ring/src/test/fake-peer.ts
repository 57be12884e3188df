// A peer's ReplicaService whose answers the test writes, over the in-process network; time by hand.
import type { UnaryMethod } from "@concord/protos";
import { ReplicaService } from "@concord/protos-storage";
import { fakeService, MemoryTransport, tokenAuthenticator, type FakeAnswers, type Service, type UnaryName } from "@concord/rpc";
import { silentLog, silentMetrics, TIMESTAMP_ZERO, type Clock, type Listener, type Timer } from "@concord/runtime";
import { PeerSession, RING_PROTOCOL } from "../index.ts";

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Deferred work runs by itself, timers when time is moved. */
export class ManualClock implements Clock {
  #ms = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly action: () => void }>();

  nowMs(): number {
    return this.#ms;
  }

  nowUs(): bigint {
    return BigInt(this.#ms) * 1000n;
  }

  monotonicMs(): number {
    return this.#ms;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#ms + delayMs, action };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  async pass(durationMs: number): Promise<void> {
    this.#ms += durationMs;
    for (const timer of this.#timers) if (timer.atMs <= this.#ms && this.#timers.delete(timer)) timer.action();
    for (let turns = 0; turns < 10; turns += 1) await turn();
  }
}

export const ADDRESS = "peer:1";
const TOKEN = "secret";

type Answers = { -readonly [Name in keyof FakeAnswers<ReplicaService>]: FakeAnswers<ReplicaService>[Name] };

export class FakePeer {
  readonly clock = new ManualClock();
  readonly transport = new MemoryTransport({ clock: this.clock });
  /** Requests by operation, oldest first. */
  readonly requests: { readonly operation: string; readonly request: object }[] = [];
  /** A method without one is answered with an empty message. */
  readonly answers: Answers = {};
  /** The version it names. */
  protocol = RING_PROTOCOL;
  #listener: Listener | undefined;

  async listen(): Promise<void> {
    this.#listener = await this.transport.serve(ADDRESS, this.#service().methods);
  }

  async hangUp(): Promise<void> {
    await this.#listener!.drain(0);
  }

  session(peerToken: string | undefined = TOKEN): PeerSession {
    const { transport, clock } = this;
    return new PeerSession({
      name: "n2",
      address: ADDRESS,
      transport,
      clock,
      log: silentLog,
      metrics: silentMetrics,
      peerToken,
      incarnation: "1f",
      self: "n1",
      members: ["n1", "n2", "n3"],
      writeClock: { markUs: TIMESTAMP_ZERO, saw: () => undefined },
    });
  }

  /** The requests of a method, oldest first. */
  requestsOf<M extends UnaryMethod>(method: M): ReturnType<M["decodeRequest"]>[] {
    const ours = this.requests.filter((one) => one.operation === method.name);
    return ours.map(({ request }) => request as ReturnType<M["decodeRequest"]>);
  }

  #service(): Service {
    const names = Object.keys(ReplicaService.methods).filter((name) => name !== "Session") as UnaryName<ReplicaService>[];
    // Looked up at the call: a test sets its answers when it likes.
    const answers = Object.fromEntries(names.map((name) => [name, this.#answer(name)]));
    const authenticator = tokenAuthenticator([{ role: "peer", token: TOKEN }]);
    return fakeService({
      contract: ReplicaService,
      answers,
      intercept: ({ method, request, answer }) => {
        this.requests.push({ operation: method, request });
        return answer();
      },
      role: "peer",
      environment: { clock: this.clock, log: silentLog, metrics: silentMetrics, authenticator },
    });
  }

  #answer<Name extends UnaryName<ReplicaService>>(name: Name): NonNullable<FakeAnswers<ReplicaService>[Name]> {
    const ours = (): object => (name === "Hello" ? { protocol: this.protocol } : {});
    return ((request, context) => this.answers[name]?.(request, context) ?? ours()) as NonNullable<FakeAnswers<ReplicaService>[Name]>;
  }
}
