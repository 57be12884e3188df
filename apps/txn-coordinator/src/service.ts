import type { Service, ServiceHost } from "@concord/rpc";
import { assert, type Environment } from "@concord/runtime";
import type { Groups } from "./groups/groups.ts";
import type { SchemaCache } from "./schema/schema-cache.ts";

/** What the composition gives. */
export interface TxnCoordinatorWiring {
  readonly environment: Environment;
  readonly groups: Groups;
  readonly schema: SchemaCache;
  readonly services: readonly Service[];
  readonly drainGraceMs: number;
  host(services: readonly Service[]): Promise<ServiceHost>;
  close(): void;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "starting"; readonly host: ServiceHost }
  | { readonly kind: "serving"; readonly host: ServiceHost }
  | { readonly kind: "stopped" };

/** One txn-coordinator: take its groups over, then serve; drain, then close. */
export class TxnCoordinatorService {
  readonly #wiring: TxnCoordinatorWiring;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };

  constructor(wiring: TxnCoordinatorWiring) {
    this.#wiring = wiring;
  }

  /** Serving, and every own group under its epoch. */
  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#wiring.groups.ready;
  }

  /** Resolves when every own group serves; until then everybody is answered STARTING. Rejects when it must not start. */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    const { groups, schema, services, environment } = this.#wiring;
    const host = await this.#wiring.host(services);
    this.#state = { kind: "starting", host };
    groups.boundTo(host.address);
    try {
      // Raise and apply first (TXD2): nobody is answered from before the takeover.
      await groups.start(this.#stopping.signal);
      await schema.reload();
      if (this.#stopping.signal.aborted) return { address: host.address };
      this.#state = { kind: "serving", host };
      host.setServing();
      environment.log.info("serving", { address: host.address, groups: groups.own.map((group) => group.group).join(" ") });
      return { address: host.address };
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
  }

  /** New calls get DRAINING, open transactions are aborted with it, commits are finished and applied. Never rejects; a second call does nothing. */
  async stop(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    this.#stopping.abort();
    if (state.kind === "starting" || state.kind === "serving") {
      const { drainGraceMs, groups } = this.#wiring;
      await Promise.all([state.host.drain(drainGraceMs), groups.stop(drainGraceMs)]);
    }
    this.#wiring.close();
  }
}
