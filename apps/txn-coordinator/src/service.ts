import type { SchemaCache } from "@concord/schema";
import type { ServiceHost } from "@concord/rpc";
import { assert, type Log } from "@concord/runtime";
import type { Groups } from "./groups/groups.ts";

export interface TxnCoordinatorServiceOptions {
  readonly log: Log;
  readonly groups: Groups;
  readonly schema: SchemaCache;
  readonly drainGraceMs: number;
  host(): Promise<ServiceHost>;
  /** Ends the waits for a worker id. */
  stopIds(): void;
  close(): void;
}

type State = { readonly kind: "new" | "binding" | "stopped" } | { readonly kind: "starting" | "serving"; readonly host: ServiceHost };

/** One txn-coordinator: take its groups over, then serve; drain, then close. */
export class TxnCoordinatorService {
  readonly #options: TxnCoordinatorServiceOptions;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #stopped: Promise<void> | undefined;

  constructor(options: TxnCoordinatorServiceOptions) {
    this.#options = options;
  }

  /** Serving, and every own group under its epoch. */
  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#options.groups.ready;
  }

  /** Resolves when every own group serves; until then calls get STARTING. Rejects when the process must not start. */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    this.#state = { kind: "binding" };
    const { groups, schema, log } = this.#options;
    const host = await this.#options.host();
    this.#state = { kind: "starting", host };
    groups.boundTo(host.address);
    try {
      this.#stopping.signal.throwIfAborted();
      // Raise and apply first (TXD2): no answer shows the state before the takeover.
      await groups.start(this.#stopping.signal);
      await schema.reload();
      this.#stopping.signal.throwIfAborted();
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
    this.#state = { kind: "serving", host };
    host.setServing();
    log.info("serving", { address: host.address, groups: groups.own.map((group) => group.group).join(" ") });
    return { address: host.address };
  }

  /** New calls get DRAINING, open transactions are aborted with it, commits are finished and applied. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort();
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    const { drainGraceMs, groups } = this.#options;
    this.#state = { kind: "stopped" };
    if ("host" in state) await Promise.all([state.host.drain(drainGraceMs), groups.stop(drainGraceMs)]);
    this.#options.stopIds();
    this.#options.close();
  }
}
