import { startHost, type Authenticator, type ServiceHost } from "@concord/rpc";
import { assert, ConcordError } from "@concord/runtime";
import type { BackendOptions, OpenBackend, OpenedBackend } from "./backend-definition.ts";
import type { StorageProxyConfig } from "./config.ts";
import { createContext, type Context } from "./context.ts";
import { OutcomeRetention } from "./rows/outcome-retention.ts";
import { WriteClock } from "./rows/write-clock.ts";
import { defineServices } from "./rpc/services.ts";

export interface StorageProxyServiceOptions extends Omit<BackendOptions<StorageProxyConfig>, "drawTimestampUs"> {
  readonly authenticator: Authenticator;
  readonly openBackend: OpenBackend<StorageProxyConfig>;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "starting"; readonly opened: OpenedBackend; readonly host: ServiceHost | undefined }
  | {
      readonly kind: "serving";
      readonly opened: OpenedBackend;
      readonly host: ServiceHost;
      readonly context: Context;
      readonly retention: OutcomeRetention;
    }
  | { readonly kind: "stopped" };

/** One storage-proxy node: make what is stored safe, then serve; drain, then close. */
export class StorageProxyService {
  readonly #options: StorageProxyServiceOptions;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #stopped: Promise<void> | undefined;

  constructor(options: StorageProxyServiceOptions) {
    this.#options = options;
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#state.opened.backend.ready;
  }

  /**
   * Resolves when the node serves. Until then calls get STARTING, but for those of the backend's own services that it needs in order
   * to start. Rejects when the node must not start, or is stopped meanwhile.
   */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    const { config, environment, authenticator } = this.#options;
    const { clock, log, transport } = environment;
    const writeClock = new WriteClock(clock);
    const opened = await this.#options.openBackend({ ...this.#options, drawTimestampUs: () => writeClock.draw() });
    const { backend } = opened;
    const { signal } = this.#stopping;
    this.#state = { kind: "starting", opened, host: undefined };
    try {
      signal.throwIfAborted();
      const ours = defineServices({ environment, authenticator, serving: () => this.#context() });
      const services = [...ours, ...opened.services];
      const host = await startHost({ transport, address: config.listenAddress, services, clock, log, reflection: config.reflection });
      if (signal.aborted) await host.drain(0);
      signal.throwIfAborted();
      this.#state = { kind: "starting", opened, host };
      await backend.start(signal);
      signal.throwIfAborted();
      const context = createContext({ config, environment, backend, writeClock });
      const retention = new OutcomeRetention({ backend, environment, outcomeRetentionMs: config.outcomeRetentionMs });
      // Everything acknowledged earlier is there: only now is anything answered.
      this.#state = { kind: "serving", opened, host, context, retention };
      host.setServing();
      retention.start();
      log.info("serving", { address: host.address });
      return { address: host.address };
    } catch (thrown) {
      await this.stop();
      // A stop that came while the backend was being opened found nothing to close.
      await backend.stop();
      this.#state = { kind: "stopped" };
      throw thrown;
    }
  }

  /** Ends calls in flight, then closes the backend. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the node is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    if (state.kind === "new" || state.kind === "stopped") return;
    await state.host?.drain(this.#options.config.drainGraceMs);
    this.#state = { kind: "stopped" };
    if (state.kind === "serving") state.retention.stop();
    await state.opened.backend.stop();
  }

  #context(): Context {
    if (this.#state.kind === "serving") return this.#state.context;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this node does not serve yet");
  }
}
