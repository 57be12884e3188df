import type { KeyValue } from "@concord/ports";
import type { Service, ServiceHost } from "@concord/rpc";
import { assert, ConcordError, type Log } from "@concord/runtime";
import type { StorageProxyConfig } from "./config.ts";
import type { NodeParts, Parts } from "./node-parts.ts";

/** What the composition gives: the steps of the start, in order. */
export interface StorageProxyWiring {
  readonly config: StorageProxyConfig;
  readonly log: Log;
  openStore(): Promise<KeyValue>;
  services(store: KeyValue, parts: Parts): { readonly replica: Service; readonly all: readonly Service[] };
  host(services: readonly Service[]): Promise<ServiceHost>;
  /** Joins the ring, or copies the store from it (TXR4). */
  form(store: KeyValue, signal: AbortSignal): Promise<void>;
  open(store: KeyValue): Promise<NodeParts>;
  closePeers(): void;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "stopped" }
  | { readonly kind: "starting"; readonly store: KeyValue; readonly host: ServiceHost | undefined }
  | { readonly kind: "serving"; readonly store: KeyValue; readonly host: ServiceHost; readonly parts: NodeParts };

/** One storage-proxy node: make the store safe, then serve; drain, then close. */
export class StorageProxyService {
  readonly #wiring: StorageProxyWiring;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #stopped: Promise<void> | undefined;

  constructor(wiring: StorageProxyWiring) {
    this.#wiring = wiring;
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready;
  }

  /** Resolves when the node serves. Until then peers are answered Hello and everybody else STARTING. Rejects when it must not start. */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    const store = await this.#wiring.openStore();
    this.#state = { kind: "starting", store, host: undefined };
    try {
      const { replica, all } = this.#wiring.services(store, () => this.#parts());
      replica.setState("serving");
      const host = await this.#wiring.host(all);
      this.#state = { kind: "starting", store, host };
      await this.#wiring.form(store, this.#stopping.signal);
      const parts = await this.#wiring.open(store);
      this.#stopping.signal.throwIfAborted();
      // The store is part of the ring and its logs are loaded: only now anybody is answered (TXR4).
      this.#state = { kind: "serving", store, host, parts };
      host.setServing();
      parts.batches.replay.start();
      parts.purge.start();
      this.#wiring.log.info("serving", { address: host.address });
      return { address: host.address };
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
  }

  /** Ends calls in flight, then closes the store. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the node is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    if (state.kind === "new" || state.kind === "stopped") return;
    await state.host?.drain(this.#wiring.config.drainGraceMs);
    this.#state = { kind: "stopped" };
    if (state.kind === "serving") {
      state.parts.purge.stop();
      await state.parts.batches.replay.stop();
      await state.parts.engine.whenIdle();
    }
    this.#wiring.closePeers();
    await state.store.close().catch(() => this.#wiring.log.warn("the store did not close well"));
  }

  #parts(): NodeParts {
    if (this.#state.kind === "serving") return this.#state.parts;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this node is not part of its ring yet");
  }
}
