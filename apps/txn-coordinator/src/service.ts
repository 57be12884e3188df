import type { SchemaCache } from "@concord/schema";
import { startSharedHost, type HostOptions, type Part, type Service, type ServiceHost, type SharedHost } from "@concord/rpc";
import { assert, ConcordError, type Log, type StartWaits } from "@concord/runtime";
import { CLOSE_SHARE } from "./limits.ts";
import type { Groups } from "./groups/groups.ts";
import type { SpaceWatch } from "./space-watch.ts";
import type { StallWatch } from "./stall-watch.ts";
import { transactionsPage, type TransactionsPage } from "./transactions-page.ts";

export interface TxnCoordinatorServiceOptions {
  readonly log: Log;
  readonly groups: Groups;
  readonly schema: SchemaCache;
  readonly stalls: StallWatch;
  readonly space: SpaceWatch | undefined;
  readonly startWaits: StartWaits;
  readonly drainGraceMs: number;
  readonly services: readonly Service[];
  /** What heartbeats need on a host of its own; it serves as long as the host does. */
  readonly heartbeats: readonly Service[];
  /** Of a host of its own. */
  readonly host: Omit<HostOptions, "services">;
  /** Ends the waits for a worker id. */
  stopIds(): void;
  close(): void;
}

type State = { readonly kind: "new" | "opened" | "stopped" } | { readonly kind: "starting" | "serving"; readonly host: ServiceHost };

/** One txn-coordinator: take its groups over, then serve; hand them over, drain, then close. */
export class TxnCoordinatorService implements Part<{ readonly address: string }> {
  readonly #options: TxnCoordinatorServiceOptions;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #alone: Promise<SharedHost> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: TxnCoordinatorServiceOptions) {
    this.#options = options;
  }

  /** Serving, and every own group under its epoch. */
  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#options.groups.ready;
  }

  /** The admin page /transactions: what is open here, and which locks wait for which. */
  transactions(): TransactionsPage {
    const { own, heldBytes } = this.#options.groups;
    return transactionsPage(own, heldBytes);
  }

  /** On a host of its own. Resolves when every own group serves; until then calls get STARTING. Rejects when the process must not start. */
  async start(): Promise<{ readonly address: string }> {
    const { host: options, heartbeats } = this.#options;
    const services = await this.open();
    this.#alone = startSharedHost({ ...options, services: [...services, ...heartbeats] });
    let host: SharedHost;
    try {
      host = await this.#alone;
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
    return this.serve(host.hostOf(services));
  }

  async open(): Promise<readonly Service[]> {
    this.#stopping.signal.throwIfAborted();
    assert(this.#state.kind === "new", "a service starts once");
    this.#state = { kind: "opened" };
    return this.#options.services;
  }

  async serve(host: ServiceHost): Promise<{ readonly address: string }> {
    const { signal } = this.#stopping;
    if (signal.aborted) await host.drain(0);
    signal.throwIfAborted();
    assert(this.#state.kind === "opened", "a part opens before it serves");
    this.#state = { kind: "starting", host };
    const { groups, schema, startWaits, log } = this.#options;
    groups.boundTo(host.address);
    try {
      // Raise and apply first (TXD2): no answer shows the state before the takeover.
      await groups.start(signal);
      await startWaits.until("the schema", () => schema.reload(), { signal });
      await this.#options.space?.start();
      signal.throwIfAborted();
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
    this.#state = { kind: "serving", host };
    this.#options.stalls.start();
    host.setServing();
    log.info("serving", { address: host.address, groups: groups.own.map((group) => group.group).join(" ") });
    return { address: host.address };
  }

  /** Other coordinators take the groups over; then new calls get DRAINING, what is left open is aborted with it, commits are finished. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the coordinator is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    const { drainGraceMs, groups } = this.#options;
    this.#state = { kind: "stopped" };
    const { clock } = this.#options.host;
    const endsAtMs = clock.monotonicMs() + drainGraceMs;
    if (state.kind === "serving") await groups.units.handOver(drainGraceMs);
    const leftMs = Math.max(0, endsAtMs - clock.monotonicMs());
    if ("host" in state) await Promise.all([state.host.drain(leftMs), groups.stop(leftMs)]);
    this.#options.stalls.stop();
    this.#options.space?.stop();
    this.#options.stopIds();
    // The others hear this member until its commits are finished: a lost one could not finish them.
    const host = await this.#alone?.catch(() => undefined);
    await host?.close(drainGraceMs * CLOSE_SHARE);
    this.#options.close();
  }
}
