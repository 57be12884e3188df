import type { KeyValue } from "@concord/ports";
import type { Service, ServiceHost } from "@concord/rpc";
import { assert, ConcordError, toConcordError, type Environment, type Timer } from "@concord/runtime";
import type { StorageProxyConfig } from "./config.ts";
import { PURGE_INTERVAL_MS } from "./limits.ts";
import type { NodeParts, Parts } from "./node-parts.ts";
import { purgeOutcomes } from "./rows/purge-outcomes.ts";

/** What the composition gives: each step of the start, in order. */
export interface StorageProxyWiring {
  readonly config: StorageProxyConfig;
  readonly environment: Environment;
  openStore(): Promise<KeyValue>;
  services(store: KeyValue, parts: Parts): { readonly replica: Service; readonly all: readonly Service[] };
  host(services: readonly Service[]): Promise<ServiceHost>;
  /** Joins the ring, or copies the store from it (TXR4). */
  form(store: KeyValue, signal: AbortSignal): Promise<void>;
  /** `onFailed`: the store failed; the node must stop and recover. */
  build(store: KeyValue, onFailed: (cause: ConcordError) => void): Promise<NodeParts>;
  closePeers(): void;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "starting"; readonly store: KeyValue; readonly host: ServiceHost | undefined }
  | { readonly kind: "serving"; readonly store: KeyValue; readonly host: ServiceHost; readonly parts: NodeParts }
  | { readonly kind: "stopped" };

/** One storage-proxy node: make the store safe, then serve; drain, then close. */
export class StorageProxyService {
  readonly #wiring: StorageProxyWiring;
  readonly #onFailed: (cause: ConcordError) => void;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #purgeTimer: Timer | undefined;

  constructor(wiring: StorageProxyWiring, onFailed: (cause: ConcordError) => void) {
    this.#wiring = wiring;
    this.#onFailed = onFailed;
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready;
  }

  /** Resolves when the node serves. Until then peers are answered Hello and everybody else STARTING. Rejects when it must not start. */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    const { environment } = this.#wiring;
    const store = await this.#wiring.openStore();
    this.#state = { kind: "starting", store, host: undefined };
    try {
      const { replica, all } = this.#wiring.services(store, () => this.#parts());
      replica.setState("serving");
      const host = await this.#wiring.host(all);
      this.#state = { kind: "starting", store, host };
      await this.#wiring.form(store, this.#stopping.signal);
      const parts = await this.#wiring.build(store, this.#onFailed);
      // The store is part of the ring and its logs are loaded: only now anybody is answered (TXR4).
      this.#state = { kind: "serving", store, host, parts };
      host.setServing();
      environment.log.info("serving", { address: host.address });
      parts.batches.replay.start();
      this.#schedulePurge();
      return { address: host.address };
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
  }

  /** Ends calls in flight, then closes the store. Never rejects; a second call does nothing. */
  async stop(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    this.#stopping.abort();
    this.#purgeTimer?.cancel();
    if (state.kind === "new" || state.kind === "stopped") return;
    await state.host?.drain(this.#wiring.config.drainGraceMs);
    if (state.kind === "serving") {
      await state.parts.batches.replay.stop();
      await state.parts.engine.whenIdle();
    }
    this.#wiring.closePeers();
    await state.store.close().catch((thrown: unknown) => {
      this.#wiring.environment.log.warn("the store did not close well", { reason: toConcordError(thrown).message });
    });
  }

  #parts(): NodeParts {
    if (this.#state.kind === "serving") return this.#state.parts;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this node is not part of its ring yet");
  }

  #schedulePurge(): void {
    this.#purgeTimer = this.#wiring.environment.clock.setTimer(PURGE_INTERVAL_MS, () => void this.#purge());
  }

  async #purge(): Promise<void> {
    if (this.#state.kind !== "serving") return;
    const { engine, config } = this.#state.parts;
    const { clock, log, metrics } = this.#wiring.environment;
    try {
      const rows = await purgeOutcomes({
        reader: engine,
        runner: engine,
        nowMs: clock.nowMs(),
        outcomeRetentionMs: config.outcomeRetentionMs,
      });
      metrics.count("storage_outcomes_purged_total", rows);
    } catch (thrown) {
      log.warn("purging old outcomes failed", { reason: toConcordError(thrown).message });
    }
    if (!this.#stopping.signal.aborted) this.#schedulePurge();
  }
}
