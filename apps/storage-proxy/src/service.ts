import { startAlone, type Authenticator, type Part, type Service, type ServiceHost } from "@concord/rpc";
import { assert, ConcordError, StopProgress, WRITES_TAKEN, type Writes } from "@concord/runtime";
import type { BackendOptions, OpenBackend, OpenedBackend } from "./backend-definition.ts";
import type { StorageProxyConfig } from "./config.ts";
import { createContext, type Context, type Serving } from "./context.ts";
import { directStores, type DirectStores } from "./direct-stores.ts";
import { OutcomeRetention } from "./rows/outcome-retention.ts";
import { WriteClock } from "./rows/write-clock.ts";
import { defineServices } from "./rpc/services.ts";

export interface StorageProxyServiceOptions extends Omit<BackendOptions<StorageProxyConfig>, "drawTimestampUs" | "writeClock"> {
  readonly authenticator: Authenticator;
  readonly openBackend: OpenBackend<StorageProxyConfig>;
}

type State =
  | { readonly kind: "new" | "opening" | "stopped" }
  | { readonly kind: "opened"; readonly opened: OpenedBackend }
  | { readonly kind: "starting"; readonly opened: OpenedBackend; readonly host: ServiceHost }
  | {
      readonly kind: "serving";
      readonly opened: OpenedBackend;
      readonly host: ServiceHost;
      readonly context: Context;
      readonly retention: OutcomeRetention;
    };

/** One storage-proxy node: make what is stored safe, then serve; drain, then close. */
export class StorageProxyService implements Part<{ readonly address: string }> {
  /** The node's rows and group log for other parts of the process: refused with STARTING and DRAINING as its calls are. */
  readonly stores: DirectStores = directStores(() => this.#context());
  /** For `relayedStores`. */
  readonly serving: Serving = () => this.#context();
  readonly #options: StorageProxyServiceOptions;
  readonly #stopping = new AbortController();
  readonly #writeClock: WriteClock;
  #state: State = { kind: "new" };
  #opened: Promise<OpenedBackend> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: StorageProxyServiceOptions) {
    this.#options = options;
    this.#writeClock = new WriteClock(options.environment);
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#state.opened.backend.ready;
  }

  /** Known once it is open. */
  get writes(): Writes {
    return ("opened" in this.#state ? this.#state.opened.writes : undefined) ?? WRITES_TAKEN;
  }

  /** Lines of /readyz that need an operator although the program works. */
  get warnings(): readonly string[] {
    const { warning } = this.#writeClock;
    return warning === undefined ? [] : [warning];
  }

  /** The admin page /replicas: how far each replica is behind, and the clock behind the timestamps of rows. */
  async replicas(): Promise<object> {
    this.#context();
    const replicas = this.#state.kind === "serving" ? this.#state.opened.replicas : undefined;
    const { aheadMs: writeClockAheadMs } = this.#writeClock;
    return { ...((await replicas?.()) ?? { replicas: "of the engine" }), writeClockAheadMs };
  }

  /**
   * On a host of its own. Resolves when the node serves. Until then calls get STARTING, but for those of the backend's own services that
   * it needs in order to start. Rejects when the node must not start, or is stopped meanwhile.
   */
  start(): Promise<{ readonly address: string }> {
    const { environment, authenticator, config } = this.#options;
    return startAlone(this, { ...environment, authenticator, address: config.listenAddress, reflection: config.reflection });
  }

  async open(): Promise<readonly Service[]> {
    this.#stopping.signal.throwIfAborted();
    assert(this.#state.kind === "new", "a service starts once");
    this.#state = { kind: "opening" };
    const { environment, authenticator, openBackend } = this.#options;
    this.#opened = openBackend({ ...this.#options, drawTimestampUs: () => this.#writeClock.draw(), writeClock: this.#writeClock });
    const opened = await this.#opened;
    this.#state = { kind: "opened", opened };
    // The stop waits for it and closes it.
    this.#stopping.signal.throwIfAborted();
    const { writes = WRITES_TAKEN } = opened;
    return [...defineServices({ environment, authenticator, writes, serving: () => this.#context() }), ...opened.services];
  }

  async serve(host: ServiceHost): Promise<{ readonly address: string }> {
    const { signal } = this.#stopping;
    if (signal.aborted) await host.drain(0);
    signal.throwIfAborted();
    assert(this.#state.kind === "opened", "a part opens before it serves");
    const { opened } = this.#state;
    this.#state = { kind: "starting", opened, host };
    try {
      await opened.backend.start(signal);
      await this.#writeClock.open(opened.backend.writeMark);
      signal.throwIfAborted();
    } catch (thrown) {
      await this.stop();
      throw thrown;
    }
    return this.#beginServing(opened, host);
  }

  #beginServing(opened: OpenedBackend, host: ServiceHost): { readonly address: string } {
    const { config, environment } = this.#options;
    const { backend } = opened;
    const context = createContext({ config, environment, backend, writeClock: this.#writeClock });
    const retention = new OutcomeRetention({ backend, environment, outcomeRetentionMs: config.outcomeRetentionMs });
    // Everything acknowledged earlier is there: only now is anything answered.
    this.#state = { kind: "serving", opened, host, context, retention };
    host.setServing();
    if (opened.writes?.kind !== "refused") retention.start();
    environment.log.info("serving", { address: host.address });
    return { address: host.address };
  }

  /** Ends calls in flight, then closes the backend. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the node is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const { stopProgress = new StopProgress() } = this.#options.environment;
    // A backend that is being opened is closed once it is open.
    await stopProgress.during("the opening of the store of rows", async () => this.#opened?.catch(() => undefined));
    const state = this.#state;
    if ("host" in state) await state.host.drain(this.#options.config.drainGraceMs);
    this.#state = { kind: "stopped" };
    if (state.kind === "serving") state.retention.stop();
    if ("opened" in state) await stopProgress.during("the store of rows", () => state.opened.backend.stop());
  }

  #context(): Context {
    if (this.#state.kind === "serving") return this.#state.context;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this node does not serve yet");
  }
}
