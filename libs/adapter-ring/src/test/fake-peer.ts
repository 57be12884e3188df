// A peer's ReplicaService whose answers the test writes, over the in-process network; time by hand.
import { ReplicaService } from "@concord/protos-storage";
import { defineUntypedService, MemoryTransport, tokenAuthenticator, type Service, type UnaryHandler } from "@concord/rpc";
import { silentLog, silentMetrics, type Clock, type Listener, type Timer } from "@concord/runtime";
import { PeerSession } from "../index.ts";

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

export class FakePeer {
  readonly clock = new ManualClock();
  readonly transport = new MemoryTransport({ clock: this.clock });
  /** Requests by operation, oldest first. */
  readonly requests: { readonly operation: string; readonly request: Record<string, unknown> }[] = [];
  readonly answers: Record<string, (request: Record<string, unknown>) => Promise<object>> = {};
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
      self: "n1",
      members: ["n1", "n2", "n3"],
    });
  }

  #service(): Service {
    const unary = Object.fromEntries(
      Object.keys(ReplicaService.methods)
        .filter((name) => name !== "Session")
        .map((name) => [name, this.#handler(name)]),
    );
    const roles = Object.fromEntries(Object.keys(unary).map((name) => [name, ["peer"] as const]));
    const authenticator = tokenAuthenticator([{ role: "peer", token: TOKEN }]);
    const environment = { clock: this.clock, log: silentLog, metrics: silentMetrics, authenticator };
    const service = defineUntypedService({ contract: ReplicaService, unary, roles }, environment);
    service.setState("serving");
    return service;
  }

  #handler(operation: string): UnaryHandler {
    return async (request: Record<string, unknown>) => {
      this.requests.push({ operation, request });
      return (await this.answers[operation]?.(request)) ?? {};
    };
  }
}
